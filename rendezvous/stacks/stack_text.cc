#include "rendezvous/stacks/stack_text.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRanges = 8;
constexpr absl::string_view kArrow = " → ";
constexpr absl::string_view kGap = "…";

// Names come from untrusted files: control characters must not reach a terminal.
std::string OneLine(absl::string_view text) {
  std::string clean(text);
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return clean;
}

absl::string_view BaseName(absl::string_view path) {
  const auto slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string FunctionText(const StackFrame& frame) {
  if (frame.image == "python" || frame.image == "kernel") return OneLine(frame.function);
  if (!frame.function.empty()) return OneLine(ShortFunction(frame.function));
  return absl::StrCat("?? in ", frame.image.empty() ? "memory" : OneLine(frame.image));
}

std::string PlaceText(const StackFrame& frame) {
  if (frame.file.empty()) return "";
  const std::string file = OneLine(BaseName(frame.file));
  return frame.line == 0 ? file : absl::StrCat(file, ":", frame.line);
}

// A branch of the text: frames that the same ranks share, and the branches below.
struct Branch {
  RankSet ranks;
  std::vector<std::string> frames;
  std::vector<Branch> inner;
};

class Branches {
 public:
  explicit Branches(const StackTree& tree) : tree_(tree) {}

  std::vector<Branch> Of(std::uint32_t node) const {
    // A function at several lines becomes one branch, with a branch per line below it.
    std::map<std::pair<std::string, std::string>, std::vector<std::uint32_t>> functions;
    for (const std::uint32_t child : tree_.node(node).children) {
      const StackFrame frame = tree_.frame(tree_.node(child).frame);
      functions[{FunctionText(frame), frame.image}].push_back(child);
    }
    std::vector<Branch> branches;
    for (const auto& [function, nodes] : functions) {
      branches.push_back(nodes.size() == 1 ? Single(nodes.front()) : Shared(function.first, nodes));
    }
    if (!branches.empty()) AddThoseThatEndHere(tree_.node(node).ranks, &branches);
    Sort(&branches);
    return branches;
  }

 private:
  static void Sort(std::vector<Branch>* branches) {
    std::sort(branches->begin(), branches->end(), [](const Branch& a, const Branch& b) {
      const std::uint64_t in_a = a.ranks.count();
      const std::uint64_t in_b = b.ranks.count();
      if (in_a != in_b) return in_a > in_b;
      return std::tie(a.ranks, a.frames) < std::tie(b.ranks, b.frames);
    });
  }

  static void AddThoseThatEndHere(RankSet ranks, std::vector<Branch>* branches) {
    for (const Branch& branch : *branches) ranks = ranks.Minus(branch.ranks);
    if (!ranks.empty()) branches->push_back({std::move(ranks), {"(here)"}, {}});
  }

  // Extends the line as long as all ranks go the same way.
  static Branch Joined(Branch branch) {
    if (branch.inner.size() != 1 || branch.inner.front().ranks != branch.ranks) return branch;
    Branch only = std::move(branch.inner.front());
    branch.frames.insert(branch.frames.end(), std::make_move_iterator(only.frames.begin()),
                         std::make_move_iterator(only.frames.end()));
    branch.inner = std::move(only.inner);
    return branch;
  }

  Branch Single(std::uint32_t node) const {
    return Joined(
        {tree_.node(node).ranks, {FrameText(tree_.frame(tree_.node(node).frame))}, Of(node)});
  }

  Branch Shared(const std::string& function, const std::vector<std::uint32_t>& nodes) const {
    Branch shared{{}, {function}, {}};
    std::map<std::string, std::vector<std::uint32_t>> places;
    for (const std::uint32_t node : nodes) {
      shared.ranks.Add(tree_.node(node).ranks);
      places[PlaceText(tree_.frame(tree_.node(node).frame))].push_back(node);
    }
    for (const auto& [place, at] : places) {
      Branch line{{}, {place.empty() ? "(line not known)" : place}, {}};
      for (const std::uint32_t node : at) {
        line.ranks.Add(tree_.node(node).ranks);
        std::vector<Branch> inner = Of(node);
        std::move(inner.begin(), inner.end(), std::back_inserter(line.inner));
      }
      Sort(&line.inner);
      shared.inner.push_back(Joined(std::move(line)));
    }
    Sort(&shared.inner);
    return Joined(std::move(shared));
  }

  const StackTree& tree_;
};

class TextWriter {
 public:
  TextWriter(const StackTextOptions& options, RankSet all)
      : options_(options), all_(std::move(all)) {}

  // `before`: the start of each line of `branches`. The outermost branches have no connecting
  // lines.
  void Write(const std::vector<Branch>& branches, const std::string& before, bool outermost) {
    std::size_t width = 0;
    for (const Branch& branch : branches) {
      width = std::max(width, absl::StrCat(branch.ranks.count()).size());
    }
    for (std::size_t i = 0; i < branches.size(); ++i) {
      const bool last = i + 1 == branches.size();
      const Branch& branch = branches[i];
      absl::StrAppend(&text_, before,
                      outermost ? ""
                      : last    ? "└ "
                                : "├ ",
                      absl::StrFormat("%*d ", static_cast<int>(width), branch.ranks.count()));
      if (!outermost || branch.ranks != all_) {
        absl::StrAppend(&text_, "[", branch.ranks.ToString(kMostRanges), "] ");
      }
      absl::StrAppend(&text_, Line(branch.frames), "\n");
      Write(branch.inner, absl::StrCat(before, outermost ? "" : last ? "  " : "│ "), false);
    }
  }

  std::string text_;

 private:
  std::string Line(const std::vector<std::string>& frames) const {
    const std::size_t most = options_.most_in_line;
    if (most == 0 || frames.size() <= most) return absl::StrJoin(frames, kArrow);
    const auto outer = static_cast<std::ptrdiff_t>(most / 3);
    const auto inner = static_cast<std::ptrdiff_t>(most) - outer - 1;
    return absl::StrCat(absl::StrJoin(frames.begin(), frames.begin() + outer, kArrow),
                        outer > 0 ? kArrow : "", kGap, kArrow,
                        absl::StrJoin(frames.end() - inner, frames.end(), kArrow));
  }

  const StackTextOptions& options_;
  const RankSet all_;
};

Json RangesJson(const RankSet& ranks) {
  Json json = Json::array();
  for (const RankRange& range : ranks.ranges()) json.push_back({range.first, range.last});
  return json;
}

// Recursion is at most kMaxStackFrames deep.
Json FramesJson(const StackTree& tree, std::uint32_t node, const std::string& ranks_name) {
  std::vector<std::uint32_t> children = tree.node(node).children;
  std::sort(children.begin(), children.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::uint64_t in_a = tree.node(a).ranks.count();
    const std::uint64_t in_b = tree.node(b).ranks.count();
    if (in_a != in_b) return in_a > in_b;
    return tree.frame(tree.node(a).frame) < tree.frame(tree.node(b).frame);
  });
  Json frames = Json::array();
  for (const std::uint32_t child : children) {
    Json frame = ToJson(tree.frame(tree.node(child).frame));
    frame["count"] = tree.node(child).ranks.count();
    frame[ranks_name] = RangesJson(tree.node(child).ranks);
    frame["frames"] = FramesJson(tree, child, ranks_name);
    frames.push_back(std::move(frame));
  }
  return frames;
}

// The end of the group at the start of `text`: "<...>" or "(...)", with nested groups.
std::size_t EndOfGroup(absl::string_view text, char open, char close) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // The '>' of "->" closes nothing.
    if (text[i] == close && (close != '>' || i == 0 || text[i - 1] != '-')) --depth;
    if (text[i] == open) ++depth;
    if (depth == 0) return i + 1;
  }
  return text.size();
}

}  // namespace

std::string FrameText(const StackFrame& frame) {
  const std::string place = PlaceText(frame);
  return place.empty() ? FunctionText(frame) : absl::StrCat(FunctionText(frame), " ", place);
}

std::string ShortFunction(absl::string_view demangled) {
  constexpr absl::string_view kAnonymous = "(anonymous namespace)";
  constexpr absl::string_view kOperator = "operator";
  std::string name;
  for (std::size_t i = 0; i < demangled.size();) {
    const absl::string_view rest = demangled.substr(i);
    if (absl::StartsWith(rest, absl::StrCat(kAnonymous, "::"))) {
      i += kAnonymous.size() + 2;
    } else if (absl::StartsWith(rest, kOperator) &&
               (name.empty() || name.back() == ':' || name.back() == ' ')) {
      // The rest: the operator's name, which may contain brackets, then the parameters.
      const auto parameters = rest.find('(', kOperator.size() + 1);
      return absl::StrCat(name.substr(name.rfind(' ') + 1), rest.substr(0, parameters));
    } else if (rest.front() == '<' && !name.empty()) {
      i += EndOfGroup(rest, '<', '>');
    } else if (rest.front() == '(' && !name.empty()) {
      const absl::string_view after = rest.substr(EndOfGroup(rest, '(', ')'));
      // A name that is local to a function keeps the function's name: "main::{lambda()#1}".
      const auto inner = after.find("::");
      const bool local =
          inner == 0 || (inner != absl::string_view::npos && absl::StartsWith(after, " const::"));
      if (!local) break;
      i = demangled.size() - after.size() + inner;
    } else if (rest.front() == '{') {
      const std::size_t end = EndOfGroup(rest, '{', '}');
      absl::StrAppend(&name, absl::StartsWith(rest, "{lambda") ? "lambda" : rest.substr(0, end));
      i += end;
    } else if (rest.front() == ' ') {
      // The text before the space was the return type, unless the rest is a remark of the compiler.
      if (absl::StartsWith(rest, " [") || absl::StartsWith(rest, " const")) break;
      name.clear();
      ++i;
    } else {
      name += rest.front();
      ++i;
    }
  }
  return name.empty() ? std::string(demangled) : name;
}

std::string ToText(const StackTree& tree, const StackTextOptions& options) {
  TextWriter writer(options, tree.Ranks());
  for (const RankNote& note : tree.notes()) {
    absl::StrAppend(&writer.text_, options.label, " ", note.rank, ": ", OneLine(note.text), "\n");
  }
  const Branches branches(tree);
  writer.Write(branches.Of(StackTree::Root(ThreadKind::kMain)), "", true);
  const std::vector<Branch> others = branches.Of(StackTree::Root(ThreadKind::kOther));
  if (options.other_threads && !others.empty()) {
    absl::StrAppend(&writer.text_, "other threads:\n");
    writer.Write(others, "", true);
  }
  if (tree.left_out() > 0) {
    absl::StrAppend(&writer.text_, "(", tree.left_out(), " frames left out: too many in all)\n");
  }
  return writer.text_;
}

Json ToJson(const StackFrame& frame) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  return {{"function", or_null(frame.function)},
          {"file", or_null(frame.file)},
          {"line", frame.line == 0 ? Json(nullptr) : Json(frame.line)},
          {"image", or_null(frame.image)}};
}

Json ToJson(const EncodedStackTree& tree, absl::string_view label) {
  const auto decoded = StackTree::Decode(tree);
  return decoded.ok() ? ToJson(*decoded, label) : Json(nullptr);
}

Json ToJson(const StackTree& tree, absl::string_view label) {
  const std::string one(label);
  const std::string many = one + "s";
  Json notes = Json::array();
  for (const RankNote& note : tree.notes()) {
    notes.push_back({{one, note.rank}, {"trouble", ToString(note.trouble)}, {"text", note.text}});
  }
  return {{many, RangesJson(tree.Ranks())},
          {"notes", std::move(notes)},
          {"main", FramesJson(tree, StackTree::Root(ThreadKind::kMain), many)},
          {"other", FramesJson(tree, StackTree::Root(ThreadKind::kOther), many)},
          {"left_out", tree.left_out()}};
}

}  // namespace ddprun
