// What ties a worker to the servers of its job: transport, clock and the store that uses both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/base/status.h"
#include "ps/job_config.h"
#include "ps/worker/clock.h"
#include "ps/worker/remote_store.h"
#include "ps/worker/thrift_transport.h"

namespace millrace::ps {

struct JobLinkOptions {
  ThriftOptions servers;
  JobConfig config;     // what all workers must agree on
  uint64_t worker = 0;  // 0: the chief
  std::string token;
  std::string name;     // of this process, for messages
  bool rejoin = false;  // this worker was part of the job before
  std::function<void(const std::string&)> on_note = nullptr;
  std::function<bool()> should_stop = nullptr;
};

class JobLink {
  struct Private {};  // only Join makes links

 public:
  // Joins the job on all servers.
  static Result<std::unique_ptr<JobLink>> Join(const JobLinkOptions& options);
  JobLink(Private, std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  RemoteStore& store() { return *store_; }
  const RemoteStore& store() const { return *store_; }

  // The chief's, before the start: restores the newest checkpoint that all servers have and that is
  // whole on all of them, and gives the state that the chief saved with it; none where the servers
  // have no checkpoint in common.
  Result<std::optional<std::string>> RestoreLatest();

 private:
  std::unique_ptr<Transport> transport_;
  RealClock clock_;
  std::unique_ptr<RemoteStore> store_;
  std::function<void(const std::string&)> on_note_;
};

}  // namespace millrace::ps
