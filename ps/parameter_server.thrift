// SPDX-License-Identifier: Apache-2.0
// The contract between workers and one server shard of a Millrace job.
//
// Keys, weights, gradients and worker states travel as `binary`; docs/formats.md has their bytes. A call that is blocked on
// other workers replies within about a second, names them in `blocked_on`, and is made again, so that every call has a
// deadline. Keeps to what both the Apache and the Facebook compilers accept.

namespace cpp millrace.ps.rpc

const i32 kProtocolVersion = 9

// The request is not valid: wrong token, another job, a sequence out of order, keys outside the shard. With `busy` it is
// valid, but the shard writes or reads a checkpoint: the call can be made again.
exception Refused {
  1: string message
  2: bool busy
}
// The job as a whole has failed, or a server could not do its work (write a checkpoint, for example); the message says
// which process failed and how.
exception JobFailed {
  1: string message
}

struct JoinRequest {
  1: i32 version
  2: binary proof       // that the worker knows the token; ps/wire/handshake.h
  3: i32 worker
  4: string name        // "host, pid 123", for messages
  5: string config      // lines "name value": must be the same for all workers
  6: bool rejoin        // this worker was part of the job before
  7: i64 attempt        // ascending within a process: an older connection never replaces a newer one
  8: i64 process        // random, drawn by the process: only it may replace its own connection
  9: i64 epoch          // from the chief: of the run, see docs/formats.md; 0: the run keeps no checkpoints
}
struct JoinReply {
  1: i64 generation     // of this worker's connection; part of every later call
  2: i64 clock_ns       // the server's steady clock
  3: list<i64> checkpoints  // steps of the complete checkpoints that this shard has, newest first
  4: i64 instance       // of the server process: another instance has lost what was not saved
  5: string blocked_on  // not empty: the worker has not joined and calls again
  6: binary proof       // that the server knows the token
}

struct StartRequest {
  1: i32 worker
  2: i64 generation
  3: bool open          // from the chief: the model is ready
}
struct StartReply {
  1: string blocked_on  // empty: training may begin
  2: i64 sequence       // of the worker's last push that this shard has received
  3: binary state       // of the worker, as that push brought it
  4: i64 step
  5: i64 examples
  6: i64 clock_ns
}

struct ExchangeRequest {
  1: i32 worker
  2: i64 generation
  3: i64 sequence       // of the push; a repeated sequence gets the same reply and is not applied again
  4: i64 step           // of the job, whose weights the gradient was computed from
  5: bool pushes        // false: only pulls, or asks for the reply again
  6: i64 push_list      // signature of the pushed keys
  7: binary push_keys   // empty: the list that was pulled under that signature
  8: binary gradient    // with normalized values, the largest |value| of each key follows; then that of the factors
  9: i32 rows           // 0: an empty step
  10: double weight     // summed weights of the rows
  11: double loss       // summed over the rows, before the step
  12: binary state      // of the worker after this push
  13: bool pulls
  14: i64 pull_list
  15: binary pull_keys  // empty: the server should know the list
  16: bool keep_list    // the worker will pull this list again
  17: i32 pull_of       // 0: what a training batch needs; 1: the weights as they are; 2: the factors as they are
}
struct ExchangeReply {
  1: i32 outcome        // 0: done; 1: blocked; 2: a key list is unknown, send it
  2: binary weights     // with normalized values, the scale of each key follows; then the factors of each feature
  3: i64 step
  4: i64 examples       // trained on by all workers
  5: double loss        // summed over them
  6: double weight
  7: i64 barrier_ns     // spent waiting for other workers
  8: i64 server_ns      // spent working
  9: i32 last_worker    // the last one to reach the step; -1: none had to be waited for
  10: string blocked_on
  11: bool stopped      // the chief has ended the training: this push and later ones do not count
  12: bool others_finished  // no other worker will push again
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
  1: string blocked_on
  2: binary values
  3: i64 step
}

struct AllFinishedReply {
  1: string blocked_on  // workers that may still push; empty: all have finished
  2: i64 step
  3: i64 examples
  4: double loss
  5: double weight
}

struct EntriesReply {
  1: binary entries     // for each feature with a weight or factor that is not zero; ps/wire/entry_codec.h
  2: i64 next_first     // where to go on; -1: that was all
}

struct CheckpointReply {
  1: bool done
}

struct HoldReply {
  1: string blocked_on   // the workers whose accepted pushes have not all arrived; empty: all have
  2: list<i64> received  // of each worker: the sequence of its last push
  3: i64 step
  4: i64 examples
  5: double loss
  6: double weight
}

struct WorkerPosition {
  1: i64 sequence       // of the worker's last push that is in the checkpoint
  2: binary state       // that it brought
}
struct RestoredReply {
  1: binary chief_state
  2: list<WorkerPosition> workers
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
  6: i64 dropped        // pushes that arrived after their step was complete
  7: double waited_s    // that other workers waited for this one
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
  // Before every join. Takes the worker's nonce and returns the server's, which is good for one join.
  binary hello(1: binary nonce) throws (1: Refused refused, 2: JobFailed failed)
  JoinReply join(1: JoinRequest request) throws (1: Refused refused, 2: JobFailed failed)
  StartReply start(1: StartRequest request) throws (1: Refused refused, 2: JobFailed failed)
  ExchangeReply exchange(1: ExchangeRequest request) throws (1: Refused refused, 2: JobFailed failed)

  // Chief only: no push counts from now on; the other workers learn of it with their next reply.
  void stop(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
  // This worker pushes no more.
  void finish(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
  // Replies when all workers have finished, or the job has trained on `until_examples`.
  AllFinishedReply all_finished(1: i32 worker, 2: i64 generation, 3: i64 until_examples)
      throws (1: Refused refused, 2: JobFailed failed)
  // The worker closes its connection next, which is no failure.
  void leave(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)

  // A repeated block and sequence is not applied again.
  DenseReply init_dense(1: DenseRequest request) throws (1: Refused refused, 2: JobFailed failed)
  DenseReply push_dense(1: DenseRequest request) throws (1: Refused refused, 2: JobFailed failed)
  DenseReply pull_dense(1: DenseRequest request) throws (1: Refused refused, 2: JobFailed failed)

  // Chief only, async and ssp jobs without dense blocks: later pushes wait until the shard has written a checkpoint, the
  // job is stopped, or a call without `hold`. `last_pushes` has for each worker the last push that is accepted; empty:
  // those that were received. The chief calls it twice, the second time with the largest numbers that any shard has
  // received: then all shards stop at the same pushes.
  HoldReply hold_pushes(1: i32 worker, 2: i64 generation, 3: bool hold, 4: list<i64> last_pushes)
      throws (1: Refused refused, 2: JobFailed failed)
  // Chief only. A repeated step asks whether the checkpoint is done. The shard keeps the new checkpoint and `committed`,
  // which is complete on all shards (-1: none is), and may remove all others.
  CheckpointReply checkpoint(1: i32 worker, 2: i64 generation, 3: i64 step, 4: binary chief_state, 5: i64 committed)
      throws (1: Refused refused, 2: JobFailed failed)
  // Chief only, before the job begins. `shards` is the number of parts of the checkpoint. `earlier_run` is empty if the
  // run is resumed, or the folder of checkpoints of the run that this one continues from.
  CheckpointReply restore(1: i32 worker, 2: i64 generation, 3: i64 step, 4: i64 shards, 5: string earlier_run)
      throws (1: Refused refused, 2: JobFailed failed)
  RestoredReply restored(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
  // Chief only, before the job begins: where each worker starts, if the checkpoint is of another number of workers.
  void place_workers(1: i32 worker, 2: i64 generation, 3: list<binary> states)
      throws (1: Refused refused, 2: JobFailed failed)
  // The model in pieces, in the order of local keys.
  EntriesReply entries(1: i32 worker, 2: i64 generation, 3: i64 first) throws (1: Refused refused, 2: JobFailed failed)
  // Sets weights before training (a warm start).
  void load(1: i32 worker, 2: i64 generation, 3: binary entries) throws (1: Refused refused, 2: JobFailed failed)
  StatsReply stats(1: i32 worker, 2: i64 generation) throws (1: Refused refused, 2: JobFailed failed)
}
