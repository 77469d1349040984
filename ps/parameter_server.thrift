// The contract between workers and one server shard of a Millrace job.
//
// Keys, weights, gradients and worker states travel as `binary`; docs/formats.md has their bytes. A call that would have to
// wait for other workers answers within about a second with `waiting` and is asked again, so that every call has a
// deadline. Keeps to what both the Apache and the Facebook compilers accept.

namespace cpp millrace.ps.rpc

const i32 kProtocolVersion = 4

// The request cannot be: wrong token, another job, a sequence out of order, keys outside the shard.
exception Refused {
  1: string message
}
// The job as a whole has failed, or a server could not do its work (write a checkpoint, say); the message says who failed
// and how.
exception JobFailed {
  1: string message
}

struct JoinRequest {
  1: i32 version
  2: string token
  3: i32 worker
  4: string name        // "host, pid 123", for messages
  5: string config      // lines "name value": must be the same for all workers
  6: bool rejoin        // this worker was part of the job before
  7: i64 attempt        // of this process, ascending: a connection that is heard late takes nobody's place
  8: i64 process        // drawn by it
}
struct JoinReply {
  1: i64 generation     // of this worker's connection; in every later call
  2: i64 clock_ns       // the server's steady clock
  3: list<i64> checkpoints  // steps of the whole ones that this shard has, newest first
  4: i64 instance       // of the server process: another one has lost what was not saved
  5: string waiting     // not empty: for whom; the worker has not joined and asks again
}

struct StartRequest {
  1: i32 worker
  2: i64 generation
  3: bool open          // the chief's word that the model is as it should be
}
struct StartReply {
  1: string waiting     // empty: training may begin; else for whom it waits
  2: i64 sequence       // of the worker's last push that this shard has
  3: binary state       // of the worker, as that push brought it
  4: i64 step
  5: i64 examples
  6: i64 clock_ns
}

struct ExchangeRequest {
  1: i32 worker
  2: i64 generation
  3: i64 sequence       // of the push; a sequence seen before is answered again and not applied again
  4: i64 step           // of the job, whose weights the gradient was computed from
  5: bool pushes        // false: only pulls, or asks again
  6: i64 push_list      // signature of the pushed keys
  7: binary push_keys   // empty: the list that was pulled under that signature
  8: binary gradient
  9: i32 rows           // 0: takes part in the step with nothing learnt
  10: double weight     // summed weights of the rows
  11: double loss       // summed over the rows, before the step
  12: binary state      // of the worker after this push
  13: bool pulls
  14: i64 pull_list
  15: binary pull_keys  // empty: the server should know the list
  16: bool keep_list    // it will be asked for again and again
  17: optional i64 next_list     // that the next exchange is likely to pull
  18: optional binary next_keys  // of that one: the server reads them when it has answered
}
struct ExchangeReply {
  1: i32 outcome        // 0: done; 1: waiting; 2: a key list is not known, send it
  2: binary weights
  3: i64 step
  4: i64 examples       // learnt by all workers
  5: double loss        // summed over them
  6: double weight
  7: i64 barrier_ns     // spent waiting for other workers
  8: i64 server_ns      // spent working, with work of before that the request had to wait for
  9: i32 last_worker    // who came last into the step, -1: nobody had to be waited for
  10: string waiting    // for whom
  11: bool stop         // the chief has ended the training: this and later pushes do not count
  12: bool alone        // no other worker will push any more
}

struct DenseRequest {
  1: i32 worker
  2: i64 generation
  3: i32 block
  4: i64 sequence
  5: binary values
  6: i32 rows
  7: i64 step           // of the block, whose weights the gradient was computed from
}
struct DenseReply {
  1: string waiting
  2: binary values
  3: i64 step
}

struct EntriesReply {
  1: binary entries     // key varint (differences), then the weight, for each weight that is not zero
  2: i64 following      // where to go on; -1: that was all
}

struct CheckpointReply {
  1: bool done
}

struct CallCount {
  1: string kind
  2: i64 messages
  3: i64 bytes_in
  4: i64 bytes_out
}
struct WorkerStats {
  1: i32 worker
  2: string name
  3: string state       // absent, training, lost, finished, left
  4: i64 pushes
  5: i64 examples
  6: i64 dropped        // pushes that came too late for their step
  7: double waited_s    // others waited for it
}
struct StatsReply {
  1: i64 step
  2: i64 examples
  3: i64 keys_pulled
  4: i64 keys_pushed
  5: list<CallCount> calls
  6: list<WorkerStats> workers
  7: i64 clock_ns
}

service ParameterServer {
  JoinReply join(1: JoinRequest request) throws (1: Refused refused, 2: JobFailed failed)
  StartReply start(1: StartRequest request) throws (1: Refused refused, 2: JobFailed failed)
  ExchangeReply exchange(1: ExchangeRequest request) throws (1: Refused refused, 2: JobFailed failed)

  // Chief only: no push counts from now on; the other workers hear of it with their next answer.
  void stop(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
  // This worker pushes no more.
  void finish(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
  // Empty when all workers have finished, else for whom it waits.
  string drained(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
  // The connection will close and that is no failure.
  void leave(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)

  // The same block and sequence again is not applied again.
  DenseReply init_dense(1: DenseRequest request) throws (1: Refused refused, 2: JobFailed failed)
  DenseReply push_dense(1: DenseRequest request) throws (1: Refused refused, 2: JobFailed failed)
  DenseReply pull_dense(1: DenseRequest request) throws (1: Refused refused, 2: JobFailed failed)

  // Chief only. The same step again asks whether it is done.
  CheckpointReply checkpoint(1: i32 worker, 2: i64 generation, 3: i64 step, 4: binary chief_state)
      throws (1: Refused refused, 2: JobFailed failed)
  CheckpointReply restore(1: i32 worker, 2: i64 generation, 3: i64 step) throws (1: Refused refused, 2: JobFailed failed)
  binary chief_state(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
  // The model, piece by piece, in the order of local keys.
  EntriesReply entries(1: i32 worker, 2: i64 generation, 3: i64 first) throws (1: Refused refused, 2: JobFailed failed)
  // Sets weights before training (a warm start).
  void load(1: i32 worker, 2: i64 generation, 3: binary entries) throws (1: Refused refused, 2: JobFailed failed)
  StatsReply stats(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
}
