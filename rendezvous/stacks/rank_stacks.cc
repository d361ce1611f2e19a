#include "rendezvous/stacks/rank_stacks.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr std::uint32_t kMainRoot = static_cast<std::uint32_t>(ThreadKind::kMain);

RankSet Both(const RankSet& a, const RankSet& b) { return a.Minus(a.Minus(b)); }

// Adds the stacks of `rank` below `node`; `frames` are the callers. A stack that is a prefix of
// another one is part of it.
void AddStacksOf(const StackTree& tree, std::uint32_t rank, ThreadKind kind, std::uint32_t node,
                 std::vector<StackFrame>* frames, StackTree* to) {
  bool goes_on = false;
  for (const std::uint32_t child : tree.node(node).children) {
    if (!tree.node(child).ranks.Contains(rank)) continue;
    goes_on = true;
    frames->push_back(tree.frame(tree.node(child).frame));
    AddStacksOf(tree, rank, kind, child, frames, to);
    frames->pop_back();
  }
  if (!goes_on && !frames->empty()) to->Add(rank, kind, *frames);
}

}  // namespace

std::vector<StackFrame> MainStackOf(const StackTree& tree, std::uint32_t rank) {
  std::vector<StackFrame> frames;
  std::uint32_t node = kMainRoot;
  for (;;) {
    const auto& children = tree.node(node).children;
    const auto next = std::find_if(children.begin(), children.end(), [&](std::uint32_t child) {
      return tree.node(child).ranks.Contains(rank);
    });
    if (next == children.end()) return frames;
    node = *next;
    frames.push_back(tree.frame(tree.node(node).frame));
  }
}

RankSet RanksWithFrame(const StackTree& tree, const std::function<bool(const StackFrame&)>& is) {
  RankSet ranks;
  std::vector<std::uint32_t> next = {kMainRoot};
  while (!next.empty()) {
    const StackTree::Node& node = tree.node(next.back());
    next.pop_back();
    for (const std::uint32_t child : node.children) {
      if (is(tree.frame(tree.node(child).frame))) {
        ranks.Add(tree.node(child).ranks);  // the ranks of its children are a subset
      } else {
        next.push_back(child);
      }
    }
  }
  return ranks;
}

StackTree OnlyRanks(const StackTree& tree, const RankSet& ranks) {
  StackTree only;
  for (const ThreadKind kind : {ThreadKind::kMain, ThreadKind::kOther}) {
    const std::uint32_t root = StackTree::Root(kind);
    const RankSet wanted = Both(tree.node(root).ranks, ranks);
    for (const RankRange& range : wanted.ranges()) {
      for (std::uint64_t rank = range.first; rank <= range.last; ++rank) {
        std::vector<StackFrame> frames;
        AddStacksOf(tree, static_cast<std::uint32_t>(rank), kind, root, &frames, &only);
      }
    }
  }
  for (const RankNote& note : tree.notes()) {
    if (ranks.Contains(note.rank)) only.Add(note);
  }
  return only;
}

}  // namespace ddprun
