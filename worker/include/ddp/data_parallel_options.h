// The options and the statistics of DistributedDataParallel.
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
  // true: rank 0's buffers (for example BatchNorm's statistics) are broadcast at construction,
  // before the first forward, and before each forward that follows a synchronized forward. A
  // forward is synchronized if gradients are enabled and it is not under no_sync(). In join() and
  // at its end, another rank may send its buffers. false: buffers are sent only at construction, at
  // the end of join(), and by sync_buffers(). With libtorch 2.6 and newer, as in Python, false
  // means that only sync_buffers() sends them.
  bool broadcast_buffers = true;

  // The size of a gradient bucket in MiB: at least 1 byte, at most 1,000,000 MiB (ConfigError). The
  // default is 25. After the first step the buckets are rebuilt in the order in which gradients
  // became ready. With find_unused_parameters they are rebuilt only if static_graph is also true.
  std::optional<double> bucket_cap_mb;

  // The size of the first bucket in bytes. It is small, so that communication starts early. The
  // default is 1 MiB (Python: dist._DEFAULT_FIRST_BUCKET_BYTES). Exception, as in Python: with
  // libtorch 2.6 and newer, if only bucket_cap_mb is set, the first bucket has that size too.
  std::optional<std::int64_t> first_bucket_bytes;

  // true: before each backward, the library searches the graph of forward's result for unused
  // parameters, so that no rank waits for their gradients. Set it if some step gives no gradient to
  // some parameter. It costs a walk over the graph and one small all-reduce. <ddp/output_tensors.h>
  // lists the result types in which the library finds tensors.
  bool find_unused_parameters = false;

  // true: gradients are views into the buckets, which saves a copy of all gradients. Then clear
  // gradients with DistributedDataParallel::zero_grad(), because Optimizer::zero_grad() of libtorch
  // 1.13 throws.
  bool gradient_as_bucket_view = false;

  // true promises that every step uses the same parameters in the same way. Then the library
  // searches for unused parameters in the first step only, whatever find_unused_parameters is, and
  // reentrant backward passes may use a parameter several times.
  bool static_graph = false;

  // statistics() measures the first ten steps, and then every n-th step (Python:
  // _set_ddp_runtime_logging_sample_rate). 1 means every step. Must be at least 1 (ConfigError).
  int statistics_sample_rate = 100;

  // The number of steps in a window of stragglers(). 0: there are no summaries. Each window costs
  // one small all-reduce, for which no rank waits. Rank 0's value applies to all ranks. Must not be
  // negative (ConfigError).
  int straggler_every = 100;
};

// Options of DistributedDataParallel::join(), like those of Python's method join().
struct JoinOptions {
  // The divisor of gradients while some ranks have no more inputs. true: the world size, so that
  // every input keeps its weight. false: the number of ranks that still have inputs.
  bool divide_by_initial_world_size = true;

  // true: as soon as one rank has no more inputs, all ranks throw AgreedError. Its text names such
  // a rank.
  bool throw_on_early_termination = false;
};

// The parts of a step's time, as measured by c10d::Logger (torch/csrc/distributed/c10d/logger.hpp;
// Python: model._get_ddp_logging_data()). The times are means over the measured steps. The figures
// of a step are known when the next step begins.
struct DataParallelStatistics {
  std::int64_t steps = 0;           // synchronized forwards: see broadcast_buffers
  std::int64_t measured_steps = 0;  // steps in the means below

  std::chrono::nanoseconds forward{0};           // from forward's start to its end
  std::chrono::nanoseconds backward_compute{0};  // from forward's end to the last gradient
  std::chrono::nanoseconds communication{0};  // from the first all-reduce's start to the last's end
  // The part of communication during the computation of gradients.
  std::chrono::nanoseconds overlap{0};

  // The share of communication that overlaps with computation: 0 to 1. It is 0 before the first
  // measurement.
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

  // Medians over the steps of a window. `time` is how long this rank computes on its own in a step,
  // until its first gradient bucket is ready. `others` is the median of the other ranks' times.
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
  // The last step of the window. Steps are counted from 1 for this model. 0: no window has ended.
  std::int64_t step = 0;
  std::vector<Straggler> stragglers;            // the slowest first; usually empty
  std::vector<std::chrono::nanoseconds> times;  // the median of each rank; 0: not measured
};

}  // namespace ddp

#endif  // DDP_DATA_PARALLEL_OPTIONS_H_
