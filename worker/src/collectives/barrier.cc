#include "worker/src/collectives/barrier.h"

#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "worker/src/base/in_words.h"
#include "worker/src/group/control_device.h"
#include "worker/src/group/failure.h"
#include "worker/src/peers/activity.h"

namespace ddp {
namespace internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// libtorch rounds a timeout down to whole milliseconds, so its timeouts may end this much early.
constexpr milliseconds kClockSlack(20);

std::string ArrivalsKey(int rank) { return "ddp/barrier/arrivals/" + std::to_string(rank); }

void WaitInGroup(const Context& ctx, milliseconds timeout) {
  const torch::Tensor token =
      torch::ones({1}, torch::dtype(torch::kInt64).device(ControlDevice(ctx)));
  std::vector<torch::Tensor> tensors = {token};
  ctx.process_group()->allreduce(tensors)->wait(timeout);
}

// Waits with keys of the store. Afterwards the store has no key of barrier `number`.
void WaitInStore(const Context& ctx, std::int64_t number, milliseconds timeout) {
  const auto store = ctx.store();
  const auto key = [number](const char* what) {
    return "ddp/barrier/" + std::to_string(number) + "/" + what;
  };
  const std::vector<std::uint8_t> yes = {1};
  const auto wait = [&](const char* what) {
    store->wait({key(what)}, timeout);
    // libtorch 1.13 also uses the last timeout for later answers on this connection, so reset it.
    store->wait({key(what)}, store->getTimeout());
  };
  if (store->add(key("count"), 1) == ctx.world_size()) store->set(key("all"), yes);
  wait("all");
  // Rank 0 hosts the store, so it must leave last. Otherwise it could end before the others know
  // that all ranks have come.
  if (ctx.rank() != 0) {
    if (store->add(key("left"), 1) == ctx.world_size() - 1) store->set(key("gone"), yes);
    return;
  }
  wait("gone");
  for (const char* what : {"count", "all", "left", "gone"}) store->deleteKey(key(what));
}

// For example "rank 3 has not come within 5 s; ranks 0, 1, 2 wait". If the store is gone, the text
// says that the missing ranks are not known.
std::string WhoIsMissing(const Context& ctx, std::int64_t number, milliseconds waited) {
  std::ostringstream within;
  within << " within " << std::chrono::duration<double>(waited).count() << " s";
  std::vector<int> missing;
  std::vector<int> waiting;
  try {
    for (int rank = 0; rank < ctx.world_size(); ++rank) {
      const bool here = ctx.store()->add(ArrivalsKey(rank), 0) >= number;
      (here ? waiting : missing).push_back(rank);
    }
  } catch (const std::exception&) {
    return "not complete" + within.str() +
           "; who is missing is not known, because rank 0, which hosts the store, is gone";
  }
  if (missing.empty()) return "not complete" + within.str() + ", though all have come by now";
  return RankList(missing) + (missing.size() == 1 ? " has" : " have") + " not come" + within.str() +
         "; " + RankList(waiting) + (waiting.size() == 1 ? " waits" : " wait");
}

}  // namespace

void WaitForAll(const Context& ctx, BarrierWay way, milliseconds timeout) {
  if (ctx.device().is_cuda()) torch::cuda::synchronize(ctx.device().index());
  if (ctx.world_size() == 1) return;
  const auto start = steady_clock::now();
  std::int64_t number = 0;
  Collective("barrier", ctx.rank(), ctx.world_size(),
             [&] { number = ctx.store()->add(ArrivalsKey(ctx.rank()), 1); });
  const InCollective here("barrier");
  try {
    way == BarrierWay::kGroup ? WaitInGroup(ctx, timeout) : WaitInStore(ctx, number, timeout);
  } catch (const std::exception& e) {
    const auto waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
    const bool in_time = waited + kClockSlack < timeout;
    throw CollectiveError("barrier: " + WhoIsMissing(ctx, number, in_time ? waited : timeout) +
                          (in_time ? ": " + TextOf(e) : "") + Cause());
  }
}

}  // namespace internal

void barrier(const Context& ctx) { barrier(ctx, ctx.timeout()); }

void barrier(const Context& ctx, std::chrono::milliseconds timeout) {
  internal::WaitForAll(
      ctx, ctx.carries_cpu_tensors() ? internal::BarrierWay::kGroup : internal::BarrierWay::kStore,
      timeout);
}

}  // namespace ddp
