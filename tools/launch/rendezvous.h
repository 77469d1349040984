// SPDX-License-Identifier: Apache-2.0
// A shared folder in which the ranks of a job exchange small messages.
//
//   DIR/job-ID/            of this user, mode 700
//     hello-R              the nonce of rank R
//     welcome-R            the nonce of rank R, and that of rank 0
//     start-NONCE/         the notes of one start of the job; NONCE is that of rank 0
//
// A job that was killed leaves its notes behind, and a job that is started again can have the same
// id. So each rank draws a nonce, and believes only an answer with this nonce: it comes from a rank
// 0 of the same start. Rank 0 removes the notes of earlier starts.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/child/unique_fd.h"
#include "tools/launch/environment.h"

namespace millrace::launch {

// A note is a file of mode 600 that is written atomically. The last rank that leaves removes the
// folder of the job.
class Rendezvous {
 public:
  // Creates the folder of the job in `folder`, or uses an existing one that is private to this
  // user. Does not wait for other ranks.
  static Result<Rendezvous> Open(const std::string& folder, const Rank& rank);
  Rendezvous(Rendezvous&&) = default;
  Rendezvous& operator=(Rendezvous&&) = delete;
  // Leaves the job.
  ~Rendezvous();

  // Rank 0 answers the ranks that have come since the last call; the other ranks read its answer.
  // To be called whenever notes may have changed. Notes can be exchanged when it has returned true.
  Result<bool> Meet();

  // Without Meet, Post does nothing and there are no notes.
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
  Rendezvous(std::string path, const Rank& rank, std::string nonce, UniqueFd job, UniqueFd watch)
      : path_(std::move(path)),
        rank_(rank.rank),
        size_(rank.size),
        attempt_(rank.attempt),
        nonce_(std::move(nonce)),
        job_(std::move(job)),
        watch_(std::move(watch)) {}

  Status Begin();
  Status AnswerRanks();
  Status EnterStart(const std::string& nonce);
  Status Watch(const UniqueFd& folder) const;

  std::string path_;  // of the job's folder, for messages
  size_t rank_;
  size_t size_;
  std::string attempt_;  // ranks of another attempt get no answer
  std::string nonce_;
  UniqueFd job_;    // its folder; empty: moved from
  UniqueFd start_;  // the folder of this start; empty: not known yet
  std::string start_name_;
  UniqueFd watch_;
  std::map<std::string, std::string> answered_;  // rank 0: the nonces by rank
};

}  // namespace millrace::launch
