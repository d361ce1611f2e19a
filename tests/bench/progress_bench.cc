// The cost of the progress page for each collective. Compares two process groups whose collectives
// complete at once. One records each collective in the page, the other does not. Prints medians;
// exit code 1 if the goal is missed.
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "worker/src/agent/progress.h"
#include "worker/src/group/recorded_group.h"

namespace {

using c10::ivalue::Future;
using ddp::internal::CollectiveRecord;
using ddp::internal::Progress;
using ddp::internal::RecordedGroup;
using Tensors = std::vector<torch::Tensor>;

constexpr int kRounds = 51;
constexpr int kTimes = 20000;
constexpr double kGoalNs = 1000;

class AtOnce : public c10d::ProcessGroup {
 public:
  AtOnce() : c10d::ProcessGroup(0, 1) {}
  CollectiveRecord::WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions&) override {
    const auto future = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(tensors));
    return c10d::Work::create_from_future(future);
  }
};

double NanosecondsOf(c10d::ProcessGroup& group) {
  Tensors tensors = {torch::ones({1})};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) group.allreduce(tensors, c10d::AllreduceOptions());
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
             .count() /
         kTimes;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  const auto plain = c10::make_intrusive<AtOnce>();
  const auto recorded = c10::make_intrusive<RecordedGroup<AtOnce>>(/*is_nccl=*/false);
  std::vector<double> without;
  std::vector<double> with;
  std::vector<double> cost;  // in turns: other load affects both alike
  for (int round = 0; round < kRounds; ++round) {
    without.push_back(NanosecondsOf(*plain));
    with.push_back(NanosecondsOf(*recorded));
    cost.push_back(with.back() - without.back());
  }
  const ddprun::ProgressGroup seen = Progress::Process().Read().groups[0];
  if (seen.finished != std::uint64_t{kRounds} * kTimes) {
    std::fprintf(stderr, "progress_bench: the page has not seen all collectives\n");
    return 2;
  }
  const bool met = Median(cost) <= kGoalNs;
  std::printf(
      "a collective: %.0f ns without the page, %.0f ns with it; the page costs %.0f ns"
      "  <= %.0f  %s\n",
      Median(without), Median(with), Median(cost), kGoalNs, met ? "PASS" : "FAIL");
  return met ? 0 : 1;
}
