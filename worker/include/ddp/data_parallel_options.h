// Options of DistributedDataParallel, and its statistics.
//
// Standard library only.
#ifndef DDP_DATA_PARALLEL_OPTIONS_H_
#define DDP_DATA_PARALLEL_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddp {

// Names, defaults and meanings are those of the Python class (torch/nn/parallel/distributed.py).
struct DataParallelOptions {
  // Broadcast rank 0's buffers (BatchNorm's statistics) before a forward that follows a forward
  // with gradients and without no_sync(). If false, buffers are sent only at the beginning and at
  // the end of join(); with libtorch 2.6 and newer not even then, like their Python classes.
  bool broadcast_buffers = true;

  // Size of a gradient bucket in MiB. Not set: 25. After the first step the buckets are rebuilt in
  // the order in which gradients became ready (not with find_unused_parameters, unless
  // static_graph).
  std::optional<double> bucket_cap_mb;

  // Size of the first bucket in bytes; small, so that communication starts early. Not set: 1 MiB
  // (dist._DEFAULT_FIRST_BUCKET_BYTES in Python). With libtorch 2.6 and newer, if bucket_cap_mb is
  // set and this is not, the first bucket is as large as the others, as in Python.
  std::optional<std::int64_t> first_bucket_bytes;

  // Before each backward, search the graph from forward's result for unused parameters, so that no
  // rank waits for their gradients. Needed if some parameter gets no gradient in some step. Costs a
  // walk over the graph and one small all-reduce. <ddp/output_tensors.h> says in which results
  // tensors are found.
  bool find_unused_parameters = false;

  // Gradients are views into the buckets: saves a copy of all gradients. Then clear them with
  // DistributedDataParallel::zero_grad(): Optimizer::zero_grad() of libtorch 1.13 throws.
  bool gradient_as_bucket_view = false;

  // You promise that every step uses the same parameters in the same way. Then unused parameters
  // are found in the first step only, reentrant backward passes may use a parameter several times,
  // and find_unused_parameters has no effect.
  bool static_graph = false;

  // statistics() measures the first ten steps, and then one step in this many
  // (_set_ddp_runtime_logging_sample_rate in Python). 1: every step.
  int statistics_sample_rate = 100;

  // Steps in a window of stragglers(); 0: no such summary. Costs one small all-reduce per window,
  // for which nobody waits. Rank 0's value counts on all ranks.
  int straggler_every = 100;
};

// For DistributedDataParallel::join(), as Model.join() of Python.
struct JoinOptions {
  // The divisor of gradients while some ranks have no more inputs: the world size (true), or the
  // number of ranks that still have inputs. With the world size each input keeps its weight.
  bool divide_by_initial_world_size = true;

  // All ranks stop, with an exception that names a rank, as soon as one has no more inputs.
  bool throw_on_early_termination = false;
};

// Where a step's time goes, as c10d::Logger measures it (torch/csrc/distributed/c10d/logger.hpp;
// model._get_ddp_logging_data() in Python). Means over the steps that were measured; a step is
// measured when the next one begins.
struct DataParallelStatistics {
  std::int64_t steps = 0;           // forwards with a synchronized backward
  std::int64_t measured_steps = 0;  // of these, how many are in the means below

  std::chrono::nanoseconds forward{0};           // from forward's start to its end
  std::chrono::nanoseconds backward_compute{0};  // from forward's end to the last gradient
  std::chrono::nanoseconds communication{0};  // from the first all-reduce's start to the last's end
  std::chrono::nanoseconds overlap{0};        // of communication, while gradients were computed

  // The share of communication that cost no time, 0 to 1; 0 before anything was measured.
  double hidden_share() const {
    return communication.count() == 0
               ? 0
               : static_cast<double>(overlap.count()) / static_cast<double>(communication.count());
  }

  bool buckets_rebuilt = false;           // in the order in which gradients became ready
  std::vector<std::size_t> bucket_bytes;  // of each bucket, in the order of reduction
};

// A rank that keeps the others waiting: see DistributedDataParallel::stragglers().
struct Straggler {
  int rank = 0;

  // Medians over the steps of a window: how long this rank computes on its own in a step, until
  // its first gradient bucket can be reduced; and how long the others do (the median of theirs).
  std::chrono::nanoseconds time{0};
  std::chrono::nanoseconds others{0};

  double ratio() const {
    return static_cast<double>(time.count()) / static_cast<double>(others.count());
  }
  std::chrono::nanoseconds wait() const { return time - others; }  // of the others, in each step
};

// The summary of one window of DataParallelOptions::straggler_every steps.
struct StragglerSummary {
  std::int64_t step = 0;  // the window's last, counted from 1 in this model; 0: none has ended yet
  std::vector<Straggler> stragglers;            // mostly empty; else the slowest first
  std::vector<std::chrono::nanoseconds> times;  // each rank's median; 0: nothing was measured
};

}  // namespace ddp

#endif  // DDP_DATA_PARALLEL_OPTIONS_H_
