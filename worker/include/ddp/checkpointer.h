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
//   header_xxh3      XXH3-64 of the header without this entry, as JSON with sorted keys and no
//                    spaces
//
// A file gets its name only when it is whole and on disk. It is written under a temporary name
// (`<name>.<host>-<PID namespace>-<pid>.tmp`), synced and renamed; then the folder is synced. The
// next save() on that host, or any save() after a day, removes what a killed writer left; never
// while the writer runs. A file of another run, or of an older version without run ids, is never
// replaced.
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

// What save() does if the last checkpoint is not on disk yet. There is never more than one in the
// making.
enum class WhenBusy {
  kWait,  // waits: every checkpoint is made, and a slow disk slows training down
  kSkip,  // makes no checkpoint: training never waits for a disk
};

struct CheckpointerOptions {
  // After a save, the saved file and the keep_last - 1 next older ones stay: of this run, and of
  // the run whose state it loaded. Files of other runs, files of a higher step, and files that this
  // version cannot read do not count and are never removed. Of this run's damaged files, which
  // load_latest() has renamed, the two newest stay. At least 1 (ConfigError).
  int keep_last = 2;

  // Files whose step is a multiple of this stay for good. 0: none. Not negative (ConfigError).
  std::int64_t keep_every = 0;

  WhenBusy when_busy = WhenBusy::kWait;

  // For step(): it saves after each step that is a multiple of this. 0: only when the launcher
  // asks. Not negative (ConfigError).
  std::int64_t save_every = 0;

  // For step(): the steps between two snapshots in memory; if 0, the time between them; if that is
  // 0 too, as many steps as keep the cost of snapshots below 1% of the training time. Neither
  // negative (ConfigError).
  std::int64_t snapshot_every = 0;
  std::chrono::milliseconds snapshot_interval{0};
  bool snapshots = true;  // false: none

  // For a program that only loads from a folder that a training uses: it does not claim the folder
  // and renames nothing there, and save() throws ConfigError.
  bool read_only = false;
};

// save(), step(), flush() and load_latest() are collectives: all ranks call them, in the same
// order, from one thread at a time. Threads of this object write the files; they call nothing of
// the program. If a rank fails, no other rank hangs.
//
// Under ddprun there is a second tier beside the files: snapshots in memory. In step(), the local
// rank 0 of each node makes them in DDPRUN_SNAPSHOT_DIR, which outlives the workers. So a restart
// loses next to nothing, even if a node is lost with its disk. A snapshot is a checkpoint in every
// respect: all ranks, of any number, may load any node's. At most one Checkpointer of a process
// makes snapshots.
//
// Under ddprun, rank 0 claims the folder in the first load_latest() or save(), which creates it. If
// another training uses it, that throws FolderTakenError on every rank, within 30 s;
// `--take-folder` takes the folder anyway. The destructor releases the folder, unless an exception
// is unwinding. If the owner cannot be determined, each save tries again.
//
// A disk that is full, read-only, over quota or gone never ends the training. Rank 0 prints what
// failed, with path and reason, and what happens next. It sends CHECKPOINT_FAILED to the agent;
// SaveStatus counts it; older files stay.
class Checkpointer {
 public:
  // Only rank 0 writes to `directory`, so only its node needs it; save() creates it. Empty:
  // snapshots in memory only. One Checkpointer per folder. `ctx` must outlive this object. No
  // collective. Throws ConfigError.
  Checkpointer(const Context& ctx, std::string directory,
               const CheckpointerOptions& options = CheckpointerOptions());

  // Returns when the last checkpoint is on disk or has failed; also after an exception, so a
  // training that failed right after a save has that checkpoint. Waits for no other rank.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Begins a checkpoint. Returns its future path in this rank's `directory`, or an empty string, on
  // all ranks alike, if it was skipped (WhenBusy). Rank 0 waits for one copy of the state into
  // memory that is kept for the next save (the first save also allocates that memory); the other
  // ranks wait for nothing. With the state on a GPU the copy is queued there, and the host does not
  // wait for it. When the file is on disk, the agent is told, and status() and flush() say so.
  //
  // Model, optimizer, scheduler and sampler are rank 0's: DistributedDataParallel keeps the other
  // ranks equal, except for buffers, where rank 0's count. The generators are those of every rank.
  //
  // Optimizers: SGD, Adam, AdamW, RMSprop, Adagrad, LBFGS. A checkpoint has the optimizer's state
  // (momentum, moments, history, step counts) and the learning rate of each parameter group. Its
  // other options are the program's.
  //
  // Throws AgreedError on every rank for errors that would repeat: an optimizer or a dtype that
  // cannot be saved, a negative step. Never for a disk.
  std::string save(const State& state, const CheckpointParts& parts);
  std::string save(const State& state, torch::nn::Module& module,
                   torch::optim::Optimizer& optimizer);

  // Call it when a step is finished, with the place after it: it is all that a training needs to
  // survive. It reports the step to the agent (Context::report_step()) and makes a snapshot and a
  // checkpoint when due. When the agent asks for one (SAVE: `ddprun stop --save`, a preemption, a
  // drain), all ranks make a checkpoint at the same step.
  //
  // Waits for no other rank: what the ranks must agree on travels while the next step is computed.
  // So a request during one step is carried out by all ranks after the next step. A snapshot holds
  // training up for one copy of the state and two small collectives; another thread hashes it.
  //
  // A node without room for two snapshots (/dev/shm, memory limits of its cgroup) warns once and
  // makes none. Throws as save() does.
  void step(const State& state, const CheckpointParts& parts);

  // Returns when the last checkpoint is on disk or has failed, with the results of all saves: the
  // same on all ranks. So after `save(); flush();` the checkpoint is on disk, or `error` says why
  // not. Ranks other than 0 wait for rank 0 as in any collective, at most Options::timeout.
  SaveStatus flush();

  // The results so far, without asking: on rank 0 as of now, elsewhere as of the last save() or
  // flush(). No collective.
  SaveStatus status() const;

  // Fills the parts, on every rank, from the newest whole state, and restores the default
  // generators. Returns nullopt and changes nothing if there is no state. The first call in a
  // process follows the launcher's restore plan, if there is one (DDPRUN_RESTORE_*): it loads the
  // state that the plan names, which the node of any rank may have in memory or on disk. If that
  // state is damaged, it takes an older one of that rank, or of rank 0. Without a plan it takes the
  // newest file in rank 0's folder.
  //
  // The state goes straight into the parts, in chunks. One copy crosses the network to each node,
  // and the ranks of the node share it. Beside the parts this takes at most 16 MiB of memory on a
  // rank. At the end each rank has checked the hashes of its tensors.
  //
  // A file that is short, has a wrong hash, or is not of the step in its name is renamed: to
  // `<name>.<run id>.corrupt` if its header says that this run made it, else to `<name>.corrupt`. A
  // file of an unknown format version is left alone. Both are reported on the stderr of the rank
  // that has the file, and the next older file is taken.
  //
  // A file that cannot be read is not damaged, and may be the newest. EACCES and EPERM throw
  // StateUnreadableError; other errors do so after DDPRUN_STATE_TIMEOUT_MS (2 minutes) of trying.
  // So do: a folder that cannot be listed on any node, a folder with files of which none is whole,
  // and a restore plan that cannot be carried out. Training does not begin at step 0 beside a
  // state. The parts may have been written to then. With DDPRUN_ANEW=1 (--start-anew) load_latest()
  // looks for nothing.
  //
  // A whole file that does not fit the parts, or lacks what a scheduler or a sampler needs, throws
  // AgreedError: an older file, or none, would lose work silently. A leading `module.` in its
  // parameter names is dropped. Waits for an unfinished save.
  std::optional<State> load_latest(const CheckpointParts& parts);
  std::optional<State> load_latest(torch::nn::Module& module, torch::optim::Optimizer& optimizer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp

#endif  // DDP_CHECKPOINTER_H_
