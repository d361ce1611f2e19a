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
//   ddprun_descends_from   the runs from whose states that run continued, nearest first
//   ddprun_job, ddprun_epoch, ddprun_generation   under ddprun: job, requeue number and generation
//                    that made it
//   header_xxh3      XXH3-64 of the header without this entry, as JSON with sorted keys and no
//                    spaces
//
// A file gets its final name only when it is whole and on disk. It is written under a temporary
// name (`<name>.<host>-<PID namespace>-<pid>.tmp`), synced and renamed; then the folder is synced.
// save() removes the temporary files of killed writers of its own host and PID namespace, and any
// temporary file that was not written to for 24 h. A file of another run, or of an older version
// without run ids, is never replaced.
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

// What save() does while the last checkpoint is not on disk. At most one checkpoint is in progress.
// A checkpoint that the agent requests always waits.
enum class WhenBusy {
  kWait,  // waits: no checkpoint is lost, but a slow disk delays training
  kSkip,  // makes no checkpoint: training never waits for a disk
};

struct CheckpointerOptions {
  // The number of checkpoints that stay after a save: the saved file, and the next older ones of
  // this run and of the run whose state it loaded. Never counted and never removed: files of other
  // runs, files of a higher step, and files that this version cannot read. Of the damaged files of
  // this run that load_latest() renamed, the two newest stay. At least 1 (ConfigError).
  int keep_last = 2;

  // Files whose step is a multiple of this are never removed. 0: none. Not negative (ConfigError).
  std::int64_t keep_every = 0;

  WhenBusy when_busy = WhenBusy::kWait;

  // For step(): saves after each step that is a multiple of this. 0: only when the launcher asks.
  // Must not be negative. Must be 0 if there is no directory (ConfigError).
  std::int64_t save_every = 0;

  // For step(): the number of steps between two snapshots in memory. If 0: the time between them.
  // If both are 0: as often as possible within 1% of the training time. Neither may be negative
  // (ConfigError).
  std::int64_t snapshot_every = 0;
  std::chrono::milliseconds snapshot_interval{0};
  bool snapshots = true;  // false: none

  // For a program that only loads from the folder of a running training. It does not claim the
  // folder and renames nothing there; save() throws ConfigError.
  bool read_only = false;
};

// save(), step(), flush() and load_latest() are collectives: all ranks call them in the same order,
// one thread at a time. Threads of this object write the files; they call no code of the program.
// If a rank fails, no other rank hangs.
//
// Under ddprun there are also snapshots: files in memory. In step(), local rank 0 of each node
// makes them in DDPRUN_SNAPSHOT_DIR (in /dev/shm), which outlives the workers. So a restart loses
// almost nothing, even if a node is lost with its disk. A snapshot is a full checkpoint: every rank
// can load the snapshot of any node, also with another world size. At most one Checkpointer of a
// process makes snapshots.
//
// Under ddprun, rank 0 claims the folder in the first load_latest() or save(), and creates it if
// missing. If another training uses the folder, every rank throws FolderTakenError within 30 s;
// `--take-folder` takes the folder anyway. The destructor releases the folder, unless an exception
// is unwinding. If the owner cannot be read, rank 0 warns, and each save tries again.
//
// A disk that is full, read-only, over quota or gone never ends the training. Rank 0 prints path,
// reason and what happens next, sends CHECKPOINT_FAILED to the agent, and counts the failure in
// SaveStatus. Older files stay.
class Checkpointer {
 public:
  // `directory`: only rank 0 writes there, so only its node needs it; save() creates it. Empty:
  // only snapshots in memory, and save() throws ConfigError. Use one Checkpointer per folder. `ctx`
  // must outlive this object. Not a collective. Throws ConfigError for invalid options.
  Checkpointer(const Context& ctx, std::string directory,
               const CheckpointerOptions& options = CheckpointerOptions());

  // Waits until the last checkpoint is on disk or has failed, also after an exception: a training
  // that fails right after a save keeps that checkpoint. Waits for no other rank.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Begins a checkpoint. Returns its future path in this rank's `directory`; on all ranks "" if it
  // was skipped (WhenBusy). Rank 0 waits for one copy of the state into memory that is reused by
  // the next save (the first save also allocates it); the other ranks only take part in small
  // collectives. If the state is on a GPU, the copy is queued there, and the host does not wait for
  // it. Once the file is on disk, the agent is told, and status() and flush() show it.
  //
  // Saves rank 0's model, optimizer, scheduler and sampler: DistributedDataParallel keeps the other
  // ranks equal, except for buffers, where rank 0's count. Saves the random generators of every
  // rank.
  //
  // Supports SGD, Adam, AdamW, RMSprop, Adagrad and LBFGS. A checkpoint has the optimizer's state
  // (momentum, moments, history, step counts) and the learning rate of each parameter group. The
  // program must set all other options itself.
  //
  // Throws AgreedError on every rank for an error that would repeat: an optimizer or a dtype that
  // cannot be saved, a negative step. Never for a disk error.
  std::string save(const State& state, const CheckpointParts& parts);
  std::string save(const State& state, torch::nn::Module& module,
                   torch::optim::Optimizer& optimizer);

  // Call it after each finished step, with the place after that step. A training needs no other
  // call to survive. It reports the step to the agent (Context::report_step()), and makes a
  // snapshot and a checkpoint when due. If the agent asks for a checkpoint (SAVE: `ddprun stop
  // --save`, a preemption, a drain), all ranks make it at the same step.
  //
  // Without a snapshot or checkpoint it waits for no other rank: the ranks exchange their wishes
  // while the next step is computed. So a request during one step is carried out after the next
  // step. A snapshot delays training by one copy of the state and a few small collectives; another
  // thread hashes it.
  //
  // A node without room for two snapshots (/dev/shm, memory limits of its cgroup) warns once and
  // makes none. Throws like save().
  void step(const State& state, const CheckpointParts& parts);

  // Waits until the last checkpoint is on disk or has failed. Returns the results of all saves,
  // equal on all ranks except snapshot_step. So after `save(); flush();` the checkpoint is on disk,
  // or `error` says why not. Ranks other than 0 wait for rank 0 as in any collective, at most
  // Options::timeout.
  SaveStatus flush();

  // The results known here: on rank 0 the present ones, on other ranks those of the last save() or
  // flush(). Not a collective.
  SaveStatus status() const;

  // Fills the parts on every rank from the newest whole state, and restores the default random
  // generators. Returns nullopt and changes nothing if there is no state. The first call in a
  // process follows the launcher's restore plan, if there is one (DDPRUN_RESTORE_*): it loads the
  // state that the plan names, from the memory or the disk of any rank's node. If that state is
  // damaged, it takes an older one of that rank, or of rank 0. Without a plan it takes the newest
  // file in rank 0's folder.
  //
  // The bytes go directly into the parts, in chunks. One copy crosses the network to each node, and
  // the ranks of the node share it. Each rank needs at most 16 MiB of memory besides the parts,
  // plus one tensor if a tensor of the parts is not contiguous. At the end each rank has checked
  // the hashes of its tensors.
  //
  // A damaged file, which is short or has a wrong hash, is renamed: to `<name>.<run id>.corrupt` if
  // its header says that this run made it, else to `<name>.corrupt`. A file of an unknown format
  // version, or of another step than its name says, is left as it is. The rank that has the file
  // reports either on stderr, and the next older file is taken.
  //
  // A file that cannot be read is not damaged, and may be the newest. EACCES and EPERM throw
  // StateUnreadableError at once, other errors after DDPRUN_STATE_TIMEOUT_MS (2 minutes) of
  // retries. Exception: a file with EIO counts as damaged if it still gives EIO after an older file
  // of its folder was read whole. It is left as it is.
  //
  // StateUnreadableError is also thrown for a folder that cannot be listed on any node, a folder
  // whose files are all damaged, and a restore plan that cannot be followed: training never begins
  // at step 0 although a state exists. The parts may have been written to by then. Two exceptions:
  // without a restore plan a whole file on another node than rank 0's is not found; with
  // DDPRUN_ANEW=1 (--start-anew) states from before this job are ignored.
  //
  // A whole file that does not fit the parts, or lacks the state of a given scheduler or sampler,
  // throws AgreedError: an older file, or none, would lose work silently. A leading `module.` in
  // the file's parameter names is dropped. load_latest() first waits for an unfinished save.
  std::optional<State> load_latest(const CheckpointParts& parts);
  std::optional<State> load_latest(torch::nn::Module& module, torch::optim::Optimizer& optimizer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp

#endif  // DDP_CHECKPOINTER_H_
