// A worker's place in the job: who it is, its process group, and its line to the agent.
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
  // "gloo", "nccl", or "auto": nccl where this library was built with it and a CUDA device is
  // there, else gloo.
  std::string backend = "auto";

  // "cpu", "cuda", or "auto": cuda with nccl, cpu with gloo. What Context::device() becomes. "cuda"
  // with gloo is for ranks that share a GPU, which NCCL refuses: they get the node's devices in
  // turn, and gradients travel through the host's memory. The same on all ranks.
  std::string device = "auto";

  // How long one collective may take before it fails. Not set: 30 minutes, PyTorch's default
  // (torch/distributed/constants.py: default_pg_timeout), or, where ddprun watches for hangs, twice
  // the longest time that it waits (--hang-startup-timeout, --hang-timeout) if that is longer:
  // ddprun speaks first, because it knows which rank is to blame.
  std::optional<std::chrono::milliseconds> timeout;

  // How long init() tries to connect, and how long it waits for ranks that have not come. Not set:
  // 5 minutes; where ddprun watches for hangs, it waits for ranks a minute longer than ddprun does,
  // if that is longer: ddprun speaks first, for the same reason.
  std::optional<std::chrono::milliseconds> init_timeout;

  // Has the C library keep the memory that this process frees for what it allocates next, as one
  // training step after the other does, instead of giving it back to the system each time. Nothing
  // is changed where the environment has MALLOC_ variables for it. Holds for the whole process and
  // for good. It also asks the kernel for large pages for the first 256 MiB of the heap.
  bool keep_freed_memory = true;

  // A warm standby (`ddprun --warm`) makes its CUDA context while it waits, so that a restart need
  // not wait for that. Takes some hundred MB of each GPU beside the worker that runs there. Without
  // a GPU it has no effect.
  bool warm_device = false;

  // How much memory a warm standby takes from the system while it waits, in bytes, so that the
  // restart need not take that much, page by page. Only with keep_freed_memory, which has the
  // process keep it.
  std::size_t warm_memory = std::size_t{64} << 20;
};

// Made by ddp::init(), one in a process. Movable, not copyable. It must outlive everything that
// was given a reference to it (DistributedDataParallel, Checkpointer).
//
// The accessors and the report_ functions may be called from any thread, the destructor from the
// thread that called init().
class Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) = delete;

  // Leaves the group and says goodbye to the agent. It waits for no peer, but with nccl for what
  // this rank's GPU has been told to do. While an exception is unwinding the stack the process
  // group is abandoned instead of being taken down, because its destructor would wait for
  // collectives that can no longer finish.
  ~Context();

  int rank() const;              // in the job, 0 <= rank() < world_size()
  int world_size() const;        // workers in the job
  int local_rank() const;        // on this node
  int local_world_size() const;  // workers on this node; 1 if the launcher did not say
  int generation() const;        // which forming of the group this is, from 0 (DDPRUN_GENERATION)
  int restart_count() const;     // TORCHELASTIC_RESTART_COUNT

  // Where this rank's model belongs: cpu with gloo, cuda:LOCAL_RANK with nccl, unless
  // Options::device says otherwise.
  c10::Device device() const;

  const std::string& backend() const;  // "gloo" or "nccl"

  std::chrono::milliseconds timeout() const;  // Options::timeout

  // For collectives that this library does not wrap: of tensors on device(), and of tensors on the
  // CPU where carries_cpu_tensors(). Never null.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

  // Whether process_group() carries tensors on the CPU too: always with gloo; with nccl, whose
  // group has Gloo for them, but for libtorch 1.13, which has groups of one kind.
  bool carries_cpu_tensors() const;

  // The store that all ranks of this generation share, for small facts between them: a key-value
  // table that rank 0 hosts. Keys that begin with "ddp/" are this library's. Never null.
  c10::intrusive_ptr<c10d::Store> store() const;

  // Messages to the agent over DDPRUN_CONTROL_SOCKET. They never throw, never block, and do
  // nothing where there is no agent or it is gone.
  void report_step(std::int64_t step) const;  // training step `step` is finished
  void report_checkpoint(std::int64_t step, const std::string& path) const;  // durable on disk
  // A checkpoint could not be saved, and training goes on; the `failures`-th time in this process.
  void report_checkpoint_failed(std::int64_t step, std::int64_t failures,
                                const std::string& reason) const;
  // What the program does from now on, until the next report_phase() or report_step(). For one
  // that ends by itself ddp::Phase is better.
  void report_phase(const std::string& name) const;
  // `kind`: user, collective, bind or checkpoint. Only needed without ddp::run().
  void report_error(const std::string& kind, const std::string& text) const;

 private:
  friend Context init(const Options& options);
  friend int run_in_place(const std::function<int(Context&)>& body, const Options& options);
  struct State;
  explicit Context(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// While this lives, the program does `name`, for example "evaluation", which is no training step
// and may take longer than one. ddprun shows it, and learns how long it takes without a movement of
// any rank, before it calls the job hung: an evaluation that is not named looks like a step that
// does not end. The library names its own: init, restore, first_step, step, data, checkpoint.
//
//     {
//       const ddp::Phase phase(ctx, "evaluation");
//       Evaluate(model);
//     }
//
// Costs less than a microsecond, and works without an agent. Names longer than 64 bytes are cut.
// Phases nest; they are for one thread, the one that trains.
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

// While this lives, the parameters are being changed: a state that is taken now may be half of two
// steps. To be put around optimizer.step(); costs less than a microsecond.
class OptimizerStep {
 public:
  explicit OptimizerStep(const Context& ctx);
  ~OptimizerStep();
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
};

// Joins the job described by the environment, as torch.distributed.init_process_group("env://")
// does: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, and LOCAL_WORLD_SIZE,
// DDPRUN_GENERATION and TORCHELASTIC_RESTART_COUNT where they are set. With neither RANK nor
// WORLD_SIZE set, or with RANK=0 and WORLD_SIZE=1 alone, this process is a job of its own.
//
// In a process that ddprun has started as a warm standby (DDPRUN_STANDBY=1; `ddprun --warm`) this
// call first waits until the agent needs a worker, and then replaces the environment and stdout and
// stderr by the worker's. So what a program reads of them before, ranks above all, is not there or
// is not its own yet.
//
// Rank 0 listens on MASTER_PORT and the other ranks connect to it; returns on every rank once all
// are connected, and has then told the agent READY. SIGTERM ends a process that waits in a
// collective at once: no signal handler is installed, except under Slurm and ddprun together, where
// a SIGTERM that is not the agent's is left to the agent. In a job of several ranks SIGPIPE is
// ignored from then on, as in every Python program, unless the program has a handler: Gloo writes
// to ranks that may be gone, and that is to be a CollectiveError.
//
// The ranks also keep a connection each to another port of rank 0, any that is free, at
// MASTER_ADDR. Nothing is said on it while all is well. When a collective fails, or a rank dies in
// a restore or after one, it tells which rank is missing, and why. Where it cannot be made, errors
// say less, and all else works. A restore makes connections of its own between the nodes, while it
// lasts: docs/recovery.md.
//
// With nccl, collectives that another rank's end leaves waiting do not fail by themselves: what
// waits for the GPU waits on. Then this connection says at once that a rank was lost, and from
// libtorch 2.x on this rank aborts them after a second; the next call of this library that depends
// on them throws CollectiveError. A process that has not thrown 10 s later is ended, with that
// error. How NCCL's own watchdog is set, where the environment does not say otherwise: docs/gpu.md.
//
// Gloo talks over the local address that routes to MASTER_ADDR, so the host's own name need not
// resolve; GLOO_SOCKET_IFNAME (interface names, separated by commas) overrides that.
//
// Throws ConfigError (environment or options; also where ranks contradict each other in RANK,
// WORLD_SIZE or backend), BindError (rank 0's port), CollectiveError (rank 0 not reachable, or
// ranks missing, within init_timeout, or a rank that cannot join: the text says which and why).
Context init(const Options& options = Options());

}  // namespace ddp

#endif  // DDP_CONTEXT_H_
