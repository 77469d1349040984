// SPDX-License-Identifier: Apache-2.0
#include "tools/common/cluster_flags.h"

#include <gflags/gflags.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "io/base/regular_file.h"

DEFINE_string(ps_hosts, "", "the servers of the job: HOST:PORT,HOST:PORT,... by task_index");
DEFINE_string(worker_hosts, "", "the workers of the job: HOST,HOST,... by task_index");
DEFINE_string(job_name, "", "role of this process in the job: ps or worker");
DEFINE_uint64(task_index, 0,
              "index of this process in its role, from 0; worker 0 evaluates and saves");
DEFINE_string(
    token_file, "",
    "file (mode 600) with the secret token of the job; peers without the token are rejected");
DEFINE_string(tls_cert, "",
              "PEM certificate of this process; mutual TLS needs all three tls flags");
DEFINE_string(tls_key, "", "PEM private key of this process");
DEFINE_string(
    tls_ca, "",
    "PEM certificates of the authorities that sign the certificates of the other processes");

namespace millrace::tools {

FlagGroup ServerFlags() {
  return {"The job",
          {"ps_hosts", "worker_hosts", "job_name", "task_index", "token_file", "tls_cert",
           "tls_key", "tls_ca"},
          {{"job_name", OneOf({"ps", "worker"})},
           {"token_file", File()},
           {"tls_cert", File()},
           {"tls_key", File()},
           {"tls_ca", File()}}};
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    const size_t begin = word.find_first_not_of(' '), end = word.find_last_not_of(' ');
    if (begin != word.npos) words.push_back(word.substr(begin, end - begin + 1));
  }
  return words;
}

Result<std::vector<ps::HostPort>> PsHostsFromFlags() {
  std::vector<ps::HostPort> hosts;
  for (const std::string& word : SplitList(FLAGS_ps_hosts)) {
    const Result<ps::HostPort> host = ps::ParseHostPort(word);
    if (!host.ok()) return Invalid("--ps_hosts: " + host.status().message());
    hosts.push_back(*host);
  }
  return hosts;
}

std::vector<std::string> WorkerHostsFromFlags() { return SplitList(FLAGS_worker_hosts); }

Result<ps::TlsFiles> TlsFromFlags() {
  const ps::TlsFiles files = {.cert = FLAGS_tls_cert, .key = FLAGS_tls_key, .ca = FLAGS_tls_ca};
  RETURN_IF_ERROR(files.Validate());
  // The errors of OpenSSL do not name the file.
  const std::pair<const char*, std::string> flags[] = {
      {"--tls_cert=", files.cert}, {"--tls_key=", files.key}, {"--tls_ca=", files.ca}};
  for (const auto& [flag, path] : flags) {
    if (path.empty()) continue;
    if (::access(path.c_str(), R_OK) != 0) return IoError(flag + path, errno);
    const Result<int> fd = OpenRegularFile(path, O_RDONLY);
    if (!fd.ok()) return Status(fd.status().code(), flag + fd.status().message());
    ::close(*fd);
  }
  return files;
}

Result<std::string> TokenFromFlags() {
  if (FLAGS_token_file.empty()) return std::string();
  const std::string flag = "--token_file=" + FLAGS_token_file;
  struct stat info = {};
  if (::stat(FLAGS_token_file.c_str(), &info) != 0) return IoError(flag, errno);
  // A secret that is mounted into a pod belongs to root and is read through the group.
  const mode_t others = info.st_uid == 0 ? 037 : 077;
  if ((info.st_mode & others) != 0) {
    return Invalid(flag + ": expected a file that only its owner can read (chmod 600)");
  }
  const Result<std::string> text = ReadRegularFile(FLAGS_token_file);
  if (!text.ok()) return Status(text.status().code(), "--token_file: " + text.status().message());
  const std::string token = text->substr(0, text->find('\n'));
  if (token.empty()) return Invalid(flag + ": expected a token, found an empty line");
  return token;
}

std::string ProcessName() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + ", pid " + std::to_string(::getpid());
}

}  // namespace millrace::tools
