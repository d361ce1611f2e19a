#include "rendezvous/http/page/stacks_text.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "rendezvous/stacks/stack_text.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun::http {
namespace {

using Json = nlohmann::ordered_json;

std::string FieldText(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint32_t FieldNumber(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint32_t>() : 0;
}

// Reads the tree that ToJson() wrote. Parts with another structure are left out.
class TreeReader {
 public:
  void Add(const Json& stacks, const char* name, ThreadKind kind) {
    if (const auto nodes = stacks.find(name); nodes != stacks.end()) {
      AddNodes(*nodes, static_cast<std::uint32_t>(kind), 0);
    }
  }
  const EncodedStackTree& tree() const { return tree_; }

 private:
  void AddNodes(const Json& nodes, std::uint32_t parent, std::size_t depth) {
    if (!nodes.is_array() || depth > kMaxStackFrames) return;
    for (const Json& node : nodes) {
      if (!node.is_object()) continue;
      const auto self = static_cast<std::uint32_t>(tree_.nodes.size() + kThreadKinds);
      tree_.nodes.push_back({parent, FrameOf(node), RanksOf(node)});
      if (const auto inner = node.find("frames"); inner != node.end()) {
        AddNodes(*inner, self, depth + 1);
      }
    }
  }

  static std::vector<RankRange> RanksOf(const Json& node) {
    std::vector<RankRange> ranks;
    const auto found = node.find("ranks");
    if (found == node.end() || !found->is_array()) return ranks;
    for (const Json& range : *found) {
      if (!range.is_array() || range.size() != 2) continue;
      if (!range[0].is_number_unsigned() || !range[1].is_number_unsigned()) continue;
      ranks.push_back({range[0].get<std::uint32_t>(), range[1].get<std::uint32_t>()});
    }
    return ranks;
  }

  std::uint32_t FrameOf(const Json& node) {
    const EncodedStackTree::Frame frame{Name(FieldText(node, "function")),
                                        Name(FieldText(node, "file")),
                                        Name(FieldText(node, "image")), FieldNumber(node, "line")};
    const auto [index, is_new] = frames_.try_emplace(frame, tree_.frames.size());
    if (is_new) tree_.frames.push_back(frame);
    return index->second;
  }

  std::uint32_t Name(const std::string& text) {
    const auto [index, is_new] = names_.try_emplace(text, tree_.names.size());
    if (is_new) tree_.names.push_back(text);
    return index->second;
  }

  EncodedStackTree tree_;
  std::map<std::string, std::uint32_t> names_;
  std::map<EncodedStackTree::Frame, std::uint32_t> frames_;
};

void AddNotes(const Json& stacks, StackTree* tree) {
  const auto notes = stacks.find("notes");
  if (notes == stacks.end() || !notes->is_array()) return;
  for (const Json& note : *notes) {
    if (!note.is_object()) continue;
    for (std::size_t i = 0; i < kRankTroubles; ++i) {
      const auto trouble = static_cast<RankTrouble>(i);
      if (FieldText(note, "trouble") != ToString(trouble)) continue;
      tree->Add(RankNote{FieldNumber(note, "rank"), trouble, FieldText(note, "text")});
    }
  }
}

}  // namespace

std::string StacksText(const Json& stacks) {
  if (!stacks.is_object()) return "";
  TreeReader reader;
  reader.Add(stacks, "main", ThreadKind::kMain);
  reader.Add(stacks, "other", ThreadKind::kOther);
  auto tree = StackTree::Decode(reader.tree());
  if (!tree.ok()) return "";
  AddNotes(stacks, &*tree);
  return ToText(*tree, {});
}

}  // namespace ddprun::http
