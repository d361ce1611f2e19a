#include "worker/src/checkpoint/step_agreement.h"

#include <exception>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "worker/src/group/control_device.h"
#include "worker/src/group/failure.h"

namespace ddp::internal {

StepAgreement::~StepAgreement() {
  if (pending_ == nullptr || std::uncaught_exceptions() > exceptions_at_start_) return;
  try {
    pending_();
  } catch (const std::exception&) {
    // The next collective will report the error.
  }
}

StepAgreement::Values StepAgreement::Exchange(const Values& mine) {
  if (ctx_.world_size() == 1) return mine;
  Values agreed = {};
  Collective("agreeing on the next step", ctx_.rank(), ctx_.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    if (pending_ != nullptr) {
      std::exchange(pending_, nullptr)();
      const torch::Tensor arrived = values_.cpu();
      const auto* const numbers = arrived.data_ptr<std::int64_t>();
      for (std::size_t i = 0; i < kValues; ++i) agreed[i] = numbers[i];
    }
    torch::Tensor row = torch::empty({static_cast<std::int64_t>(kValues)}, torch::kInt64);
    for (std::size_t i = 0; i < kValues; ++i) row.data_ptr<std::int64_t>()[i] = mine[i];
    values_ = row.to(ControlDevice(ctx_));
    std::vector<torch::Tensor> message = {values_};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    auto work = ctx_.process_group()->allreduce(message, options);
    pending_ = [work] { work->wait(); };
  });
  return agreed;
}

}  // namespace ddp::internal
