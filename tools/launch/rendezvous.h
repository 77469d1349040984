// A folder that all ranks of a job can see, in which they leave notes for each other.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/child/unique_fd.h"

namespace millrace::tools {

// A note is a small file of mode 600 that is there whole or not at all. Each job has a subfolder of
// its own, which the rank that leaves last takes away.
class Rendezvous {
 public:
  // `member` is this rank's number, of `size`.
  static Result<Rendezvous> Open(const std::string& folder, const std::string& job, size_t member,
                                 size_t size);
  Rendezvous(Rendezvous&&) = default;
  Rendezvous& operator=(Rendezvous&&) = delete;
  // Leaves.
  ~Rendezvous();

  Status Post(const std::string& name, const std::string& text) const;
  std::optional<std::string> Read(const std::string& name) const;
  // The names of notes that begin so, sorted.
  std::vector<std::string> Names(const std::string& beginning) const;
  void Remove(const std::string& name) const;

  // Can be read when a rank of this host has posted something, as the kernel knows. What ranks of
  // other hosts post (by a network file system) must be looked for every now and then.
  int watch() const { return watch_.get(); }
  void ClearWatch() const;

 private:
  Rendezvous(std::string folder, size_t member, size_t size, UniqueFd watch)
      : folder_(std::move(folder)), member_(member), size_(size), watch_(std::move(watch)) {}
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  size_t member_;
  size_t size_;
  UniqueFd watch_;  // not there: moved away
};

}  // namespace millrace::tools
