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
  // Broadcasts rank 0's buffers (such as BatchNorm's statistics) before each forward that follows a
  // forward with gradients and without no_sync(). If false, buffers are sent only at construction
  // and at the end of join(); with libtorch 2.6 and newer not even then, like its Python class.
  bool broadcast_buffers = true;

  // Size of a gradient bucket in MiB. Not set: 25. After the first step the buckets are rebuilt in
  // the order in which gradients became ready; with find_unused_parameters only if static_graph.
  std::optional<double> bucket_cap_mb;

  // Size of the first bucket in bytes; small, so that communication starts early. Not set: 1 MiB
  // (Python: dist._DEFAULT_FIRST_BUCKET_BYTES). With libtorch 2.6 and newer, if bucket_cap_mb is
  // set and this is not, the first bucket is as large as the others, as in Python.
  std::optional<std::int64_t> first_bucket_bytes;

  // Searches the graph of forward's result for unused parameters before each backward, so that no
  // rank waits for their gradients. Needed if a parameter gets no gradient in some step. Costs a
  // walk over the graph and one small all-reduce. <ddp/output_tensors.h> lists the result types
  // that are searched for tensors.
  bool find_unused_parameters = false;

  // Makes gradients views into the buckets, which saves a copy of all gradients. Then clear them
  // with DistributedDataParallel::zero_grad(): Optimizer::zero_grad() of libtorch 1.13 throws.
  bool gradient_as_bucket_view = false;

  // A promise that every step uses the same parameters in the same way. Then unused parameters are
  // found in the first step only, reentrant backward passes may use a parameter several times, and
  // find_unused_parameters has no effect.
  bool static_graph = false;

  // statistics() measures the first ten steps, and then every n-th step (Python:
  // _set_ddp_runtime_logging_sample_rate). 1: every step.
  int statistics_sample_rate = 100;

  // Steps in a window of stragglers(); 0: no summaries. Costs one small all-reduce per window, for
  // which no rank waits. Rank 0's value applies to all ranks.
  int straggler_every = 100;
};

// Options of DistributedDataParallel::join(), like those of Python's Model.join().
struct JoinOptions {
  // The divisor of gradients while some ranks have no more inputs: the world size (true), or the
  // number of ranks that still have inputs (false). With the world size every input keeps its
  // weight.
  bool divide_by_initial_world_size = true;

  // All ranks throw, and the text names a rank, as soon as one rank has no more inputs.
  bool throw_on_early_termination = false;
};

// The parts of a step's time, as measured by c10d::Logger (torch/csrc/distributed/c10d/logger.hpp;
// Python: model._get_ddp_logging_data()). Means over the measured steps; a step is measured when
// the next one begins.
struct DataParallelStatistics {
  std::int64_t steps = 0;           // forwards with a synchronized backward
  std::int64_t measured_steps = 0;  // steps in the means below

  std::chrono::nanoseconds forward{0};           // from forward's start to its end
  std::chrono::nanoseconds backward_compute{0};  // from forward's end to the last gradient
  std::chrono::nanoseconds communication{0};  // from the first all-reduce's start to the last's end
  // The part of communication during the computation of gradients.
  std::chrono::nanoseconds overlap{0};

  // The share of communication hidden behind computation, 0 to 1; 0 before the first measurement.
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

  // Medians over the steps of a window. `time`: how long this rank computes on its own in a step,
  // until its first gradient bucket is ready. `others`: the median of the other ranks' times.
  std::chrono::nanoseconds time{0};
  std::chrono::nanoseconds others{0};

  double ratio() const {
    return static_cast<double>(time.count()) / static_cast<double>(others.count());
  }
  // How long the others wait in each step.
  std::chrono::nanoseconds wait() const { return time - others; }
};

// The summary of one window of DataParallelOptions::straggler_every steps.
struct StragglerSummary {
  // Last step of the window, counted from 1 for this model; 0: no window has ended.
  std::int64_t step = 0;
  std::vector<Straggler> stragglers;            // slowest first; mostly empty
  std::vector<std::chrono::nanoseconds> times;  // median of each rank; 0: not measured
};

}  // namespace ddp

#endif  // DDP_DATA_PARALLEL_OPTIONS_H_
