#include "launcher/torch_store/barrier_polls.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace ddprun::torch_store {
namespace {

// torch.distributed's STORE_BASED_BARRIER_PREFIX; other prefixes may precede it.
constexpr absl::string_view kBarrierKey = "store_based_barrier_key:";

std::int64_t NumberOf(const Reply& reply) {
  std::int64_t number = 0;
  if (reply.bytes.size() == sizeof(number))
    std::memcpy(&number, reply.bytes.data(), sizeof(number));
  return number;
}

}  // namespace

void BarrierPolls::See(ClientId client, const Request& request, std::size_t first,
                       Replies* replies) {
  if (world_size_ == 0 || request.operation != Operation::kAdd) return;
  const absl::string_view key = request.texts[0];
  if (!absl::StrContains(key, kBarrierKey)) return;
  const std::int64_t sum = NumberOf((*replies)[first]);  // the first reply to ADD is for its client
  if (request.number == 0 && sum < world_size_) {
    Barrier& barrier = barriers_[key];
    barrier.sum = sum;
    barrier.clients.push_back(client);
    replies->erase(replies->begin() + static_cast<std::ptrdiff_t>(first));
    return;
  }
  const auto at = barriers_.find(key);
  if (at == barriers_.end()) return;
  at->second.sum = sum;
  if (sum < world_size_) return;
  for (const ClientId waiting : at->second.clients) {
    replies->push_back({waiting, EncodeNumber(sum)});
  }
  barriers_.erase(at);
}

void BarrierPolls::Answer(ClientId client, Replies* replies) {
  for (const auto& [key, barrier] : barriers_) {
    for (const ClientId waiting : barrier.clients) {
      if (waiting == client) replies->push_back({client, EncodeNumber(barrier.sum)});
    }
  }
  Forget(client);
}

void BarrierPolls::AnswerAll(Replies* replies) {
  for (const auto& [key, barrier] : std::exchange(barriers_, {})) {
    for (const ClientId client : barrier.clients) {
      replies->push_back({client, EncodeNumber(barrier.sum)});
    }
  }
}

void BarrierPolls::Forget(ClientId client) {
  for (auto at = barriers_.begin(); at != barriers_.end();) {
    const auto barrier = at++;
    std::erase(barrier->second.clients, client);
    if (barrier->second.clients.empty()) barriers_.erase(barrier);
  }
}

}  // namespace ddprun::torch_store
