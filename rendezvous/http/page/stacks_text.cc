#include "rendezvous/http/page/stacks_text.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rendezvous/stacks/stack_text.h"

namespace ddprun::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDeepest = 512;

std::string FieldText(const Json& frame, const char* name) {
  const auto found = frame.find(name);
  return found != frame.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string FrameOf(const Json& node) {
  StackFrame frame;
  frame.function = FieldText(node, "function");
  frame.file = FieldText(node, "file");
  frame.image = FieldText(node, "image");
  const auto line = node.find("line");
  if (line != node.end() && line->is_number_unsigned()) frame.line = line->get<std::uint32_t>();
  return FrameText(frame);
}

// [[0, 3], [5, 5]] → "0-3,5".
std::string RanksOf(const Json& node) {
  std::string text;
  const auto ranks = node.find("ranks");
  if (ranks == node.end() || !ranks->is_array()) return text;
  for (const Json& range : *ranks) {
    if (!range.is_array() || range.size() != 2) continue;
    absl::StrAppend(&text, text.empty() ? "" : ",", range[0].dump());
    if (range[0] != range[1]) absl::StrAppend(&text, "-", range[1].dump());
  }
  return text;
}

void AddNodes(const Json& nodes, std::size_t depth, std::string* text) {
  if (!nodes.is_array() || depth > kDeepest) return;
  for (const Json& first : nodes) {
    if (!first.is_object()) continue;
    absl::StrAppend(text, std::string(2 * depth, ' '), "[", RanksOf(first), "] ", FrameOf(first));
    // Frames that nobody leaves on the way stand in one line.
    const Json* node = &first;
    for (;;) {
      const auto inner = node->find("frames");
      if (inner == node->end() || !inner->is_array() || inner->size() != 1) break;
      const Json& only = inner->front();
      if (!only.is_object() || RanksOf(only) != RanksOf(first)) break;
      absl::StrAppend(text, " > ", FrameOf(only));
      node = &only;
    }
    *text += '\n';
    if (const auto inner = node->find("frames"); inner != node->end()) {
      AddNodes(*inner, depth + 1, text);
    }
  }
}

}  // namespace

std::string StacksText(const Json& stacks) {
  std::string text;
  if (!stacks.is_object()) return text;
  if (const auto main = stacks.find("main"); main != stacks.end()) AddNodes(*main, 0, &text);
  return text;
}

}  // namespace ddprun::http
