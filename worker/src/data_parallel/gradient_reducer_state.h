// The members of GradientReducer, for its source files.
#ifndef DDPRUN_WORKER_SRC_DATA_PARALLEL_GRADIENT_REDUCER_STATE_H_
#define DDPRUN_WORKER_SRC_DATA_PARALLEL_GRADIENT_REDUCER_STATE_H_

#include <ddp/distributed_data_parallel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>
#include <vector>

#include "worker/src/compat/compat.h"
#include "worker/src/data_parallel/model_sync.h"
#include "worker/src/data_parallel/straggler_summary.h"

namespace ddp::detail {

struct GradientReducer::State {
  // Constant after construction.
  const Context* ctx = nullptr;  // the user's; outlives this
  DataParallelOptions options;
  std::vector<torch::Tensor> parameters;  // all parameters, including those without gradients
  std::vector<torch::Tensor> buffers;
  std::vector<internal::NamedTensor>
      reduced;  // the parameters with gradients, in the order of the Reducer's numbers
  std::shared_ptr<compat::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;
  std::vector<std::pair<torch::Tensor, unsigned>> hooks;  // call NoteGradient; removed at the end

  // True if an averaging backward is prepared and none of its gradients is ready yet. Autograd's
  // threads read and clear it.
  std::atomic<bool> awaits_gradient{false};
  std::unique_ptr<internal::StragglerSummaries> stragglers;  // null: the job has one rank
  std::vector<std::size_t> first_bucket;  // the Reducer's first bucket at the last forward
  std::vector<bool> in_first_bucket;      // for each of `reduced`; in this backward

  internal::PackedBroadcast broadcast_of_buffers;
  std::optional<JoinOptions> join;  // while join() runs the user's loop
  bool has_comm_hook = false;
  bool synchronize = true;      // PyTorch's require_backward_grad_sync
  bool buffers_changed = true;  // PyTorch's require_forward_param_sync
  std::int64_t steps = 0;       // PyTorch's num_iterations
  std::int64_t measured_steps = 0;

  void AwaitGradients();  // an averaging backward may follow
  void PublishBuckets();
  void NoteGradient(std::size_t parameter);
  void NoteBackwardsEnd();

  bool SearchesInEachStep() const {
    return options.find_unused_parameters && !options.static_graph;
  }
};

}  // namespace ddp::detail

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_GRADIENT_REDUCER_STATE_H_
