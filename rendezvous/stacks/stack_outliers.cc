#include "rendezvous/stacks/stack_outliers.h"

#include <map>
#include <string>
#include <utility>

namespace ddprun {
namespace {

// Nodes of one depth whose ranks are all in the same functions.
struct Group {
  RankSet ranks;
  std::vector<std::uint32_t> nodes;
};

using GroupKey = std::pair<std::string, std::string>;  // function, image

std::map<GroupKey, Group> GroupsBelow(const StackTree& tree,
                                      const std::vector<std::uint32_t>& nodes,
                                      const RankSet& leave_out) {
  std::map<GroupKey, Group> groups;
  for (const std::uint32_t node : nodes) {
    for (const std::uint32_t child : tree.node(node).children) {
      const StackFrame frame = tree.frame(tree.node(child).frame);
      Group& group = groups[{frame.function, frame.image}];
      group.ranks.Add(tree.node(child).ranks.Minus(leave_out));
      group.nodes.push_back(child);
    }
  }
  return groups;
}

}  // namespace

std::vector<StackOutliers> OutliersOf(const StackTree& tree, const RankSet& among) {
  const std::uint32_t root = StackTree::Root(ThreadKind::kMain);
  const RankSet all = tree.node(root).ranks;
  const RankSet leave_out = among.empty() ? RankSet() : all.Minus(among);
  RankSet with_majority = all.Minus(leave_out);
  const std::uint64_t half = with_majority.count() / 2;
  std::vector<StackOutliers> outliers;
  std::vector<std::uint32_t> nodes = {root};
  for (std::uint32_t depth = 0;; ++depth) {
    const std::map<GroupKey, Group> groups = GroupsBelow(tree, nodes, leave_out);
    const Group* majority = nullptr;
    RankSet ending = with_majority;
    for (const auto& [key, group] : groups) {
      if (group.ranks.count() > half) majority = &group;
      ending = ending.Minus(group.ranks);
    }
    if (majority == nullptr) {
      // Most ranks end here. The ranks with further frames are the outliers.
      if (ending.count() > half && ending != with_majority) {
        outliers.push_back({with_majority.Minus(ending), depth, {}});
      }
      return outliers;
    }
    if (majority->ranks != with_majority) {
      outliers.push_back({with_majority.Minus(majority->ranks),
                          depth,
                          {tree.frame(tree.node(majority->nodes.front()).frame)}});
    }
    with_majority = majority->ranks;
    nodes = majority->nodes;
  }
}

RankSet UnlikeTheMajority(const StackTree& tree, const RankSet& among) {
  const std::vector<StackOutliers> outliers = OutliersOf(tree, among);
  return outliers.empty() ? RankSet() : outliers.front().ranks;
}

}  // namespace ddprun
