#include "worker/src/data_parallel/straggler_summary.h"

#include <ddp/collectives.h>
#include <ddp/main_first.h>
#include <unistd.h>

#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "worker/contract/control.h"
#include "worker/src/agent/control_client.h"
#include "worker/src/group/control_device.h"
#include "worker/src/group/failure.h"

namespace ddp::internal {
namespace {

using std::chrono::nanoseconds;

constexpr char kExchange[] = "exchange of the ranks' step times";
constexpr std::size_t kMostTold = 8;  // stragglers in one summary

std::string HostKey(int rank) { return "ddp/host/" + std::to_string(rank); }

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  return name;
}

std::string Microseconds(nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

}  // namespace

StragglerSummaries::StragglerSummaries(const Context& ctx, int every)
    : ctx_(ctx), every_(every), clock_(ctx.device()) {
  every_ = std::stoi(broadcast(ctx, std::to_string(every)));
  if (every_ == 0) return;
  const std::string host = HostName();
  ctx.store()->set(HostKey(ctx.rank()), std::vector<std::uint8_t>(host.begin(), host.end()));
  if (ctx.rank() == 0) ControlClient::Process().Send(ddprun::control::kCompares, "1");
}

StragglerSummaries::~StragglerSummaries() {
  if (pending_ == nullptr || std::uncaught_exceptions() > exceptions_at_start_) return;
  try {
    pending_();
  } catch (const std::exception&) {
    // The next collective will report the error.
  }
}

void StragglerSummaries::StepEnded() {
  if (every_ == 0) return;
  if (const std::optional<nanoseconds> time = clock_.CommunicationEnded()) {
    window_.push_back(*time);
  }
  if (pending_ != nullptr) Collect();
  if (++steps_ % every_ == 0) Begin();
}

void StragglerSummaries::Begin() {
  const RankTimes mine = Summarize(std::exchange(window_, {}));
  exchanged_step_ = steps_;
  Collective(kExchange, ctx_.rank(), ctx_.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    torch::Tensor times = torch::zeros({ctx_.world_size(), 2}, torch::kInt64);
    times[ctx_.rank()][0] = std::int64_t{mine.first_quartile.count()};
    times[ctx_.rank()][1] = std::int64_t{mine.median.count()};
    exchanged_ = times.to(ControlDevice(ctx_));
    std::vector<torch::Tensor> message = {exchanged_};
    pending_ = [work = ctx_.process_group()->allreduce(message)] { work->wait(); };
  });
}

void StragglerSummaries::Collect() {
  std::vector<RankTimes> ranks;
  newest_ = {};
  newest_.step = exchanged_step_;
  Collective(kExchange, ctx_.rank(), ctx_.world_size(), [&] {
    std::exchange(pending_, nullptr)();
    const torch::Tensor times = exchanged_.cpu();
    const auto* const numbers = times.data_ptr<std::int64_t>();
    for (int rank = 0; rank < ctx_.world_size(); ++rank) {
      ranks.push_back({nanoseconds(numbers[2 * rank]), nanoseconds(numbers[2 * rank + 1])});
      newest_.times.push_back(ranks.back().median);
    }
  });
  const StragglerWatch::Verdict verdict = watch_.Judge(ranks);
  newest_.stragglers = verdict.stragglers;
  if (ctx_.rank() == 0) Report(verdict);
}

std::string StragglerSummaries::HostOf(int rank) const {
  const std::vector<std::uint8_t> host = ctx_.store()->get(HostKey(rank));
  return {host.begin(), host.end()};
}

void StragglerSummaries::Report(const StragglerWatch::Verdict& verdict) const {
  ControlClient& agent = ControlClient::Process();
  for (std::size_t i = 0; i < verdict.stragglers.size(); ++i) {
    if (i == kMostTold) {
      log_rank0(ctx_, "ddp: and " + std::to_string(verdict.stragglers.size() - i) + " ranks more");
      break;
    }
    const Straggler& straggler = verdict.stragglers[i];
    const std::string host = HostOf(straggler.rank);
    log_rank0(ctx_, "ddp: " + Describe(straggler, host, every_));
    agent.Send(ddprun::control::kStraggler, std::to_string(straggler.rank) + " " +
                                                Microseconds(straggler.time) + " " +
                                                Microseconds(straggler.others) + " " + host);
  }
  for (const int rank : verdict.ended) {
    log_rank0(ctx_, "ddp: rank " + std::to_string(rank) + " (" + HostOf(rank) +
                        ") keeps the others waiting no longer");
    agent.Send(ddprun::control::kStraggler, std::to_string(rank));
  }
}

}  // namespace ddp::internal
