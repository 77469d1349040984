// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/job.h"

#include <signal.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "tools/common/progress.h"
#include "tools/common/text_table.h"
#include "tools/launch/child/token_file.h"
#include "tools/launch/hosts.h"
#include "tools/launch/plan/policy.h"
#include "tools/launch/process_group.h"
#include "tools/launch/rendezvous.h"
#include "tools/launch/supervisor.h"

namespace millrace::launch {
namespace {

// inotify does not report notes that ranks on other hosts write through a network file system, so
// these are polled: often while the job starts, rarely later.
constexpr int64_t kStartPollMs = 50;
constexpr int64_t kPollMs = 1000;
constexpr int64_t kFailedMs = 3000;  // for a process to exit when the job has failed

std::string RankNote(size_t rank) { return "rank-" + std::to_string(rank); }
std::string AddressNote(size_t server) { return "address-" + std::to_string(server); }
std::string StartedNote(size_t rank) { return "started-" + std::to_string(rank); }
constexpr char kFinishedNote[] = "finished";  // worker 0 has exited with status 0
std::string FailureNote(ProcessId id) { return "failed-" + NameOf(id); }

class RankJob {
 public:
  RankJob(const LaunchOptions& options, const Rank& rank, std::string directory,
          Rendezvous& rendezvous, Supervisor& supervisor, Console& console)
      : options_(options),
        rank_(rank),
        id_(ProcessOfRank(rank.rank, options.shape)),
        directory_(std::move(directory)),
        rendezvous_(rendezvous),
        supervisor_(supervisor),
        console_(console) {}

  Result<int> Run() {
    own_host_ = ReportThisHost(OwnAddress(rank_.one_host), directory_, {});
    const Status met = WaitForRanks();
    if (stop_signal_ != 0) return 128 + stop_signal_;
    if (failure_) return failure_->status;
    RETURN_IF_ERROR(PostIfFailed(met));
    RETURN_IF_ERROR(PostIfFailed(StartProcess()));
    const int status = WaitForExit();
    if (failure_) return failure_->status;
    if (status == 0 && IsChief(id_)) return PostFinished();
    if (status == 0 || is_stopping_) return status;
    if (rendezvous_.Read(kFinishedNote)) {
      console_.Note(NameOf(id_) + " " + StatusText(status) + AfterTheEnd());
      return 0;
    }
    PostFailure(status, StatusText(status));
    return status;
  }

 private:
  // The failure of a process that the job needs.
  struct Failure {
    int status = 1;
    std::string text;  // "worker 1 on node2 exited with status 1"
  };

  bool is_server() const { return id_.role == Role::kServer; }

  Status PostOwnNotes() {
    if (rank_.rank == 0) {
      ASSIGN_OR_RETURN(const std::string token, RandomToken());
      RETURN_IF_ERROR(rendezvous_.Post("token", token));
    }
    return rendezvous_.Post(RankNote(rank_.rank), FormatReport(own_host_));
  }

  // The senders of the notes that this rank still needs to start its process.
  std::string MissingNotes() const {
    std::string missing;
    const auto need = [&](const std::string& note, const std::string& sender) {
      if (!rendezvous_.Read(note)) missing += (missing.empty() ? "" : ", ") + sender;
    };
    need("token", "rank 0");
    if (is_server()) return missing;
    for (size_t i = 0; i < options_.shape.num_ps; ++i)
      need(AddressNote(i), NameOf({Role::kServer, i}));
    for (size_t rank = options_.shape.num_ps; rank < rank_.size; ++rank)
      need(RankNote(rank), NameOf(ProcessOfRank(rank, options_.shape)));
    return missing;
  }

  // The ranks that this rank waits for. Meets rank 0 and posts the own notes first.
  Result<std::string> Missing() {
    ASSIGN_OR_RETURN(const bool met, rendezvous_.Meet());
    if (met && !std::exchange(has_met_, true)) RETURN_IF_ERROR(PostOwnNotes());
    return met ? MissingNotes() : std::string("rank 0");
  }

  // Waits for the notes of the other ranks.
  Status WaitForRanks() {
    const int64_t deadline_ms = NowMs() + options_.start_timeout_ms;
    while (true) {
      ASSIGN_OR_RETURN(const std::string missing, Missing());
      if (missing.empty()) return {};
      if (FindFailure()) {
        console_.Note(failure_->text + ": not starting " + NameOf(id_));
        return {};
      }
      if (NowMs() >= deadline_ms) {
        return NotFound("no message within " +
                        tools::DurationText(static_cast<double>(options_.start_timeout_ms) / 1000) +
                        " (--start_timeout) from " + missing);
      }
      for (const Event& event : Wait(std::min(deadline_ms, NowMs() + kStartPollMs))) {
        if (event.kind == Event::Kind::kSignal) stop_signal_ = event.signal_number;
      }
      if (stop_signal_ != 0) return Cancelled("stopped by a signal");
    }
  }

  std::vector<Event> Wait(int64_t deadline_ms) {
    std::vector<Event> events = supervisor_.Wait(deadline_ms, rendezvous_.watch());
    rendezvous_.ClearWatch();
    if (rank_.rank == 0) ServeRanks();
    return events;
  }

  // Rank 0 answers the others until all have come. The token goes when all have read it.
  void ServeRanks() {
    if (has_all_ranks_) return;
    const Result<bool> met = rendezvous_.Meet();
    if (!met.ok()) console_.Note(met.status().message());
    has_all_ranks_ = rendezvous_.Names("started-").size() >= rank_.size;
    if (has_all_ranks_) rendezvous_.Remove("token");
  }

  // Whether another rank has posted a failure that ends the job.
  bool FindFailure() {
    if (rendezvous_.Read(kFinishedNote)) return false;
    for (const std::string& note : rendezvous_.Names("failed-")) {
      const std::string name = note.substr(note.find('-') + 1);
      const bool is_needed = !name.starts_with("worker") || name == NameOf({Role::kWorker, 0}) ||
                             !SurvivesWorkers(options_);
      if (!is_needed || name == NameOf(id_)) continue;
      std::istringstream text(rendezvous_.Read(note).value_or("1 " + name + " failed"));
      failure_ = Failure{};
      text >> failure_->status >> std::ws;
      std::getline(text, failure_->text);
      return true;
    }
    return false;
  }

  void PostFailure(int status, const std::string& what) {
    const std::string text = NameOf(id_) + " on " + own_host_.info.name + " " + what;
    console_.Note(text);
    // If this fails, the other ranks notice it by their connections.
    const Status posted = rendezvous_.Post(FailureNote(id_), std::to_string(status) + " " + text);
    if (!posted.ok()) console_.Note(posted.message());
  }

  int PostFinished() {
    const Status posted = rendezvous_.Post(kFinishedNote, "");
    if (!posted.ok()) console_.Note(posted.message());
    return 0;
  }

  Status PostIfFailed(const Status& status) {
    if (!status.ok()) PostFailure(1, "was not started: " + status.message());
    return status;
  }

  Status StartProcess() {
    const std::string token = rendezvous_.Read("token").value_or("");
    JobFlags flags = {.num_ps = options_.shape.num_ps,
                      .num_workers = options_.shape.num_workers,
                      .ps_hosts = {},
                      .worker_hosts = {},
                      .tls = options_.tls};
    ShimTask task = {.directory = directory_, .command = {}, .token = token};
    if (is_server()) {
      task.command = ServerCommand(options_.server, options_.worker, flags, id_.index,
                                   JoinHostPort(own_host_.address, 0));
    } else {
      RETURN_IF_ERROR(ReadHosts(flags));
      task.command = WorkerCommand(options_.worker, flags, id_.index, Start::kFirst);
      if (options_.shape.num_ps == 0) task.token.clear();
    }
    ASSIGN_OR_RETURN(child_, supervisor_.Start(ShimCommand(options_, ""), 0,
                                               is_server() ? Watch::kLines : Watch::kNothing));
    supervisor_.SendTask(child_, task);
    return rendezvous_.Post(StartedNote(rank_.rank), "");
  }

  Status ReadHosts(JobFlags& flags) {
    std::vector<HostReport> hosts;
    tools::TextTable table({{"process"}, {"host"}, {"address"}, {"rank"}});
    for (size_t rank = 0; rank < rank_.size; ++rank) {
      ASSIGN_OR_RETURN(const HostReport host, ReadReport(rank));
      const ProcessId id = ProcessOfRank(rank, options_.shape);
      const bool is_worker = id.role == Role::kWorker;
      const std::string address =
          is_worker ? host.address : rendezvous_.Read(AddressNote(id.index)).value_or("");
      (is_worker ? flags.worker_hosts : flags.ps_hosts).push_back(address);
      table.Add({NameOf(id), host.info.name, address, std::to_string(rank)});
      const bool is_listed = std::any_of(hosts.begin(), hosts.end(), [&](const HostReport& h) {
        return h.info.name == host.info.name;
      });
      if (!is_listed) hosts.push_back(host);
    }
    if (IsChief(id_)) console_.Print(HostTable(hosts) + "\n" + table.Text() + "\n");
    return {};
  }

  Result<HostReport> ReadReport(size_t rank) const {
    std::vector<std::string> lines;
    const std::string text = rendezvous_.Read(RankNote(rank)).value_or("");
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      lines.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return ParseReport(lines);
  }

  // Returns the exit status of the process.
  int WaitForExit() {
    bool listens = !is_server();
    const int64_t listen_deadline_ms = NowMs() + options_.start_timeout_ms;
    while (true) {
      for (const Event& event : Wait(NextWakeMs(listens, listen_deadline_ms))) {
        if (event.kind == Event::Kind::kExited) return event.status;
        if (event.kind == Event::Kind::kSignal) ForwardSignal(event.signal_number);
        if (event.kind == Event::Kind::kLine && !listens) listens = PostAddress(event.line);
      }
      if (!listens && !is_stopping_ && NowMs() >= listen_deadline_ms) {
        PostFailure(1, "is not listening in time (--start_timeout)");
        Stop(SIGTERM, kFailedMs);
      }
      if (!is_stopping_ && FindFailure()) {
        console_.Note(failure_->text + ": stopping " + NameOf(id_));
        Stop(SIGTERM, kFailedMs);
      }
      if (kill_at_ && NowMs() >= *kill_at_) {
        kill_at_.reset();
        supervisor_.Signal(child_, SIGKILL);
      }
    }
  }

  int64_t NextWakeMs(bool listens, int64_t listen_deadline_ms) const {
    int64_t next = NowMs() + (rank_.rank != 0 || has_all_ranks_ ? kPollMs : kStartPollMs);
    if (!listens && !is_stopping_) next = std::min(next, listen_deadline_ms);
    return kill_at_ ? std::min(next, *kill_at_) : next;
  }

  bool PostAddress(const std::string& line) {
    const auto port = ListeningPort(line, id_.index, options_.shape.num_ps);
    if (!port) return false;
    const Status posted =
        rendezvous_.Post(AddressNote(id_.index), JoinHostPort(own_host_.address, *port));
    if (!posted.ok()) console_.Note(posted.message());
    return posted.ok();
  }

  void ForwardSignal(int signal_number) {
    if (is_killed_) return console_.CloseOutputs();
    if (!is_stopping_) return Stop(SignalForWorkers(signal_number), options_.stop_timeout_ms);
    is_killed_ = true;
    supervisor_.Signal(child_, SIGKILL);
  }

  void Stop(int signal_number, int64_t timeout_ms) {
    is_stopping_ = true;
    supervisor_.Signal(child_, signal_number);
    kill_at_ = NowMs() + timeout_ms;
  }

  const LaunchOptions& options_;
  const Rank& rank_;
  const ProcessId id_;
  std::string directory_;
  Rendezvous& rendezvous_;
  Supervisor& supervisor_;
  Console& console_;
  HostReport own_host_;
  size_t child_ = 0;
  int stop_signal_ = 0;
  bool has_met_ = false;
  bool has_all_ranks_ = false;  // rank 0: all have started their processes
  std::optional<Failure> failure_;
  bool is_stopping_ = false;
  bool is_killed_ = false;
  std::optional<int64_t> kill_at_;
};

}  // namespace

Result<int> RunRank(const LaunchOptions& options, const Rank& rank, const std::string& directory) {
  const ProcessId id = ProcessOfRank(rank.rank, options.shape);
  // No colors: a rank does not know where mpirun or srun writes its lines.
  ConsoleOptions console_options = {.log_dir = options.log_dir};
  for (size_t i = 0; i < rank.size; ++i) {
    console_options.name_width =
        std::max(console_options.name_width, NameOf(ProcessOfRank(i, options.shape)).size());
  }
  ASSIGN_OR_RETURN(Console console, Console::Create(console_options, {NameOf(id)}));
  ASSIGN_OR_RETURN(Rendezvous rendezvous, Rendezvous::Open(options.rendezvous, rank));
  Supervisor supervisor(console);
  RankJob job(options, rank, directory, rendezvous, supervisor, console);
  Result<int> status = job.Run();
  if (rank.rank == 0) rendezvous.Remove("token");
  console.ReportLostBytes();
  supervisor.FlushConsole();
  return status;
}

}  // namespace millrace::launch
