#include "launcher/text/hang_text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/text/printable.h"
#include "rendezvous/json/dump.h"
#include "rendezvous/stacks/stack_text.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {
namespace {

// The tree is not trusted; "": malformed.
std::string TreeText(const HangStacks& hang, const StackTextOptions& options) {
  const auto tree = StackTree::Decode(*hang.tree);
  return tree.ok() ? ToText(*tree, options) : "";
}

}  // namespace

std::vector<std::string> HangTreeLines(const HangStacks& hang, std::size_t most_lines) {
  StackTextOptions options;
  options.other_threads = false;
  const std::string text = TreeText(hang, options);
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (lines.size() > most_lines) {
    lines.resize(most_lines - 1);
    lines.push_back("...");
  }
  return lines;
}

std::string HangFileText(const HangStacks& hang) {
  StackTextOptions options;
  options.most_in_line = 0;
  return PrintableLines(
      absl::StrCat(absl::StrJoin(hang.verdict, "\n"), "\n\n", TreeText(hang, options)));
}

std::string HangFileJson(const HangStacks& hang, const std::string& job, Generation generation) {
  nlohmann::ordered_json json = {{"job", job},
                                 {"generation", generation.value},
                                 {"verdict", hang.verdict},
                                 {"missing", hang.missing},
                                 {"stacks", ToJson(*hang.tree, "rank")}};
  return Dump(json, 2) + "\n";
}

}  // namespace ddprun
