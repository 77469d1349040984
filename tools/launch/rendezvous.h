// SPDX-License-Identifier: Apache-2.0
// A shared folder in which the ranks of a job exchange small messages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/child/unique_fd.h"

namespace millrace::launch {

// A note is a file of mode 600 that is written atomically. Each job has its own subfolder. The last
// rank that leaves removes it.
class Rendezvous {
 public:
  // `rank` is the number of this rank, below `size`.
  static Result<Rendezvous> Open(const std::string& folder, const std::string& job, size_t rank,
                                 size_t size);
  Rendezvous(Rendezvous&&) = default;
  Rendezvous& operator=(Rendezvous&&) = delete;
  // Leaves the job.
  ~Rendezvous();

  Status Post(const std::string& name, const std::string& text) const;
  std::optional<std::string> Read(const std::string& name) const;
  // The names of all notes with this prefix, sorted.
  std::vector<std::string> Names(const std::string& prefix) const;
  void Remove(const std::string& name) const;

  // A descriptor that becomes readable when a rank on this host posts a note (inotify). Notes of
  // ranks on other hosts, through a network file system, need polling.
  int watch() const { return watch_.get(); }
  void ClearWatch() const;

 private:
  Rendezvous(std::string folder, size_t rank, size_t size, UniqueFd watch)
      : folder_(std::move(folder)), rank_(rank), size_(size), watch_(std::move(watch)) {}
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  size_t rank_;
  size_t size_;
  UniqueFd watch_;  // empty: moved from
};

}  // namespace millrace::launch
