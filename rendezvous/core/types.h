// The words of the rendezvous as types, so that a rank is never passed where a generation is meant.
#ifndef DDPRUN_RENDEZVOUS_CORE_TYPES_H_
#define DDPRUN_RENDEZVOUS_CORE_TYPES_H_

#include <chrono>
#include <compare>
#include <cstdint>

namespace ddprun {

template <class Tag, class Rep>
struct StrongNumber {
  Rep value{};
  auto operator<=>(const StrongNumber&) const = default;
};

// Global rank of a worker, 0..world size − 1.
using Rank = StrongNumber<struct RankTag, int>;
// Rank of a worker on its node, 0..workers of the node − 1.
using LocalRank = StrongNumber<struct LocalRankTag, int>;
// Rank of a node in the job (torchrun's GROUP_RANK), 0..nodes − 1.
using NodeRank = StrongNumber<struct NodeRankTag, int>;
// One forming of the group; the first is 0. A forming that was abandoned has used its number.
using Generation = StrongNumber<struct GenerationTag, int>;
// What an agent may claim to have been in; a rendezvous that goes on from there has as many left.
inline constexpr int kMaxClaimedGeneration = 500'000'000;
// One life of an agent: a random number drawn when the agent starts, never 0.
using AgentId = StrongNumber<struct AgentIdTag, std::uint64_t>;
// One run of a job, from its first forming to its end, over all of its generations: a random number
// that the rendezvous draws. Two trainings never have the same, whatever they are called; 0: none
// is known.
using RunId = StrongNumber<struct RunIdTag, std::uint64_t>;
// A request to look at the disk again: a random number that the rendezvous draws. An agent names
// the newest one that it had heard of when its look began; 0: none.
using LookId = StrongNumber<struct LookIdTag, std::uint64_t>;

// A request for stacks: a random number that the rendezvous draws, and the answer names.
using StackRequestId = StrongNumber<struct StackRequestIdTag, std::uint64_t>;

// A monotonic time that its owner passes in. The cores never read a clock.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_TYPES_H_
