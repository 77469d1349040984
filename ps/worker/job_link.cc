#include "ps/worker/job_link.h"

#include <utility>

namespace millrace::ps {

Result<std::unique_ptr<JobLink>> JobLink::Join(const JobLinkOptions& options) {
  ASSIGN_OR_RETURN(auto transport, MakeThriftTransport(options.servers));
  auto link = std::make_unique<JobLink>(Private{}, std::move(transport));
  link->on_note_ = options.on_note;
  RemoteOptions remote;
  remote.config = options.config;
  remote.client.join = {.token = options.token,
                        .worker = options.worker,
                        .name = options.name,
                        .config = {},
                        .rejoin = options.rejoin};
  remote.client.on_note = options.on_note;
  remote.client.should_stop = options.should_stop;
  ASSIGN_OR_RETURN(link->store_,
                   RemoteStore::Connect(*link->transport_, link->clock_, std::move(remote)));
  return link;
}

Result<std::optional<std::string>> JobLink::RestoreLatest() {
  Status status;
  for (const uint64_t id : store_->checkpoints()) {
    status = store_->Restore(id);
    if (status.ok()) {
      ASSIGN_OR_RETURN(std::string state, store_->ChiefState());
      return std::optional(std::move(state));
    }
    if (on_note_) on_note_(status.message());
  }
  RETURN_IF_ERROR(status);
  if (on_note_) on_note_("the servers have no checkpoint in common: starting from the beginning");
  return std::optional<std::string>();
}

}  // namespace millrace::ps
