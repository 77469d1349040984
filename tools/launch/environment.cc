// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/environment.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <sstream>

namespace millrace::launch {
namespace {

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<size_t> Number(const char* name) {
  const std::string text = Variable(name).value_or("");
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return Invalid(std::string(name) + "='" + text + "': expected a number");
}

Status Fill(const char* rank_name, const char* size_name, Rank& rank) {
  ASSIGN_OR_RETURN(rank.rank, Number(rank_name));
  ASSIGN_OR_RETURN(rank.size, Number(size_name));
  if (rank.rank < rank.size) return {};
  return Invalid(std::string(rank_name) + "=" + std::to_string(rank.rank) +
                 ": expected less than " + size_name + "=" + std::to_string(rank.size));
}

Result<std::optional<Rank>> OpenMpiRank() {
  Rank rank;
  RETURN_IF_ERROR(Fill("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", rank));
  rank.starter = "mpirun";
  rank.one_host = Variable("OMPI_COMM_WORLD_LOCAL_SIZE") == Variable("OMPI_COMM_WORLD_SIZE");
  rank.job = Variable("PMIX_NAMESPACE").value_or("");
  return std::optional(rank);
}

Result<std::optional<Rank>> SlurmRank() {
  Rank rank;
  const bool is_step = Variable("SLURM_STEP_ID").has_value();
  const bool has_step_size = Variable("SLURM_STEP_NUM_TASKS").has_value();
  RETURN_IF_ERROR(
      Fill("SLURM_PROCID", has_step_size ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", rank));
  rank.starter = "srun";
  rank.is_task = is_step;
  const std::string nodes =
      Variable("SLURM_STEP_NUM_NODES").value_or(Variable("SLURM_NNODES").value_or(""));
  rank.one_host = nodes == "1";
  rank.job = Variable("SLURM_JOB_ID").value_or("");
  if (is_step) rank.job += "." + *Variable("SLURM_STEP_ID");
  rank.attempt = Variable("SLURM_RESTART_COUNT").value_or("0");
  return std::optional(rank);
}

}  // namespace

Result<std::optional<Rank>> RankFromEnvironment() {
  if (Variable("OMPI_COMM_WORLD_RANK")) return OpenMpiRank();
  if (Variable("SLURM_PROCID")) return SlurmRank();
  return std::optional<Rank>();
}

Result<PodEnvironment> PodFromEnvironment() {
  PodEnvironment pod;
  pod.tf_config = Variable("TF_CONFIG");
  if (Variable("JOB_COMPLETION_INDEX")) {
    ASSIGN_OR_RETURN(pod.completion_index, Number("JOB_COMPLETION_INDEX"));
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  pod.host_name = host;
  return pod;
}

std::string SearchPath() { return Variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin"); }

std::string SshServerAddress() {
  // "CLIENT_ADDRESS CLIENT_PORT SERVER_ADDRESS SERVER_PORT"
  std::istringstream words(Variable("SSH_CONNECTION").value_or(""));
  std::string client, client_port, server;
  words >> client >> client_port >> server;
  return server;
}

}  // namespace millrace::launch
