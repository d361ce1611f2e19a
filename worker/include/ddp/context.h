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
  // "gloo", "nccl", or "auto": nccl if this library was built with it and there is a CUDA device,
  // else gloo.
  std::string backend = "auto";

  // Context::device(): "cpu", "cuda", or "auto": cuda with nccl, cpu with gloo. "cuda" with gloo is
  // for ranks that share a GPU, which NCCL refuses: the ranks get the node's devices in turn, and
  // gradients go through the host's memory. The same on all ranks.
  std::string device = "auto";

  // The time limit of one collective. Not set: 30 minutes, PyTorch's default
  // (torch/distributed/constants.py: default_pg_timeout), or twice the longer of
  // --hang-startup-timeout and --hang-timeout if that is more. So ddprun, which knows the rank to
  // blame, reports a hang first.
  std::optional<std::chrono::milliseconds> timeout;

  // The time limit of init() for connecting and for missing ranks. Not set: 5 minutes. If ddprun
  // watches for hangs, init() waits for missing ranks at least a minute longer than ddprun's limit,
  // so that ddprun reports first.
  std::optional<std::chrono::milliseconds> init_timeout;

  // Makes the C library keep freed memory for later allocations, instead of returning it to the
  // kernel at each training step, and asks for large pages for the first 256 MiB of the heap.
  // Applies to the whole process, until it ends. No effect if the environment has MALLOC_ variables
  // for this.
  bool keep_freed_memory = true;

  // A warm standby (`ddprun --warm`) creates its CUDA context while it waits, so that a restart
  // need not. Takes some hundred MB of each GPU, besides the worker that runs there. No effect
  // without a GPU.
  bool warm_device = false;

  // Bytes of memory that a warm standby faults in while it waits, so that a restart need not do it
  // page by page. Only with keep_freed_memory.
  std::size_t warm_memory = std::size_t{64} << 20;
};

// A worker's membership in its job. Made by ddp::init(), one per process. Movable, not copyable. It
// must outlive every object that refers to it (DistributedDataParallel, Checkpointer).
//
// Any thread may call the accessors and the report_ functions. The thread that called init() must
// call the destructor.
class Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) = delete;

  // Leaves the group and tells the agent. With gloo it waits for no peer. With nccl it first waits
  // until this rank's GPU has done its pending work, and so for the peers if pending collectives
  // need them. While an exception unwinds the stack, the process group is abandoned and not
  // destroyed, because its destructor would wait for collectives that can never finish.
  ~Context();

  int rank() const;              // in the job, 0 <= rank() < world_size()
  int world_size() const;        // workers in the job
  int local_rank() const;        // on this node
  int local_world_size() const;  // workers on this node; 1 if the launcher did not say
  int generation() const;        // from 0 (DDPRUN_GENERATION)
  int restart_count() const;     // TORCHELASTIC_RESTART_COUNT

  // The device of this rank's model: cpu with gloo, cuda:LOCAL_RANK with nccl, unless
  // Options::device says otherwise.
  c10::Device device() const;

  const std::string& backend() const;  // "gloo" or "nccl"

  std::chrono::milliseconds timeout() const;  // Options::timeout

  // For collectives that this library does not wrap. Takes tensors on device(), and on the CPU if
  // carries_cpu_tensors(). Never null.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

  // True if process_group() also takes CPU tensors: always with gloo. With nccl the group uses Gloo
  // for them, except in libtorch 1.13, whose groups have one backend only.
  bool carries_cpu_tensors() const;

  // The key-value store of all ranks of this generation, for small values. Keys that
  // begin with "ddp/" are reserved. Never null.
  c10::intrusive_ptr<c10d::Store> store() const;

  // Send messages to the agent over DDPRUN_CONTROL_SOCKET. They never throw and never block.
  // Without an agent they do nothing.
  void report_step(std::int64_t step) const;  // training step `step` is finished
  void report_checkpoint(std::int64_t step, const std::string& path) const;  // durable on disk
  // A checkpoint was not saved, and training continues. `failures`: the number so far, this one
  // included. Each Checkpointer counts its own.
  void report_checkpoint_failed(std::int64_t step, std::int64_t failures,
                                const std::string& reason) const;
  // The phase of the program, until the next report_phase() or report_step(). Prefer ddp::Phase for
  // a phase that ends.
  void report_phase(const std::string& name) const;
  // `kind`: user, collective, bind, checkpoint, folder or state. Needed only without ddp::run().
  void report_error(const std::string& kind, const std::string& text) const;

 private:
  friend Context init(const Options& options);
  friend int run_in_place(const std::function<int(Context&)>& body, const Options& options);
  struct State;
  explicit Context(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// While this object lives, the program is in the phase `name`, for example "evaluation". A phase is
// not a training step and may take longer than a step. ddprun shows the phase, and learns for each
// phase how long a standstill may last in it. An evaluation without a phase looks like a step that
// never ends. The library sets its own phases: init, restore, first_step, step, data, checkpoint.
//
//     {
//       const ddp::Phase phase(ctx, "evaluation");
//       Evaluate(model);
//     }
//
// Costs less than a microsecond, and works without an agent. Names longer than 64 bytes are cut.
// Phases nest. Only the training thread may use them.
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

// While this object lives, the parameters change: a state taken now may mix two steps. Put it
// around optimizer.step(). Costs less than a microsecond.
class OptimizerStep {
 public:
  explicit OptimizerStep(const Context& ctx);
  ~OptimizerStep();
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
};

// Joins the job that the environment describes, as torch.distributed.init_process_group("env://")
// does: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; and, if set, LOCAL_WORLD_SIZE,
// DDPRUN_GENERATION and TORCHELASTIC_RESTART_COUNT. With neither RANK nor WORLD_SIZE set, or with
// only RANK=0 and WORLD_SIZE=1, this process is a job of one.
//
// In a warm standby (DDPRUN_STANDBY=1; `ddprun --warm`) this call first waits until the agent needs
// a worker. Then it replaces the environment, stdout and stderr by the worker's. Do not read RANK
// or other variables before init(): they are missing, or belong to no worker.
//
// Rank 0 listens on MASTER_PORT, unless the agent serves the store there; the other ranks connect.
// Returns on every rank once all ranks are connected and READY was sent to the agent.
//
// SIGTERM ends a process at once, even in a collective: init() installs no handler for it.
// Exception: under Slurm and ddprun together, a SIGTERM from another process than the agent is
// ignored, and the agent handles it. In a job of several ranks SIGPIPE is ignored from then on, as
// in every Python program, unless the program has a handler: Gloo writes to ranks that may be gone,
// and that must become a CollectiveError.
//
// Each rank also keeps a connection to a free port of rank 0, at MASTER_ADDR. It carries no traffic
// until a failure. When a collective fails, or a rank dies during or after a restore, it tells
// which rank is missing, and why. Without it errors say less, and everything else works. A restore
// makes its own temporary connections between nodes: docs/internals/restore.md.
//
// With nccl, collectives do not fail by themselves when another rank ends: they wait on the GPU.
// Then this connection reports the lost rank at once. With libtorch 2.x, this rank aborts the
// collectives after a second, and the next dependent call of this library throws CollectiveError. A
// process that has not thrown 10 s later is ended with that error. init() also sets the variables
// of NCCL's watchdog that the environment does not set: docs/gpu.md.
//
// Gloo uses the local address of the route to MASTER_ADDR, so the host's name need not resolve.
// GLOO_SOCKET_IFNAME (interface names, separated by commas) overrides it.
//
// Throws ConfigError (environment or options; ranks contradict each other in RANK, WORLD_SIZE or
// backend), BindError (rank 0's port), CollectiveError (rank 0 not reachable or ranks missing
// within init_timeout, or a rank that cannot join: the text says which and why).
Context init(const Options& options = Options());

}  // namespace ddp

#endif  // DDP_CONTEXT_H_
