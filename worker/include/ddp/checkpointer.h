// Checkpointer saves and restores a training: the model, its optimizer, and the place in the
// training. A *checkpoint* is a file on a disk. A *snapshot* is the same in a node's memory.
//
// Each checkpoint is one file, for example `step-000000001200.safetensors`. Python reads it with
// `safetensors.torch.load_file`. Tensors are named `model.<parameter or buffer>` and
// `optim.<parameter index>.<field>`. `__metadata__` has these entries; all values are strings:
//
//   ddprun_format    "1"
//   step, epoch, batch, world_size       decimal numbers; see State
//   lr               a JSON array: the learning rate of each parameter group
//   lr_steps         decimal: the number of steps of the scheduler, if one was given
//   sampler          SamplerState::to_string(), if a sampler was given
//   buckets          which parameters are in which gradient bucket, if that is known
//   rng, rng_cuda    state of each rank's default generator, in hex, separated by commas
//   user             a JSON object: State::user
//   xxh3             a JSON object: XXH3-64 of each tensor's bytes, 16 hex digits
//   ddprun_run       the id of the run that made the file, 16 hex digits. A run is a job
//                    under one requeue number, across all its generations. Under ddprun the id is
//                    DDPRUN_JOB_RUN_ID
//   ddprun_descends_from   ids of the earlier runs from whose states this run has continued,
//                    separated by commas, the latest first
//   ddprun_job, ddprun_epoch, ddprun_generation   under ddprun: the job, its requeue number and the
//                    generation that made the file
//   header_xxh3      XXH3-64 of the header without this entry, as JSON with sorted keys and no
//                    spaces
//
// A file gets its final name only when it is complete and on disk. Rank 0 writes it under a
// temporary name (`<name>.<host>-<PID namespace>-<pid>.tmp`), syncs it, renames it, and then syncs
// the folder. save() removes the temporary files of killed writers, if they ran on the same host
// and in the same PID namespace. It also removes each temporary file that nobody has written to for
// 24 h. save() never replaces a file of another run, or of an older version without run ids.
#ifndef DDP_CHECKPOINTER_H_
#define DDP_CHECKPOINTER_H_

#include <ddp/checkpoint_parts.h>
#include <ddp/context.h>
#include <ddp/save_status.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace ddp {

// The place in the training at which a checkpoint is made.
struct State {
  std::int64_t step = 0;                    // optimizer steps finished, in the whole training
  std::int64_t epoch = 0;                   // the epoch to continue in, from 0
  std::int64_t batch = 0;                   // batches of that epoch that this rank has finished
  std::map<std::string, std::string> user;  // further state of the program, as UTF-8

  // Filled in by load_latest(), ignored by save().
  int world_size = 0;  // of the job that saved the state
  std::string path;    // of the file, on the node of the rank that held the state
};

// What save() does if the previous checkpoint is not on disk yet. A Checkpointer never writes two
// checkpoints at the same time. If the agent has requested the checkpoint, step() always waits.
enum class WhenBusy {
  kWait,  // waits for the previous one: no checkpoint is lost, but a slow disk delays training
  kSkip,  // makes no checkpoint, so training does not wait for the disk
};

struct CheckpointerOptions {
  // After a save, this number of checkpoints stay: the new file, and the next older files of this
  // run and of the run from which this run continues. Other files are never counted or removed:
  // files of other runs, files of a higher step, and files that this version cannot read. If
  // load_latest() renamed damaged files of this run, the two of the highest steps stay. Must be at
  // least 1 (ConfigError).
  int keep_last = 2;

  // Files whose step is a multiple of this number are never removed. 0: there are no such files.
  // Must not be negative (ConfigError).
  std::int64_t keep_every = 0;

  WhenBusy when_busy = WhenBusy::kWait;

  // step() makes a checkpoint after each step whose number is a multiple of this. 0: step() makes
  // one only when the agent requests it. Must not be negative, and must be 0 if the directory is
  // empty (ConfigError).
  std::int64_t save_every = 0;

  // How often step() makes a snapshot: every `snapshot_every` steps; if that is 0, once in each
  // `snapshot_interval`; if both are 0, as often as possible, while snapshots cost at most 1 % of
  // the training time. Must not be negative (ConfigError).
  std::int64_t snapshot_every = 0;
  std::chrono::milliseconds snapshot_interval{0};
  bool snapshots = true;  // false: step() makes no snapshots

  // For ddp::run_in_place() on the CPU with several ranks and snapshots = true; elsewhere it has no
  // effect. When a rank is lost, the other ranks continue from the last step that one of them has
  // finished. This state contains the random generators of all ranks and the buffers of rank 0. By
  // default the generators of a rank are only on its node, and rank 0's buffers only on rank 0's
  // node. If a node is lost, the generators of its ranks come from the last snapshot that step()
  // made. If it is rank 0's node and the model has buffers, training continues from that snapshot,
  // and repeats the steps after it. With true, the ranks exchange the values in each step, so the
  // loss of any node changes no value and repeats at most one step. Cost in each step: a gather of
  // each rank's generator (5 KB) and a broadcast of rank 0's buffers.
  //
  // Must be the same on all ranks. The exchange is a collective, in the constructor of
  // ddp::OptimizerStep (context.h: the program makes one around its optimizer's step).
  // Without an OptimizerStep the exchange is in Checkpointer::step(). If the optimizer calls
  // forward and backward in its own step (LBFGS), there is a second exchange, in
  // Checkpointer::step(). In both of these cases, the loss of a node between backward and
  // Checkpointer::step() costs the same as with `false`. The first step of a program that does not
  // call load_latest() is also exchanged in Checkpointer::step().
  bool share_each_step = false;

  // For a program that only loads, for example while a training uses the folder. The Checkpointer
  // then does not claim the folder and renames nothing there. save() throws ConfigError.
  bool read_only = false;
};

// save(), step(), flush() and load_latest() are collectives: all ranks must call them in the same
// order. Only one thread at a time may use the object. The object's own threads write the files,
// and never call code of the program. If a rank fails, no other rank hangs.
//
// Snapshots. Under ddprun, step() also makes snapshots: local rank 0 of each node writes them to
// DDPRUN_SNAPSHOT_DIR (in /dev/shm). That folder outlives the workers. So a restart loses almost
// nothing, even if a node is lost together with its disk. A snapshot contains the same as a
// checkpoint: every rank can load the snapshot of any node, also with another world size. In a
// process only one Checkpointer may make snapshots: set `snapshots = false` in all others.
//
// Owner of the folder. Under ddprun, the first load_latest() or save() claims the folder for this
// training. Rank 0 does that, and creates the folder if it is missing. If another training uses the
// folder, every rank throws FolderTakenError within 30 s, unless the job was started with
// `--take-folder`. If rank 0 cannot read the file that names the owner, it warns, and each save
// tries again. The destructor releases the folder, except while an exception unwinds the stack, or
// if the process group can no longer be used (a rank died, or this process leaves).
//
// Disk errors of a save. A disk that is full, read-only, over quota or gone never ends the
// training. Rank 0 prints the path, the reason and what happens next. It also sends
// CHECKPOINT_FAILED to the agent and counts the failure in SaveStatus. Older files stay.
class Checkpointer {
 public:
  // `directory` is the path of the checkpoint folder. Only rank 0 saves there, so only rank 0's
  // node needs the folder. save() creates it. If `directory` is "", there are only snapshots, and
  // save() throws ConfigError. Use one Checkpointer per folder. `ctx` must outlive this object. Not
  // a collective. Throws ConfigError for invalid options.
  Checkpointer(const Context& ctx, std::string directory,
               const CheckpointerOptions& options = CheckpointerOptions());

  // Waits until the last checkpoint is on disk or has failed, also while an exception unwinds the
  // stack. So a training that fails directly after a save keeps that checkpoint. After step() it
  // may also wait until all other ranks have made the same call of step(), or a rank has failed.
  // While an exception unwinds the stack, it does not wait for other ranks.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Begins a checkpoint. Returns the path that the file will have, in this rank's `directory`; or
  // "" on all ranks if the checkpoint was skipped (WhenBusy::kSkip).
  //
  // On rank 0, training waits until the state is copied in memory. The other ranks only take part
  // in small collectives. The first save allocates the memory for the copy, and later saves use it
  // again. If the state is on a GPU, the copy is queued there, and the host does not wait for it. A
  // thread of rank 0 then writes the file. When the file is on disk, the library tells the agent,
  // and status() and flush() show it.
  //
  // Saves the model, optimizer, scheduler and sampler of rank 0, and the random generators of every
  // rank. On the other ranks the parameters and the optimizer are equal to those of rank 0, because
  // DistributedDataParallel keeps them equal. Buffers may differ: those of rank 0 are saved.
  //
  // Supports SGD, Adam, AdamW, RMSprop, Adagrad and LBFGS. A checkpoint contains the optimizer's
  // state (momentum, moments, history, step counts) and the learning rate of each parameter group.
  // The program must set all other options itself.
  //
  // Throws AgreedError on every rank for an error that would also occur at the next save: an
  // optimizer or a dtype that cannot be saved, or a negative step. Never throws for a disk error.
  std::string save(const State& state, const CheckpointParts& parts);
  std::string save(const State& state, torch::nn::Module& module,
                   torch::optim::Optimizer& optimizer);

  // Call it after each finished step, with the place after that step. It reports the step to the
  // agent (Context::report_step()), and makes a snapshot and a checkpoint when they are due. The
  // agent may also request a checkpoint, with the message SAVE: for `ddprun stop --save`, a
  // preemption, or a drain (which takes a host out of the job). Then all ranks make it at the same
  // step. A program that calls load_latest() and step() needs no other call to survive failures.
  //
  // If neither a snapshot nor a checkpoint is due, step() only waits until every rank has made the
  // previous call of step(). Usually backward() has waited for that already. (share_each_step waits
  // more: see there.) The ranks agree on what is due while they compute the next step. So a request
  // that arrives during one step is carried out after the next step (with one rank: after this
  // step). A snapshot delays training by one copy of the state and a few small collectives. Another
  // thread hashes the copy.
  //
  // A node needs room for two snapshots, in /dev/shm and within the memory limits of its cgroup.
  // Without that room it warns once and makes no snapshots. Throws the same errors as save().
  // One difference: for a state that a snapshot cannot hold it throws CheckpointError, perhaps only
  // on the ranks that make snapshots.
  void step(const State& state, const CheckpointParts& parts);

  // Waits until the last checkpoint is on disk or has failed. Returns the results of all saves.
  // They are equal on all ranks, except for snapshot_step. So after `save(); flush();` either the
  // checkpoint is on disk, or SaveStatus::error has the reason, or the save was skipped (kSkip).
  // The other ranks wait for rank 0 as in any collective, at most Options::timeout.
  SaveStatus flush();

  // Returns the results that this rank knows: on rank 0 the current ones, on other ranks those at
  // the last save() or flush(). Not a collective.
  SaveStatus status() const;

  // Loads the newest complete state into the parts, on every rank, and restores the default random
  // generators. Returns the place of that state. If there is no state, it returns nullopt and
  // changes nothing. It first waits until an unfinished save has ended.
  //
  // Which state. If ddprun knows a state, it gives all ranks a restore plan (DDPRUN_RESTORE_*): the
  // state to load, and the rank on whose node the state is, in memory or on disk. The first call of
  // each Checkpointer follows the plan. If DDPRUN_RESTORE_UNSEEN names a newer checkpoint, that
  // call looks for it first. If the state of the plan is damaged, the call takes an older state
  // from the node of the same rank, or from rank 0's node. Without a plan it takes the newest file
  // in rank 0's folder.
  //
  // How. The bytes go directly into the parts, in chunks. One copy crosses the network to each
  // node, and the ranks of the node share it. In addition to the parts, each rank needs at most 2
  // MiB of memory, and the ranks of a node together another 4 MiB. If a tensor of the parts is not
  // contiguous, the rank also needs the size of that tensor. If the parameters are on a GPU and the
  // optimizer has made no step yet, the rank also needs host memory of the size of the optimizer's
  // state. In the end each rank has checked the hashes of its tensors.
  //
  // Damaged files. A file is damaged if its length or a hash is wrong. It is renamed to
  // `<name>.<run id>.corrupt` if its header says that this run made it, otherwise to
  // `<name>.corrupt`. A file of an unknown format version, or of another step than its name says,
  // is not renamed. The rank on whose node such a file is reports the file on stderr and to its
  // agent. Then the search continues with the next older file.
  //
  // Unreadable files. A file that cannot be read is not damaged, and may be the newest state. So
  // EACCES and EPERM throw StateUnreadableError at once. After other errors the library tries again
  // for DDPRUN_STATE_TIMEOUT_MS (default: 2 minutes), and then throws StateUnreadableError. There
  // is one exception: after EIO the library tries an older file of the same folder. If it can read
  // the older file completely, and the newer file gives EIO again, the newer file counts as
  // damaged. The library does not rename it.
  //
  // StateUnreadableError is also thrown in these cases:
  // - The folder of some node cannot be listed. Exception: this run made the state that the
  //   restore plan names, and the library has loaded that state or an older one.
  // - A folder has files, even if only renamed ones, and none can be loaded.
  // - At the first call, without a restore plan: rank 0's node has no complete file, but another
  //   node has one. Without a plan the library loads files only from rank 0's node.
  // - The restore plan cannot be followed.
  // So training never begins at step 0 although a state exists, with two exceptions. A restore plan
  // can say that the job starts at step 0 (docs/recovery.md). With DDPRUN_ANEW=1 (`--start-anew`),
  // states from before this job are ignored.
  //
  // When load_latest() throws, some parts may already have new values.
  //
  // AgreedError is thrown if a complete file does not fit the parts, or does not have the state of
  // the scheduler or sampler in the parts. An older file is not tried, because that would lose work
  // silently. If the parameter names in the file begin with `module.`, that prefix is dropped.
  std::optional<State> load_latest(const CheckpointParts& parts);
  std::optional<State> load_latest(torch::nn::Module& module, torch::optim::Optimizer& optimizer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp

#endif  // DDP_CHECKPOINTER_H_
