#include "rendezvous/hangs/stack_culprit.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/stacks/rank_stacks.h"
#include "rendezvous/stacks/stack_outliers.h"
#include "rendezvous/stacks/stack_text.h"

namespace ddprun {
namespace {

using Stack = std::vector<StackFrame>;  // the outermost frame first

constexpr std::size_t kFramesInLine = 3;

// A frame of launcher/python/_ddprun_state/collectives.py, around a call of torch.distributed.
bool IsOfOurRecorder(const StackFrame& frame) {
  return frame.image == "python" && absl::EndsWith(frame.function, "ddprun_recorded");
}

// A frame of the kernel, the C library, the interpreter or ddprun. It does not show what the
// program does.
bool IsMachinery(const StackFrame& frame) {
  return frame.function.empty() || frame.image == "kernel" || IsOfOurRecorder(frame) ||
         absl::StartsWith(frame.image, "libc.so") || absl::StartsWith(frame.image, "libpthread") ||
         absl::StartsWith(frame.image, "python3") || absl::StartsWith(frame.image, "libpython3");
}

// Removes machinery, except the innermost frame, which shows what the thread waits for. Does not
// change a stack that has only machinery.
Stack WithoutMachinery(Stack stack) {
  if (std::all_of(stack.begin(), stack.end(), IsMachinery)) return stack;
  stack.erase(std::remove_if(stack.begin(), stack.end() - 1, IsMachinery), stack.end() - 1);
  return stack;
}

// The innermost frame that is not machinery; else the innermost frame; "": no frame.
std::string WhereText(const Stack& stack) {
  const auto telling = std::find_if_not(stack.rbegin(), stack.rend(), IsMachinery);
  if (telling != stack.rend()) return FrameText(*telling);
  return stack.empty() ? "" : FrameText(stack.back());
}

// The index of the outermost frame of a collective; stack.size(): none.
std::size_t CollectiveAt(const Stack& stack) {
  return static_cast<std::size_t>(std::find_if(stack.begin(), stack.end(), IsOfACollective) -
                                  stack.begin());
}

std::string CollectiveText(const Stack& stack) {
  const std::size_t at = CollectiveAt(stack);
  return at < stack.size() ? FrameText(stack[at]) : WhereText(stack);
}

// The outermost frame of a collective; else the innermost that is not machinery; else the
// innermost. `stack` is not empty.
const StackFrame& PlaceIn(const Stack& stack) {
  if (const std::size_t at = CollectiveAt(stack); at < stack.size()) return stack[at];
  const auto telling = std::find_if_not(stack.rbegin(), stack.rend(), IsMachinery);
  return telling != stack.rend() ? *telling : stack.back();
}

struct Place {
  std::string text;
  RankSet ranks;
};

// By function, file and image, because a line within a function says nothing.
using Places = std::map<std::array<std::string, 3>, Place>;

// Adds the places of those of `ranks` whose stacks go through `node`; `stack` leads to it.
void AddPlaces(const StackTree& tree, std::uint32_t node, const RankSet& ranks, Stack* stack,
               Places* places) {
  RankSet ending = tree.node(node).ranks;
  for (const std::uint32_t child : tree.node(node).children) {
    ending = ending.Minus(tree.node(child).ranks);
    stack->push_back(tree.frame(tree.node(child).frame));
    AddPlaces(tree, child, ranks, stack, places);
    stack->pop_back();
  }
  const RankSet of_ranks = ending.Minus(ending.Minus(ranks));
  if (of_ranks.empty() || stack->empty()) return;
  const StackFrame& frame = PlaceIn(*stack);
  Place& place = (*places)[{frame.function, frame.file, frame.image}];
  if (place.text.empty()) place.text = FrameText(frame);
  place.ranks.Add(of_ranks);
}

std::string Waiters(std::uint64_t count) {
  return absl::StrCat(count, count == 1 ? " rank waits" : " ranks wait");
}

// The judged ranks with a main thread in the tree, in two groups: in a collective, or not.
struct Sides {
  RankSet inside;
  RankSet outside;
};

Sides SidesOf(const std::vector<StillRank>& ranks, const StackTree& tree) {
  const RankSet& seen = tree.node(StackTree::Root(ThreadKind::kMain)).ranks;
  const RankSet in_one = RanksWithFrame(tree, IsOfACollective);
  Sides sides;
  for (const StillRank& rank : ranks) {
    if (!seen.Contains(rank.number())) continue;
    (in_one.Contains(rank.number()) ? sides.inside : sides.outside).Add(rank.number());
  }
  return sides;
}

const StillRank* Find(const std::vector<StillRank>& ranks, std::uint32_t number) {
  const auto found = std::find_if(ranks.begin(), ranks.end(), [number](const StillRank& rank) {
    return rank.number() == number;
  });
  return found == ranks.end() ? nullptr : &*found;
}

std::optional<HangVerdict> OutsideOfCollectives(const std::vector<StillRank>& ranks,
                                                const StackTree& tree, const Sides& sides) {
  const RankSet odd = UnlikeTheMajority(tree, sides.outside);
  const std::uint32_t number = (odd.empty() ? sides.outside : odd).ranges().front().first;
  const StillRank& culprit = *Find(ranks, number);
  const Stack waiting = MainStackOf(tree, sides.inside.ranges().front().first);
  return HangVerdict{
      culprit,
      absl::StrCat(NameOf(culprit), AndOthers(sides.outside.count()),
                   " is in no collective: it is in ", WhereText(MainStackOf(tree, number)), "; ",
                   Waiters(sides.inside.count()), " in ", CollectiveText(waiting)),
      culprit.worker.busy, OnOneHost(ranks, sides.outside)};
}

// The rank has finished a later step than another rank, so the others do not wait for it.
bool IsAhead(const StillRank& rank, const std::vector<StillRank>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [&](const StillRank& other) {
    return !other.silent && other.worker.step < rank.worker.step;
  });
}

// Where the culprit is, and where most ranks are. If both are in a collective, names the
// collectives: stacks do not show which of two is wrong.
std::string BothSides(const Stack& culprit, const Stack& most, const StackOutliers& outliers) {
  if (CollectiveAt(culprit) < culprit.size() && CollectiveAt(most) < most.size()) {
    return absl::StrCat("in ", CollectiveText(culprit), ", most ranks are in ",
                        CollectiveText(most), ": different collectives");
  }
  if (outliers.majority_next.empty()) return absl::StrCat("in ", WhereText(culprit));
  return absl::StrCat("in ", WhereText(culprit), ", most ranks are in ",
                      FrameText(outliers.majority_next.front()));
}

std::optional<HangVerdict> UnlikeMost(const std::vector<StillRank>& ranks, const StackTree& tree,
                                      const Sides& sides) {
  RankSet all = sides.inside;
  all.Add(sides.outside);
  if (all.empty()) return std::nullopt;  // OutliersOf() takes an empty set as all ranks
  const std::vector<StackOutliers> leave = OutliersOf(tree, all);
  RankSet most = all;
  for (const StackOutliers& outliers : leave) most = most.Minus(outliers.ranks);
  for (const StackOutliers& outliers : leave) {
    const std::uint32_t number = outliers.ranks.ranges().front().first;
    const StillRank& culprit = *Find(ranks, number);
    const Stack stack = MainStackOf(tree, number);
    // Inside of a collective, the library decides where a rank waits, so a difference there means
    // nothing.
    if (outliers.depth > CollectiveAt(stack)) return std::nullopt;
    if (IsAhead(culprit, ranks)) continue;
    const Stack typical = MainStackOf(tree, most.ranges().front().first);
    return HangVerdict{culprit,
                       absl::StrCat(NameOf(culprit), AndOthers(outliers.ranks.count()), " is ",
                                    BothSides(stack, typical, outliers)),
                       culprit.worker.busy, OnOneHost(ranks, outliers.ranks)};
  }
  return std::nullopt;
}

std::string StateText(ProcessState state) {
  switch (state) {
    case ProcessState::kRunnable:
      return "";
    case ProcessState::kStopped:
      return " stopped";
    case ProcessState::kTraced:
      return " held by a debugger";
    case ProcessState::kDiskWait:
      return " in disk wait (D)";
  }
  return "";
}

}  // namespace

bool IsInACollective(const StillRank& rank, const StackTree& tree) {
  const Stack stack = MainStackOf(tree, rank.number());
  return CollectiveAt(stack) < stack.size();
}

bool IsOfACollective(const StackFrame& frame) {
  if (frame.image == "python") return absl::EndsWith(frame.file, "distributed_c10d.py");
  const std::string function = ShortFunction(frame.function);
  return absl::StartsWith(function, "c10d::") || absl::StartsWith(function, "gloo::") ||
         absl::StartsWith(function, "nccl");
}

std::optional<HangVerdict> CulpritByStacks(const std::vector<StillRank>& ranks,
                                           const StackTree& tree) {
  const Sides sides = SidesOf(ranks, tree);
  if (!sides.inside.empty() && !sides.outside.empty()) {
    return OutsideOfCollectives(ranks, tree, sides);
  }
  return UnlikeMost(ranks, tree, sides);
}

std::optional<std::string> CollectiveOfAll(const std::vector<StillRank>& ranks,
                                           const StackTree& tree) {
  const Sides sides = SidesOf(ranks, tree);
  if (sides.inside.empty() || !sides.outside.empty()) return std::nullopt;
  return CollectiveText(MainStackOf(tree, sides.inside.ranges().front().first));
}

std::optional<std::string> DifferentPlaces(const std::vector<StillRank>& ranks,
                                           const StackTree& tree) {
  constexpr std::size_t kMostPlaces = 4;
  constexpr std::size_t kMostRanges = 4;
  RankSet judged;
  for (const StillRank& rank : ranks) judged.Add(rank.number());
  Places by_frame;
  Stack stack;
  AddPlaces(tree, StackTree::Root(ThreadKind::kMain), judged, &stack, &by_frame);
  if (by_frame.size() < 2) return std::nullopt;
  std::vector<Place> places;
  for (auto& [frame, place] : by_frame) places.push_back(std::move(place));
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.ranks < b.ranks; });
  std::vector<std::string> texts;
  for (const Place& place : places) {
    if (texts.size() == kMostPlaces) break;
    const std::string who = place.ranks.count() == 1
                                ? NameOf(*Find(ranks, place.ranks.ranges().front().first))
                                : absl::StrCat("ranks ", place.ranks.ToString(kMostRanges));
    texts.push_back(absl::StrCat(who, " in ", place.text));
  }
  if (places.size() > texts.size()) {
    texts.push_back(absl::StrCat("others in ", places.size() - texts.size(), " more"));
  }
  return absl::StrJoin(texts, ", ");
}

std::string WhereInCode(const StackTree& tree, Rank rank) {
  return WhereText(MainStackOf(tree, static_cast<std::uint32_t>(rank.value)));
}

std::vector<StackFrame> TopFrames(const StackTree& tree, Rank rank) {
  Stack stack = WithoutMachinery(MainStackOf(tree, static_cast<std::uint32_t>(rank.value)));
  std::reverse(stack.begin(), stack.end());
  if (stack.size() > kMaxCauseFrames) stack.resize(kMaxCauseFrames);
  for (StackFrame& frame : stack) {
    for (std::string* const name : {&frame.function, &frame.file, &frame.image}) {
      if (name->size() > kMaxCauseNameBytes) name->resize(kMaxCauseNameBytes);
    }
  }
  return stack;
}

std::string DescribeStack(const StillRank& rank, const StackTree& tree) {
  Stack stack = WithoutMachinery(MainStackOf(tree, rank.number()));
  std::vector<std::string> frames;
  const std::string& waits_for = rank.worker.waits_for;
  const bool call_known =
      rank.worker.state != ProcessState::kStopped && absl::StrContains(waits_for, '(');
  if (call_known && !stack.empty() && IsMachinery(stack.back())) stack.pop_back();
  const std::size_t first = stack.size() > kFramesInLine ? stack.size() - kFramesInLine : 0;
  for (std::size_t i = first; i < stack.size(); ++i) frames.push_back(FrameText(stack[i]));
  if (call_known) frames.push_back(waits_for);
  if (frames.empty()) return "";
  return absl::StrCat("rank ", rank.rank.value, ": ", absl::StrJoin(frames, " → "),
                      StateText(rank.worker.state), SinceWhen(rank));
}

}  // namespace ddprun
