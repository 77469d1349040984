// SPDX-License-Identifier: Apache-2.0
// A training run as a discrete-event simulation: input threads, a bounded queue, a training thread
// with evaluations, checkpoints and exchanges, and other programs, on a number of cores. It writes
// the spans and samples of a real run, and the same run can be simulated without a cause.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "io/base/random.h"
#include "tools/report/pipeline.h"
#include "tools/report/run_data.h"

namespace millrace::report {

// Times in microseconds; of the input per group of rows, of the training thread per step.
struct SimulatedRun {
  uint64_t seed = 1;
  int groups = 80, steps_per_group = 10;
  int input_threads = 2;
  int cores = 0;   // 0: one for each thread
  int others = 0;  // programs that compute all the time
  double read = 0, decompress = 0, decode = 0, split = 0;
  double compute = 0, overlapped = 0;  // before an exchange is sent, and after
  double send = 0, network = 0, server = 0, barrier = 0;
  bool has_exchanges = false;
  int evaluate_every = 0, checkpoint_every = 0;  // groups; 0: never
  double evaluate = 0, checkpoint = 0;
  double noise = 0.3;  // durations vary by up to this share

  bool operator==(const SimulatedRun&) const = default;

  SimulatedRun Without(Cause cause) const {
    SimulatedRun run = *this;
    switch (cause) {
      case Cause::kReading:
        run.read = 0;
        break;
      case Cause::kDecompression:
        run.decompress = 0;
        break;
      case Cause::kDecoding:
        run.decode = 0;
        break;
      case Cause::kKeySplit:
        run.split = 0;
        break;
      case Cause::kTraining:
        run.compute = run.overlapped = 0;
        break;
      case Cause::kEvaluation:
        run.evaluate = 0;
        break;
      case Cause::kCheckpoint:
        run.checkpoint = 0;
        break;
      case Cause::kNetwork:
        run.send = run.network = 0;
        break;
      case Cause::kServer:
        run.server = 0;
        break;
      case Cause::kBarrier:
        run.barrier = 0;
        break;
      case Cause::kOtherProcesses:
        run.others = 0;
        break;
    }
    return run;
  }
};

// Runs it.
class RunSimulation {
 public:
  explicit RunSimulation(const SimulatedRun& run) : run_(run), actors_(1) {
    actors_.resize(1 + static_cast<size_t>(run.input_threads));
    ready_.assign(static_cast<size_t>(run.groups), false);
    PlanTraining();
    data_.path = "simulated";
    data_.processes.resize(1);
    ProcessData& process = data_.processes[0];
    process.name = "worker-0";
    process.host = "host";
    process.pid = 1;
    process.threads.resize(actors_.size());
    for (size_t a = 0; a < actors_.size(); ++a) {
      process.threads[a].tid = static_cast<int64_t>(a) + 1;
      process.threads[a].name = a == 0 ? "main" : "input";
      process.thread_samples[static_cast<int64_t>(a) + 1].name = process.threads[a].name;
    }
    data_.run["host.cores"] = std::to_string(Cores());
    Run();
    for (TracedThread& thread : process.threads) {
      std::stable_sort(thread.spans.begin(), thread.spans.end(), [](const Span& a, const Span& b) {
        return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
      });
    }
  }

  double seconds() const { return now_ * 1e-6; }
  const RunData& data() const { return data_; }

 private:
  enum class Kind { kCompute, kBlocked, kReply, kNeedsGroup, kTakeGroup };
  struct Task {
    Kind kind;
    double us = 0;
    const char* name = nullptr;  // null: no span
    profiler::Cat cat = profiler::Cat::kOp;
    bool begins_step = false, ends_step = false, sends = false;
    double server = 0, barrier = 0, reply = 0;
  };
  struct Actor {
    std::vector<Task> tasks;
    size_t next = 0;
    double left = 0;  // of the present task
    double begin = 0;
    double cpu = 0;
    bool started = false, done = false;
    int group = -1;
  };

  int Cores() const { return run_.cores > 0 ? run_.cores : run_.input_threads + 1 + run_.others; }

  // The same number for the same piece of work in every variant of the run.
  double Noisy(double mean, uint64_t what, uint64_t number) const {
    Random random(DeriveSeed(run_.seed, what, number));
    return mean * (1 + run_.noise * (2 * random.Uniform() - 1));
  }

  void PlanTraining() {
    using profiler::Cat;
    std::vector<Task>& tasks = actors_[0].tasks;
    for (int g = 0; g < run_.groups; ++g) {
      for (int s = 0; s < run_.steps_per_group; ++s) {
        const auto n = static_cast<uint64_t>(g * run_.steps_per_group + s);
        Task first = {Kind::kCompute, Noisy(run_.compute, 1, n), "margins", Cat::kCompute};
        if (s == 0) {
          tasks.push_back({Kind::kNeedsGroup, 0, "input_wait", Cat::kInput, true});
        } else {
          first.begins_step = true;
        }
        first.ends_step = !run_.has_exchanges;
        tasks.push_back(first);
        if (!run_.has_exchanges) continue;
        const double server = Noisy(run_.server, 3, n), barrier = Noisy(run_.barrier, 4, n);
        Task send = {Kind::kBlocked, Noisy(run_.send, 2, n), "exchange_send", Cat::kNetwork};
        send.sends = true;
        send.reply = Noisy(run_.network, 5, n) + server + barrier;
        tasks.push_back(send);
        tasks.push_back({Kind::kCompute, Noisy(run_.overlapped, 6, n), "gradient", Cat::kCompute});
        Task wait = {Kind::kReply, 0, "exchange_wait", Cat::kNetwork};
        wait.ends_step = true;
        wait.server = server;
        wait.barrier = barrier;
        tasks.push_back(wait);
      }
      const auto n = static_cast<uint64_t>(g);
      if (run_.evaluate_every > 0 && (g + 1) % run_.evaluate_every == 0)
        tasks.push_back({Kind::kCompute, Noisy(run_.evaluate, 7, n), "evaluate", Cat::kEvaluation});
      if (run_.checkpoint_every > 0 && (g + 1) % run_.checkpoint_every == 0)
        tasks.push_back(
            {Kind::kBlocked, Noisy(run_.checkpoint, 8, n), "checkpoint", Cat::kCheckpoint});
    }
  }

  bool TakeGroup(Actor& actor) {
    const int most = taken_ + run_.input_threads + 4;
    if (drawn_ >= run_.groups) return actor.done = true, false;
    if (drawn_ >= most) return false;
    using profiler::Cat;
    const auto n = static_cast<uint64_t>(drawn_);
    actor.group = drawn_++;
    actor.next = 0;
    actor.tasks = {{Kind::kBlocked, Noisy(run_.read, 11, n), "read_block", Cat::kDisk},
                   {Kind::kCompute, Noisy(run_.decompress, 12, n), "decompress", Cat::kInput},
                   {Kind::kCompute, Noisy(run_.decode, 13, n), "decode", Cat::kInput},
                   {Kind::kCompute, Noisy(run_.split, 14, n), "compact", Cat::kInput}};
    return true;
  }

  // Begins the actor's next task if it can. False: it waits, or has nothing left.
  bool Start(size_t a) {
    Actor& actor = actors_[a];
    if (actor.started || actor.done) return actor.started;
    if (actor.next >= actor.tasks.size()) {
      if (a == 0) return actor.done = true, false;
      if (!TakeGroup(actor)) return false;
    }
    const Task& task = actor.tasks[actor.next];
    if (wait_begin_ < 0 || a != 0) actor.begin = now_;
    if (task.kind == Kind::kNeedsGroup) {
      if (wait_begin_ < 0) wait_begin_ = step_begin_ = now_;
      if (!ready_[static_cast<size_t>(taken_)]) return false;
      actor.begin = wait_begin_;
      wait_begin_ = -1;
      ++taken_;
    }
    if (task.begins_step && task.kind != Kind::kNeedsGroup) step_begin_ = now_;
    actor.left = task.kind == Kind::kReply ? std::max(0.0, reply_at_ - now_) : task.us;
    return actor.started = true;
  }

  void Finish(size_t a) {
    Actor& actor = actors_[a];
    const Task& task = actor.tasks[actor.next++];
    actor.started = false;
    AddSpan(a, task.name, task.cat, actor.begin, now_, task.ends_step ? 2 : 1,
            task.kind == Kind::kReply ? &task : nullptr);
    if (task.sends) reply_at_ = now_ + task.reply;
    if (task.ends_step) AddSpan(a, "step", profiler::Cat::kStep, step_begin_, now_, 0, nullptr);
    if (a > 0 && actor.next == actor.tasks.size()) ready_[static_cast<size_t>(actor.group)] = true;
  }

  void AddSpan(size_t a, const char* name, profiler::Cat cat, double begin, double end, int kind,
               const Task* reply) {
    if (end <= begin && kind != 0) return;
    ProcessData& process = data_.processes[0];
    Span span;
    span.name = data_.names.Id(name);
    span.cat = cat;
    span.begin_ns = std::llround(begin * 1e3);
    span.end_ns = std::llround(end * 1e3);
    span.first_arg = static_cast<uint32_t>(process.args.size());
    const auto add = [&](const char* arg, double value) {
      process.args.push_back({data_.names.Id(arg), std::llround(value)});
      ++span.num_args;
    };
    if (kind == 0) add("rows", 100);
    if (reply) {
      add("server_ns", reply->server * 1e3);
      add("barrier_ns", reply->barrier * 1e3);
    }
    process.threads[a].spans.push_back(span);
  }

  void Sample() {
    ProcessData& process = data_.processes[0];
    double all = 0;
    for (const Actor& actor : actors_) all += actor.cpu;
    process.samples["time_ns"].push_back(now_ * 1e3);
    process.samples["user_s_total"].push_back(all * 1e-6);
    process.samples["host_busy_s_total"].push_back((all + others_cpu_) * 1e-6);
    process.samples["host_idle_s_total"].push_back((Cores() * now_ - all - others_cpu_) * 1e-6);
    for (size_t a = 0; a < actors_.size(); ++a)
      process.thread_samples[static_cast<int64_t>(a) + 1].times.push_back(
          {process.num_samples() - 1, actors_[a].cpu * 1e-6});
  }

  void Run() {
    double next_sample = 0;
    while (true) {
      bool progress = true;
      while (progress) {
        progress = false;
        for (size_t a = 0; a < actors_.size(); ++a) {
          if (Start(a) && actors_[a].left <= 1e-9) Finish(a), progress = true;
        }
      }
      if (actors_[0].done) break;
      if (now_ >= next_sample) Sample(), next_sample = now_ + 20000;
      double wanted = run_.others;
      for (const Actor& actor : actors_) wanted += actor.started && Computes(actor);
      const double speed = wanted > Cores() ? Cores() / wanted : 1;
      double step = std::numeric_limits<double>::infinity();
      for (const Actor& actor : actors_) {
        if (actor.started) step = std::min(step, actor.left / (Computes(actor) ? speed : 1));
      }
      now_ += step;
      others_cpu_ += step * run_.others * speed;
      for (Actor& actor : actors_) {
        if (!actor.started) continue;
        const double done = step * (Computes(actor) ? speed : 1);
        actor.left -= done;
        if (Computes(actor)) actor.cpu += done;
      }
    }
    Sample();
  }

  static bool Computes(const Actor& actor) {
    return actor.tasks[actor.next].kind == Kind::kCompute;
  }

  const SimulatedRun run_;
  RunData data_;
  std::vector<Actor> actors_;  // the training thread, then the input threads
  std::vector<bool> ready_;
  int drawn_ = 0, taken_ = 0;
  double now_ = 0, reply_at_ = 0, step_begin_ = 0, wait_begin_ = -1, others_cpu_ = 0;
};

}  // namespace millrace::report
