#include "rendezvous/hangs/silent_culprit.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/hangs/stack_culprit.h"
#include "rendezvous/stacks/rank_set.h"
#include "rendezvous/stacks/stack_outliers.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace {

RankSet SilentOf(const std::vector<StillRank>& ranks) {
  RankSet silent;
  for (const StillRank& rank : ranks) {
    if (rank.silent) silent.Add(rank.number());
  }
  return silent;
}

// The rank of `silent` to name. `silent` is not empty.
const StillRank& ChosenOf(const std::vector<StillRank>& ranks, const RankSet& silent,
                          const StackTree& stacks) {
  const RankSet odd = UnlikeTheMajority(stacks, silent);
  const std::uint32_t number = (odd.empty() ? silent : odd).ranges().front().first;
  return *std::find_if(ranks.begin(), ranks.end(),
                       [number](const StillRank& rank) { return rank.number() == number; });
}

// "started 40.0 s ago, now in Dataset::Open dataset.cc:88"
std::string SinceItsStart(const StillRank& rank, const StackTree& stacks) {
  std::string where = WhereInCode(stacks, rank.rank);
  if (where.empty()) where = rank.worker.waits_for;
  return absl::StrCat("started ", ForHowLong(rank.worker.still), " ago",
                      where.empty() ? "" : ", now in ", where);
}

std::string OfAll(std::size_t some, std::size_t all) {
  return absl::StrCat(some, " of ", all, " ranks");
}

}  // namespace

std::optional<HangVerdict> MissingInInit(const std::vector<StillRank>& ranks,
                                         const StackTree& stacks) {
  const RankSet silent = SilentOf(ranks);
  const auto inside =
      static_cast<std::size_t>(std::count_if(ranks.begin(), ranks.end(), [](const StillRank& rank) {
        return !rank.silent && rank.worker.phase == control::kPhaseInit;
      }));
  if (silent.empty() || inside == 0) return std::nullopt;
  const StillRank& culprit = ChosenOf(ranks, silent, stacks);
  RankSet on_its_host;
  for (const StillRank& rank : ranks) {
    if (rank.silent && rank.host == culprit.host) on_its_host.Add(rank.number());
  }
  const std::uint64_t elsewhere = silent.count() - on_its_host.count();
  return HangVerdict{
      culprit,
      absl::StrCat(OfAll(inside, ranks.size()), inside == 1 ? " is" : " are",
                   " in init(); missing ", on_its_host.ToString(), " on ", culprit.host,
                   elsewhere == 0 ? "" : absl::StrCat(" and ", elsewhere, " on other nodes"),
                   ": rank ", culprit.rank.value, " (pid ", culprit.worker.pid, ") ",
                   SinceItsStart(culprit, stacks)),
      culprit.worker.busy};
}

std::optional<HangVerdict> ReportedNothing(const std::vector<StillRank>& ranks,
                                           const StackTree& stacks) {
  const RankSet silent = SilentOf(ranks);
  if (silent.empty() || silent.count() == ranks.size()) return std::nullopt;
  const StillRank& culprit = ChosenOf(ranks, silent, stacks);
  return HangVerdict{culprit,
                     absl::StrCat(NameOf(culprit), AndOthers(silent.count()),
                                  " has told nothing: it ", SinceItsStart(culprit, stacks), "; ",
                                  OfAll(ranks.size() - silent.count(), ranks.size()),
                                  " have told how far they are"),
                     culprit.worker.busy};
}

}  // namespace ddprun
