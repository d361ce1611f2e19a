// A worker's place in the job: rank, process group, and connection to the agent.
#ifndef DDP_CONTEXT_H_
#define DDP_CONTEXT_H_

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace c10d {
class ProcessGroup;  // include <torch/csrc/distributed/c10d/ProcessGroup.hpp> to use it
class Store;         // include <torch/csrc/distributed/c10d/Store.hpp> to use it
}  // namespace c10d

namespace ddp {

struct Options {
  // "gloo", "nccl" or "auto". "auto" means nccl if this library was built with NCCL and the node
  // has a CUDA device; otherwise it means gloo. Must be the same on all ranks.
  std::string backend = "auto";

  // The kind of Context::device(): "cpu", "cuda" or "auto". "auto" means cuda with nccl, and cpu
  // with gloo. Use "cuda" with gloo if several ranks must share a GPU: NCCL refuses that. The ranks
  // of a node then take its GPUs in turn, and gradients go through host memory. Must be the same on
  // all ranks.
  std::string device = "auto";

  // The time limit of one collective. The default is PyTorch's, 30 minutes
  // (torch/distributed/constants.py: default_pg_timeout), or twice the longer of
  // --hang-startup-timeout and --hang-timeout, if this is more. So ddprun normally reports a hang,
  // with the rank that causes it, before the collective fails. Exception: if ranks have stood
  // still for minutes in a phase, the limit of `--hang-timeout auto` for it may be longer.
  std::optional<std::chrono::milliseconds> timeout;

  // The time limit of init() for the connections to other ranks, and for the wait for missing
  // ranks. The default is 5 minutes. If this is not set and ddprun watches for hangs, init() waits
  // for missing ranks at least one minute longer than ddprun's limit. So ddprun reports first,
  // unless another rank entered init() more than a minute later than this one.
  std::optional<std::chrono::milliseconds> init_timeout;

  // Makes malloc keep freed memory for later allocations. Otherwise malloc returns memory to the
  // kernel in each training step, and the next step faults it in again. Also asks the kernel for
  // huge pages for the next 256 MiB that malloc gives out. Applies to the whole process until it
  // ends. No effect if malloc is not glibc's, or if the environment sets malloc's own limits (such
  // as MALLOC_TRIM_THRESHOLD_, or glibc.malloc in GLIBC_TUNABLES).
  bool keep_freed_memory = true;

  // A warm standby is a process that `ddprun --warm` starts ahead of time. It waits in init() until
  // the agent needs a new worker, and then becomes that worker: docs/fast-restarts.md. With this
  // option the standby creates its CUDA context while it waits, which makes the restart shorter.
  // The context takes several hundred MB of each GPU, in addition to the running worker. No effect
  // without a GPU.
  bool warm_device = false;

  // The number of bytes that a warm standby faults in while it waits. Otherwise the new worker
  // faults them in page by page after the restart. No effect without keep_freed_memory.
  std::size_t warm_memory = std::size_t{64} << 20;
};

// A worker's membership in its job. ddp::init() makes it. A process has one Context at a time. It
// is movable, not copyable. It must outlive every object that refers to it
// (DistributedDataParallel, Checkpointer and others).
//
// Any thread may call the accessors and the report_ functions. Only the thread that called init()
// may destroy the Context.
class Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) = delete;

  // Leaves the process group and tells the agent. With gloo it waits for no other rank. With nccl
  // it first waits until this rank's GPU has finished its pending work. If a collective is pending,
  // that includes a wait for the other ranks.
  //
  // While an exception unwinds the stack, or after nccl has lost a rank, the destructor does not
  // destroy the process group, and tells the agent nothing. Destroying the group would wait for
  // collectives that can never finish. Exception: when run_in_place() leaves a generation, the
  // destructor ends the collectives and destroys the group.
  ~Context();

  int rank() const;              // this worker's number in the job: 0 <= rank() < world_size()
  int world_size() const;        // number of workers in the job
  int local_rank() const;        // this worker's number on its node
  int local_world_size() const;  // number of workers on this node; 1 if LOCAL_WORLD_SIZE is not set
  // The number of this generation (one group of ranks that train together), from 0. From
  // DDPRUN_GENERATION; 0 if that is not set.
  int generation() const;
  int restart_count() const;  // from TORCHELASTIC_RESTART_COUNT; 0 if that is not set

  // The device for this rank's model. With gloo it is the CPU, unless Options::device is "cuda".
  // Otherwise it is the GPU number LOCAL_RANK, modulo the number n of GPUs that the process sees.
  // With nccl, init() throws ConfigError if LOCAL_RANK >= n, unless NCCL_HOSTID is set.
  c10::Device device() const;

  const std::string& backend() const;  // "gloo" or "nccl"

  std::chrono::milliseconds timeout() const;  // Options::timeout, or its default

  // For collectives that this library does not wrap. The group takes tensors on device(). If
  // carries_cpu_tensors() is true, it also takes CPU tensors. Never null.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

  // True if process_group() also takes CPU tensors. Always true with gloo. With nccl it is true
  // from libtorch 2 on, where the group uses Gloo for CPU tensors. It is false in libtorch 1.13,
  // where a group has only one backend.
  bool carries_cpu_tensors() const;

  // The key-value store that all ranks of this generation share, for small values. The library
  // reserves all keys that begin with "ddp/", "world_size/" or "backend/"; NCCL uses "0" and names
  // such as "0:1". Never null.
  c10::intrusive_ptr<c10d::Store> store() const;

  // The report_ functions send a message to the agent (the `ddprun` process of this node) over the
  // socket DDPRUN_CONTROL_SOCKET. They never throw, and do not wait for the agent. Without an agent
  // they do nothing. A Checkpointer calls the first three itself.

  // The worker has finished training step `step`.
  void report_step(std::int64_t step) const;
  // The checkpoint of `step` is on disk at `path`, and synced.
  void report_checkpoint(std::int64_t step, const std::string& path) const;
  // The checkpoint of `step` was not saved, and training continues. `failures` is the number of
  // failures so far, including this one. Each Checkpointer counts only its own failures.
  void report_checkpoint_failed(std::int64_t step, std::int64_t failures,
                                const std::string& reason) const;
  // The program is in the phase `name` until the next report_phase() or report_step(). A name
  // longer than 64 bytes is cut; an empty one is ignored. For a phase with an end, use ddp::Phase
  // instead.
  void report_phase(const std::string& name) const;
  // The worker fails because of the error `text`. `kind` is one of:
  //   user         an error of the program
  //   collective   a collective failed, probably because another rank is lost
  //   bind         another process has MASTER_PORT
  //   checkpoint   a ddp::CheckpointError
  //   folder       the checkpoints belong to another training; the job does not start again
  //   state        a state exists and cannot be read; the job does not start again
  // ddp::run() and ddp::run_in_place() report errors themselves.
  void report_error(const std::string& kind, const std::string& text) const;

 private:
  friend Context init(const Options& options);
  friend int run_in_place(const std::function<int(Context&)>& body, const Options& options);
  struct State;
  explicit Context(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// While this object lives, the program is in the phase `name`, for example "evaluation". Use it for
// work that is not a training step and may take longer than a step. ddprun shows the phase. ddprun
// also learns for each phase how long the ranks may stand still before it reports a hang. Without a
// Phase, an evaluation looks like a step that never ends. The library sets these phases itself:
// init, restore, first_step, step, data, checkpoint, end.
//
//     {
//       const ddp::Phase phase(ctx, "evaluation");
//       Evaluate(model);
//     }
//
// Costs less than a microsecond. Also works without an agent. Names longer than 64 bytes are cut.
// Phases may nest. Only the training thread may use them.
class Phase {
 public:
  Phase(const Context& ctx, const std::string& name);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  class Scope;
  std::unique_ptr<Scope> scope_;
};

// Marks the time in which the optimizer changes the parameters: put it around optimizer.step(). In
// ddp::run_in_place(), when another rank is lost, the Checkpointer may use this rank's parameters
// as the state of the last finished step. It can do so only if the optimizer has not begun to
// change them. Without an OptimizerStep, the Checkpointer assumes that they change as soon as
// backward() has averaged the gradients. Costs less than a microsecond. With
// CheckpointerOptions::share_each_step the constructor is a collective.
class OptimizerStep {
 public:
  explicit OptimizerStep(const Context& ctx);
  ~OptimizerStep();
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
};

// Joins the job that the environment describes, like
// torch.distributed.init_process_group("env://"). Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR
// and MASTER_PORT; and, if they are set, LOCAL_WORLD_SIZE, DDPRUN_GENERATION,
// TORCHELASTIC_RESTART_COUNT and TORCHELASTIC_USE_AGENT_STORE. If neither RANK nor WORLD_SIZE is
// set, this process is a job of one. If WORLD_SIZE is 1, only RANK=0 must be set as well.
//
// If WORLD_SIZE is above 1, rank 0 listens on MASTER_PORT, unless its agent serves the store there
// (TORCHELASTIC_USE_AGENT_STORE=True). The other ranks connect to the store. init() returns on
// every rank after all ranks are connected. Before it returns, it sends READY to the agent.
//
// In a warm standby (the agent sets DDPRUN_STANDBY=1) init() first waits until the agent needs a
// worker. Then it replaces the environment, stdout and stderr by those of the new worker. Do not
// read RANK or other variables before init(): a standby does not have the worker's values yet.
//
// Signals. init() installs no handler for SIGTERM, so SIGTERM ends the process at once, also in a
// collective. Exception: Slurm and ddprun run the job together, and the program does not handle or
// ignore SIGTERM. Then the process ignores a SIGTERM that does not come from the agent. Slurm sends
// this SIGTERM to the agent too, and the agent handles it. In a job of several ranks init() makes
// the process ignore SIGPIPE, as every Python program does, unless the program has a handler. The
// reason: Gloo writes to ranks that may be gone, and that must become a CollectiveError.
//
// Stacks. Under ddprun, init() handles signal 61 (SIGRTMAX - 3), unless the program does. With this
// signal the agent asks a hung process for its stacks.
//
// Lost ranks. Each other rank keeps a connection to rank 0, at MASTER_ADDR and a free port. Until a
// failure, nothing is sent there. If a collective fails, or if a rank dies during or after a
// restore, the ranks learn over this connection which rank is missing, and why. Without the
// connection the errors say less, and everything else works. For a restore, the nodes make further
// temporary connections: docs/internals/restore.md.
//
// With nccl, a collective does not fail by itself when another rank ends: it waits on the GPU. So
// the same connection reports the lost rank at once (after about 11 s if its host has disappeared).
// With libtorch 2.x, this rank then aborts its collectives after 1 s, and the next call of this
// library that depends on them throws CollectiveError. If the process has not thrown 10 s after the
// abort, the library ends it with this error. init() also sets variables of NCCL's watchdog:
// docs/gpu.md.
//
// Network interface. Gloo uses the local address of the route to MASTER_ADDR, so this host's name
// need not resolve. GLOO_SOCKET_IFNAME (names of interfaces, separated by commas) overrides it.
//
// Throws
//   ConfigError      the environment or the options are wrong, or ranks contradict each other in
//                    RANK, WORLD_SIZE or backend
//   BindError        rank 0 cannot listen on MASTER_PORT
//   CollectiveError  within init_timeout a rank was not reachable, or ranks were missing; or some
//                    rank cannot join: the text names that rank and the reason
// std::runtime_error if the agent does not answer. Errors of libtorch pass unchanged.
Context init(const Options& options = Options());

}  // namespace ddp

#endif  // DDP_CONTEXT_H_
