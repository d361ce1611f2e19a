// Distinct types for ranks, generations and ids, so that the compiler rejects a rank in the place
// of a generation.
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
// Number of a generation, from 0 on. If a generation is given up before its workers start, its
// number is not used again.
using Generation = StrongNumber<struct GenerationTag, int>;
// The highest generation that an agent may claim. A rendezvous that continues from it still has
// more than a billion numbers for later generations.
inline constexpr int kMaxClaimedGeneration = 500'000'000;
// Identifies an agent: a random number that it draws at its start, never 0.
using AgentId = StrongNumber<struct AgentIdTag, std::uint64_t>;
// Identifies one run of a job, from its first forming to its end: a random number that the
// rendezvous draws. Two runs of jobs with the same name have different ids. 0: not known.
using RunId = StrongNumber<struct RunIdTag, std::uint64_t>;
// Identifies a LookAgain, the request of the rendezvous to read again which states a disk holds: a
// random number that the rendezvous draws. With its states, an agent sends the newest request that
// it had received when it began to read them. 0: none.
using LookId = StrongNumber<struct LookIdTag, std::uint64_t>;

// A request for stacks: a random number that the rendezvous draws; the answer repeats it.
using StackRequestId = StrongNumber<struct StackRequestIdTag, std::uint64_t>;

// A monotonic time, passed in by the caller. JobMachine, Supervisor and Leadership never read a
// clock.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_TYPES_H_
