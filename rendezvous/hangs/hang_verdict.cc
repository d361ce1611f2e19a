#include "rendezvous/hangs/hang_verdict.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rendezvous/core/words.h"
#include "rendezvous/hangs/collective_calls.h"
#include "rendezvous/hangs/silent_culprit.h"
#include "rendezvous/hangs/stack_culprit.h"

namespace ddprun {
namespace {

using Ranks = std::vector<const StillRank*>;

std::string Count(std::size_t count, const char* one, const char* many) {
  return absl::StrCat(count, " ", count == 1 ? one : many);
}

// What the worker waits for. For a stopped rank: which of its processes is stopped.
std::string At(const StillWorker& worker) {
  if (worker.waits_for.empty()) return "";
  return absl::StrCat(worker.state == ProcessState::kStopped ? ": " : "; it is in ",
                      worker.waits_for);
}

std::vector<StillRank> ThatTell(const std::vector<StillRank>& ranks) {
  std::vector<StillRank> telling;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(telling),
               [](const StillRank& rank) { return !rank.silent; });
  return telling;
}

// The kernel's state of the process if the state explains why the process does not run; else "".
std::string WhyHeld(const StillWorker& worker) {
  switch (worker.state) {
    case ProcessState::kRunnable:
    case ProcessState::kTraced:
      return "";
    case ProcessState::kStopped:
      return "is stopped by a signal (SIGCONT continues it)";
    case ProcessState::kDiskWait:
      return "is in disk wait (D)";
  }
  return "";
}

// Skips ranks under a debugger: HangJudge requests no stacks while a debugger holds a rank.
std::optional<HangVerdict> HeldByTheKernel(const std::vector<StillRank>& ranks) {
  Ranks held;
  RankSet numbers;
  for (const StillRank& rank : ranks) {
    if (WhyHeld(rank.worker).empty()) continue;
    held.push_back(&rank);
    numbers.Add(rank.number());
  }
  if (held.empty()) return std::nullopt;
  // A signal stops a rank until somebody continues it; a disk may answer again.
  const auto stopped = std::find_if(held.begin(), held.end(), [](const StillRank* rank) {
    return rank->worker.state != ProcessState::kDiskWait;
  });
  const StillRank& first = stopped != held.end() ? **stopped : *held.front();
  return HangVerdict{first,
                     absl::StrCat(NameOf(first), AndOthers(held.size()), " ", WhyHeld(first.worker),
                                  SinceWhen(first), At(first.worker)),
                     false, OnOneHost(ranks, numbers)};
}

// The process group in which the most ranks wait; nullopt: no rank waits in a collective.
std::optional<std::string> GroupOfMost(const std::vector<StillRank>& ranks) {
  std::map<std::string, int> groups;
  for (const StillRank& rank : ranks) {
    if (rank.worker.inside) ++groups[rank.worker.inside->group];
  }
  if (groups.empty()) return std::nullopt;
  return std::max_element(groups.begin(), groups.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// Calls `visit` with the unfinished calls of a rank in `group`, in the order of their numbers.
// Nothing if the rank waits in another group, or in none.
template <class Visit>
void VisitCalls(const std::string& group, const StillRank& rank, Visit visit) {
  const StillWorker& worker = rank.worker;
  if (!worker.inside || worker.inside->group != group) return;
  for (const CollectiveCall& earlier : worker.earlier) {
    if (earlier.group == group) visit(earlier);
  }
  visit(*worker.inside);
}

// The sequence numbers of these calls, of all ranks.
std::set<std::int64_t> NumbersIn(const std::string& group, const std::vector<StillRank>& ranks) {
  std::set<std::int64_t> numbers;
  for (const StillRank& rank : ranks) {
    VisitCalls(group, rank, [&](const CollectiveCall& call) { numbers.insert(call.sequence); });
  }
  return numbers;
}

// The rank's unfinished call with this number; nullptr: none.
const CollectiveCall* CallOf(const std::string& group, std::int64_t number, const StillRank& rank) {
  const CollectiveCall* found = nullptr;
  VisitCalls(group, rank, [&](const CollectiveCall& call) {
    if (call.sequence == number) found = &call;
  });
  return found;
}

// The most frequent form (operation and size) of the call `number`. At least one rank must wait in
// that call.
CollectiveCall FormOfMost(const std::string& group, std::int64_t number,
                          const std::vector<StillRank>& ranks) {
  CollectiveCall most;
  int of_most = 0;
  std::map<std::pair<std::string, std::int64_t>, int> forms;
  for (const StillRank& rank : ranks) {
    const CollectiveCall* const call = CallOf(group, number, rank);
    if (call == nullptr) continue;
    const int count = ++forms[{call->operation, call->bytes}];
    if (count <= of_most) continue;
    of_most = count;
    most = *call;
  }
  return most;
}

// The newest number that a rank has entered in `group`. -1: the rank waits in no collective. 0: it
// waits in another group.
std::int64_t PlaceIn(const std::string& group, const StillRank& rank) {
  const auto& inside = rank.worker.inside;
  if (!inside) return -1;
  return inside->group == group ? std::max(inside->sequence, rank.worker.entered) : 0;
}

std::optional<HangVerdict> OutsideTheCollective(const std::vector<StillRank>& ranks,
                                                const std::string& group) {
  const std::set<std::int64_t> numbers = NumbersIn(group, ranks);
  const std::int64_t newest = *numbers.rbegin();
  // A rank that is in no collective, if there is one; else the rank that is furthest behind.
  const StillRank& first =
      *std::min_element(ranks.begin(), ranks.end(), [&](const StillRank& a, const StillRank& b) {
        return PlaceIn(group, a) < PlaceIn(group, b);
      });
  if (PlaceIn(group, first) >= newest) return std::nullopt;
  // The first call in which other ranks wait and which this rank has not entered.
  const std::int64_t number = *numbers.upper_bound(PlaceIn(group, first));
  const CollectiveCall call = FormOfMost(group, number, ranks);
  RankSet missing;
  Ranks waiting;
  for (const StillRank& rank : ranks) {
    if (PlaceIn(group, rank) < number) {
      missing.Add(rank.number());
    } else {
      waiting.push_back(&rank);
    }
  }
  const auto& inside = first.worker.inside;
  const std::string where =
      inside ? absl::StrCat("; it is still in ", Describe(*inside)) : At(first.worker);
  return HangVerdict{
      first,
      absl::StrCat(NameOf(first), AndOthers(missing.count()), " has not entered ", Describe(call),
                   "; ", Count(waiting.size(), "rank waits", "ranks wait"),
                   number < newest ? " in it or a later one since " : " in it since ",
                   ForHowLong(waiting.front()->worker.still), where),
      first.worker.busy && !inside, OnOneHost(ranks, missing)};
}

// Takes the first call that does not match: later calls may match.
std::optional<HangVerdict> InAnotherCall(const std::vector<StillRank>& ranks,
                                         const std::string& group) {
  for (const std::int64_t number : NumbersIn(group, ranks)) {
    const CollectiveCall usual = FormOfMost(group, number, ranks);
    const StillRank* like_most = nullptr;
    const StillRank* other = nullptr;
    for (const StillRank& rank : ranks) {
      const CollectiveCall* const call = CallOf(group, number, rank);
      if (call == nullptr) continue;
      if (like_most == nullptr && *call == usual) like_most = &rank;
      if (other == nullptr && !Match(*call, usual)) other = &rank;
    }
    if (other == nullptr || like_most == nullptr) continue;
    return HangVerdict{
        *other,
        absl::StrCat(NameOf(*other), " entered ", DescribeExactly(*CallOf(group, number, *other)),
                     "; ", NameOf(*like_most), " entered ", DescribeExactly(usual),
                     ": their calls do not match"),
        false, false};
  }
  return std::nullopt;
}

// "; rank 0: no answer from 10.0.0.7:41234 to 7 repetitions", for at most kMost ranks.
std::string WhoDoesNotAnswer(const StackTree& stacks) {
  constexpr std::size_t kMost = 4;
  std::string text;
  std::size_t count = 0;
  for (const RankNote& note : stacks.notes()) {
    if (note.trouble != RankTrouble::kNoAnswer || ++count > kMost) continue;
    absl::StrAppend(&text, "; rank ", note.rank, ": ", note.text);
  }
  if (count > kMost) absl::StrAppend(&text, "; and ", count - kMost, " more");
  return text;
}

// The verdict from the reported collectives. A rank of `telling` waits in `group`. nullopt: a rank
// waits in a collective that its program does not report.
std::optional<HangVerdict> ByCollectives(const std::vector<StillRank>& telling,
                                         const std::string& group, const StackTree& stacks) {
  auto missing = OutsideTheCollective(telling, group);
  auto other = InAnotherCall(telling, group);
  const bool is_inside = missing && missing->culprit->worker.inside;
  // Python programs report the collectives that they call themselves, but not those of
  // c10d::Reducer.
  const bool is_unreported = missing && !is_inside && IsInACollective(*missing->culprit, stacks);
  // If the rank that is behind waits in an earlier call, and there is a mismatch, the mismatch is
  // the reason.
  if (missing && !is_unreported && !(other && is_inside)) return *std::move(missing);
  if (other) return *std::move(other);
  if (is_unreported) return std::nullopt;
  const CollectiveCall oldest = FormOfMost(group, *NumbersIn(group, telling).begin(), telling);
  return HangVerdict{telling.front(),
                     absl::StrCat("all ranks wait in ", Describe(oldest), ": network or library",
                                  WhoDoesNotAnswer(stacks)),
                     false, false};
}

std::string PhaseName(const std::string& phase) { return phase.empty() ? "training" : phase; }

// A rank with a lower step than another, or in the phase that the fewest ranks are in.
std::optional<HangVerdict> Behind(const std::vector<StillRank>& ranks) {
  if (ranks.empty()) return std::nullopt;
  const auto last = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.worker.step < b.worker.step;
  });
  const auto first = std::min_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.worker.step < b.worker.step;
  });
  if (first->worker.step && first->worker.step < last->worker.step) {
    return HangVerdict{
        *first,
        absl::StrCat(NameOf(*first), " has finished step ", *first->worker.step, ", ",
                     NameOf(*last), " step ", *last->worker.step, At(first->worker)),
        first->worker.busy && !first->worker.inside};
  }
  std::map<std::string, RankSet> phases;
  for (const StillRank& rank : ranks) phases[rank.worker.phase].Add(rank.number());
  if (phases.size() < 2) return std::nullopt;
  const auto rarest =
      std::min_element(phases.begin(), phases.end(), [](const auto& a, const auto& b) {
        const std::uint64_t of_a = a.second.count();
        const std::uint64_t of_b = b.second.count();
        return of_a < of_b || (of_a == of_b && a.first > b.first);
      });
  const auto odd = std::find_if(ranks.begin(), ranks.end(), [&](const StillRank& rank) {
    return rank.worker.phase == rarest->first;
  });
  return HangVerdict{
      *odd,
      absl::StrCat(NameOf(*odd), AndOthers(rarest->second.count()), " is in ",
                   PhaseName(odd->worker.phase), ", the others are not", At(odd->worker)),
      odd->worker.busy && !odd->worker.inside, OnOneHost(ranks, rarest->second)};
}

// No rule names a rank. `first`: a rank as an example for all.
HangVerdict NobodyToBlame(const std::vector<StillRank>& ranks, const StillRank& first,
                          const StackTree& stacks) {
  const bool busy = std::any_of(ranks.begin(), ranks.end(), [](const StillRank& rank) {
    return rank.worker.busy && !rank.worker.inside;
  });
  if (const auto places = DifferentPlaces(ranks, stacks)) {
    return {first,
            absl::StrCat("the ranks are in different places: ", *places,
                         "; their stacks do not tell which one is wrong", WhoDoesNotAnswer(stacks)),
            busy, false};
  }
  if (const auto collective = CollectiveOfAll(ranks, stacks)) {
    return {first,
            absl::StrCat("all ranks wait in ", *collective, ": network or library",
                         WhoDoesNotAnswer(stacks)),
            busy, false};
  }
  std::string why =
      absl::StrCat("all ranks look alike: they are in ", PhaseName(first.worker.phase));
  if (!first.worker.waits_for.empty()) {
    absl::StrAppend(&why, "; rank ", first.rank.value, " is in ", first.worker.waits_for);
  }
  absl::StrAppend(&why, WhoDoesNotAnswer(stacks));
  return {first, std::move(why), busy, false};
}

}  // namespace

std::string NameOf(const StillRank& rank) {
  return absl::StrCat("rank ", rank.rank.value, " on ", rank.host, " (pid ", rank.worker.pid, ")");
}

std::string AndOthers(std::size_t all) {
  return all > 1 ? absl::StrCat(" (and ", Count(all - 1, "other rank", "other ranks"), ")") : "";
}

bool OnOneHost(const std::vector<StillRank>& ranks, const RankSet& some) {
  const std::string* host = nullptr;
  for (const StillRank& rank : ranks) {
    if (!some.Contains(rank.number())) continue;
    if (host != nullptr && *host != rank.host) return false;
    host = &rank.host;
  }
  return true;
}

std::string ForHowLong(Duration still) {
  return absl::StrFormat("%.1f s", std::chrono::duration<double>(still).count());
}

std::string SinceWhen(const StillRank& rank) {
  return rank.silent ? "" : absl::StrCat(" since ", ForHowLong(rank.worker.still));
}

std::string DescribeStandstill(Duration still, Duration limit, std::optional<std::int64_t> step,
                               bool step_seen) {
  return absl::StrCat("no rank has moved for ", ForHowLong(still), " (limit ", Seconds(limit), ")",
                      step        ? absl::StrCat(" at step ", *step)
                      : step_seen ? ""
                                  : " before the first step");
}

HangVerdict FindCulprit(const std::vector<StillRank>& ranks, const StackTree& stacks,
                        bool silent_tell) {
  if (ranks.empty()) return {std::nullopt, "no node has said which rank", false};
  if (auto held = HeldByTheKernel(ranks)) return *std::move(held);
  const std::vector<StillRank> telling = silent_tell ? ranks : ThatTell(ranks);
  if (const auto group = GroupOfMost(telling)) {
    if (auto verdict = ByCollectives(telling, *group, stacks)) return *std::move(verdict);
  }
  if (silent_tell) {
    if (auto missing = MissingInInit(ranks, stacks)) return *std::move(missing);
  }
  if (telling.size() < ranks.size()) {
    if (auto unlike = CulpritByStacks(telling, stacks)) return *std::move(unlike);
  }
  if (auto unlike = CulpritByStacks(ranks, stacks)) return *std::move(unlike);
  if (silent_tell) {
    if (auto silent = ReportedNothing(ranks, stacks)) return *std::move(silent);
  }
  if (auto behind = Behind(telling)) return *std::move(behind);
  return NobodyToBlame(ranks, (telling.empty() ? ranks : telling).front(), stacks);
}

HangVerdict WhoDoesNotEnd(const std::vector<StillRank>& ranks) {
  if (ranks.empty()) return {std::nullopt, "no node has said which rank", false};
  const StillRank& first = ranks.front();
  std::string why = absl::StrCat(NameOf(first), AndOthers(ranks.size()), " said BYE ",
                                 ForHowLong(first.worker.still), " ago and has not ended");
  if (const std::string held = WhyHeld(first.worker); !held.empty()) {
    absl::StrAppend(&why, ": it ", held);
  }
  absl::StrAppend(&why, At(first.worker));
  return {first, std::move(why), false, false};
}

WorkerFailure FailureOf(const StillRank& culprit, Generation generation) {
  WorkerFailure failure;
  failure.host = culprit.host;
  failure.node_rank = culprit.node_rank;
  failure.generation = generation;
  failure.exit.rank = culprit.rank;
  failure.exit.local_rank = culprit.worker.local_rank;
  failure.exit.pid = culprit.worker.pid;
  failure.exit.step = culprit.worker.step;
  return failure;
}

}  // namespace ddprun
