// Checkpoints of a model, its optimizer, and the place in the training.
//
// One file per checkpoint, `step-000000001200.safetensors`, readable from Python with
// `safetensors.torch.load_file`. Tensors are named `model.<parameter or buffer>` and
// `optim.<parameter index>.<field>`; `__metadata__` holds (all values are strings)
//
//   ddprun_format    "1"
//   step, epoch, batch, world_size       decimal numbers; see State
//   lr               a JSON array: the learning rate of each parameter group
//   lr_steps         decimal: steps of the scheduler, if one was given
//   sampler          SamplerState::to_string(), if a sampler was given
//   buckets          which parameters are in which gradient bucket, if that is known
//   rng, rng_cuda    state of each rank's default generator, in hex, separated by commas
//   user             a JSON object: State::user
//   xxh3             a JSON object: XXH3-64 of each tensor's bytes, 16 hex digits
//   ddprun_run       which run of a job made it, 16 hex digits; under ddprun DDPRUN_JOB_RUN_ID
//   ddprun_descends_from   the runs from whose states that one went on, the nearest first
//   header_xxh3      the same of the header without this entry, as JSON with sorted keys and no
//                    spaces
//
// A file appears under its name only when it is whole and on disk: it is written under a
// temporary name (`<name>.<host>-<PID namespace>-<pid>.tmp`), synced, renamed, and the folder
// synced. What a writer that was killed left half done is removed by the next save() on that host,
// or by any after a day; never while its writer runs. A file of another run, or of an older version
// that names none, is never replaced.
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

// The place in the training that a checkpoint stands for.
struct State {
  std::int64_t step = 0;                    // optimizer steps finished, in the whole training
  std::int64_t epoch = 0;                   // the epoch to go on in, from 0
  std::int64_t batch = 0;                   // batches of this rank that are finished in that epoch
  std::map<std::string, std::string> user;  // anything else the program wants back

  // Filled in by load_latest(), ignored by save().
  int world_size = 0;  // of the job that saved it
  std::string path;    // of the file, on the node of the rank that had it
};

// What save() does while the checkpoint before it is not on disk yet. There are never two.
enum class WhenBusy {
  kWait,  // until it is: every checkpoint is made, and a slow disk slows training down
  kSkip,  // nothing: this one is not made, and training never waits for a disk
};

struct CheckpointerOptions {
  // After a save, the file just saved and the keep_last - 1 next older ones stay: of this run's,
  // and of those of the run from whose state it went on. Files of other runs, of a higher step, and
  // those that this version cannot read, do not count and are never removed. Of this run's damaged
  // files, which load_latest() has renamed, the two newest stay. At least 1 (ConfigError).
  int keep_last = 2;

  // Files whose step is a multiple of this stay as well, for good. 0: no others. Not negative
  // (ConfigError).
  std::int64_t keep_every = 0;

  WhenBusy when_busy = WhenBusy::kWait;

  // For step(). It saves after each step that is a multiple of this. 0: only when the launcher asks
  // for it. Not negative (ConfigError).
  std::int64_t save_every = 0;

  // For step(): how many steps are between two snapshots in memory, or, if that is 0, how much time
  // (as many steps as fit in); if that is 0 as well, as many steps as it takes for snapshots to
  // cost less than 1% of the training's time. Neither negative (ConfigError).
  std::int64_t snapshot_every = 0;
  std::chrono::milliseconds snapshot_interval{0};
  bool snapshots = true;  // false: none

  // For a program that only loads, beside a training that uses the folder: it does not claim the
  // folder, renames nothing there, and save() throws ConfigError.
  bool read_only = false;
};

// save(), step(), flush() and load_latest() are collectives: all ranks call them, in the same
// order, from one thread at a time. Files are written by threads of this object, which call nothing
// of the program's. No rank hangs where another one fails.
//
// Under ddprun there is a second tier beside the files: snapshots in memory. step() has the local
// rank 0 of each node make them in DDPRUN_SNAPSHOT_DIR, which outlives the workers, so that a
// restart loses next to nothing, also where a node is lost with its disk. A snapshot is a
// checkpoint in every respect: any node's may be loaded, by all ranks, whatever their number. A
// process has at most one Checkpointer that makes any.
//
// Under ddprun rank 0 claims the folder with the first load_latest() or save(), which creates it.
// While another training is using it, that throws FolderTakenError on every rank, within 30 s:
// `--take-folder` takes it all the same. The destructor releases it, unless it is called for an
// exception. Where it cannot be told whose the folder is, each save tries again.
//
// A disk that is full, read-only, over quota or gone never ends the training: rank 0 says on stderr
// what happened, with path and reason, and what happens next; the agent is told
// (CHECKPOINT_FAILED); SaveStatus counts it; older files stay as they are.
class Checkpointer {
 public:
  // Rank 0 alone writes to `directory`, so only its node needs it; save() creates it. Empty: there
  // are snapshots in memory, and nothing else. One Checkpointer for one folder. `ctx` must outlive
  // this object. No collective. Throws ConfigError.
  Checkpointer(const Context& ctx, std::string directory,
               const CheckpointerOptions& options = CheckpointerOptions());

  // Returns when the last checkpoint is on disk, or has failed; after an exception too, so that a
  // training which failed right after a save has it. Waits for no other rank.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Begins a checkpoint and returns the path that it will have in this rank's `directory`, or
  // nothing, on all ranks alike, if it was skipped: WhenBusy. Rank 0 is held up for one copy of the
  // state into memory that is kept for the next save (the first one also has to get that memory),
  // the others not even for that. With the state on a GPU the copy is queued there, and the host
  // does not wait for it. When the file is on disk, the agent is told; status() and flush() know.
  //
  // Model, optimizer, scheduler and sampler are rank 0's: DistributedDataParallel keeps the others
  // equal, but for the buffers, of which rank 0's count. The generators are those of every rank.
  //
  // Optimizers: SGD, Adam, AdamW, RMSprop, Adagrad, LBFGS. What a checkpoint holds of one is its
  // state (momentum, moments, history, step counts) and the learning rate of each parameter group;
  // its other options are the program's.
  //
  // Throws, on every rank, AgreedError for what will not be better the next time: an optimizer or a
  // dtype that cannot be saved, a negative step. Never for a disk.
  std::string save(const State& state, const CheckpointParts& parts);
  std::string save(const State& state, torch::nn::Module& module,
                   torch::optim::Optimizer& optimizer);

  // To be called when a step is finished, with the place after it: all that a training needs to
  // survive. Tells the agent the step (Context::report_step()), makes a snapshot and a checkpoint
  // where one is due, and a checkpoint, at the same step on all ranks, when the agent has asked for
  // it (SAVE: `ddprun stop --save`, a preemption, a drain).
  //
  // Waits for no other rank: what the ranks must agree on travels while the next step is computed.
  // So what one is asked for during a step is done by all after the next. A snapshot holds training
  // up for one copy of the state and two small collectives; the hashing is another thread's.
  //
  // Where a node has no room for two snapshots (/dev/shm, the memory limits of its cgroup), it says
  // so once and makes none. Throws as save() does.
  void step(const State& state, const CheckpointParts& parts);

  // Returns when the last checkpoint is on disk, or has failed, and what became of it and of those
  // before it: the same on all ranks. So `save(); flush();` is a save that is done when it returns,
  // and `error` says whether it is. Ranks other than 0 wait for rank 0 as in any collective, at
  // most Options::timeout.
  SaveStatus flush();

  // What is known without asking: on rank 0 how things are now, elsewhere how they were at the last
  // save() or flush(). No collective.
  SaveStatus status() const;

  // Fills the parts, on every rank, from the newest state that is whole, and sets the default
  // generators back; nullopt, changing nothing, if nothing is there. The first call in a process
  // follows the launcher's restore plan, where there is one (DDPRUN_RESTORE_*): the state that it
  // names, which any rank's node may have in memory or on disk, and no other but an older one of
  // that rank's, or of rank 0's, if it is damaged. Else it is the newest file in rank 0's folder.
  //
  // The state goes straight into the parts, in chunks: one copy crosses the network to each node,
  // whose ranks share it; beside the parts this takes at most 16 MiB of memory on a rank. In the
  // end each rank has checked the hashes of what it has.
  //
  // A file that is short, has a wrong hash, or is not of the step in its name, is renamed to
  // `<name>.<run id>.corrupt` where its header says that this run made it, else to
  // `<name>.corrupt`; one of an unknown format version is left alone. Either is reported on the
  // stderr of the rank that has it, and the next older one is taken. What the system does not give
  // out is not damaged, and may be the newest: EACCES and EPERM throw StateUnreadableError, other
  // errors after DDPRUN_STATE_TIMEOUT_MS (2 minutes), in which it is tried again. So does a folder
  // that cannot be listed on any node, a folder with files of which none is whole, and a plan that
  // cannot be followed: training does not begin at step 0 beside a state. The parts may have been
  // written to then. With DDPRUN_ANEW=1 (--start-anew) nothing is looked for.
  //
  // A whole file that does not fit the parts, or lacks what a scheduler or a sampler needs, throws
  // AgreedError: going back to an older file, or to none, would lose work in silence. A leading
  // `module.` in its parameter names is dropped. Waits for a save that is not finished.
  std::optional<State> load_latest(const CheckpointParts& parts);
  std::optional<State> load_latest(torch::nn::Module& module, torch::optim::Optimizer& optimizer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp

#endif  // DDP_CHECKPOINTER_H_
