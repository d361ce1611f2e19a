#include "rendezvous/stacks/stack_tree.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kRoots = kThreadKinds;
// The number of outer frames that are kept of a stack that is too deep; the others are inner
// frames. Outer frames are shared by ranks; inner frames show most.
constexpr std::size_t kOuterFramesKept = 20;
constexpr std::size_t kFrameBytes = 16;
constexpr std::size_t kNodeBytes = 12;
constexpr std::size_t kRangeBytes = 8;
constexpr std::size_t kNameBytes = 4;
constexpr std::size_t kNoteBytes = 12;

std::string Cut(std::string name) {
  if (name.size() > kMaxStackNameBytes) {
    name.resize(kMaxStackNameBytes - 3);
    // Does not cut within a UTF-8 character.
    while (!name.empty() && (static_cast<unsigned char>(name.back()) & 0xC0) == 0x80) {
      name.pop_back();
    }
    if (!name.empty() && static_cast<unsigned char>(name.back()) >= 0xC0) name.pop_back();
    name += "...";
  }
  return name;
}

using FrameKey =
    std::pair<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>>;

FrameKey KeyOf(const EncodedStackTree::Frame& frame) {
  return {{frame.function, frame.file}, {frame.image, frame.line}};
}

std::size_t NodeBytes(const StackTree::Node& node) {
  return kNodeBytes + kRangeBytes * node.ranks.ranges().size();
}

absl::Status Refused(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a tree of stacks with ", what));
}

absl::Status CheckFrames(const EncodedStackTree& tree) {
  absl::flat_hash_set<absl::string_view> names;
  for (const std::string& name : tree.names) {
    if (name.size() > kMaxStackNameBytes) return Refused("a name that is too long");
    if (!names.insert(name).second) return Refused("a name twice");
  }
  absl::flat_hash_set<FrameKey> frames;
  for (const auto& frame : tree.frames) {
    if (std::max({frame.function, frame.file, frame.image}) >= tree.names.size()) {
      return Refused("a frame whose name is missing");
    }
    if (!frames.insert(KeyOf(frame)).second) return Refused("a frame twice");
  }
  return absl::OkStatus();
}

absl::Status CheckNotes(const EncodedStackTree& tree) {
  if (tree.notes.size() > kMaxStackNotes) return Refused("too many notes");
  for (const RankNote& note : tree.notes) {
    if (note.text.size() > kMaxStackNameBytes) return Refused("a note that is too long");
    if (static_cast<std::size_t>(note.trouble) >= kRankTroubles) return Refused("an unknown note");
  }
  return absl::OkStatus();
}

absl::Status CheckNodes(const EncodedStackTree& tree) {
  std::vector<std::uint32_t> depths(kRoots, 0);
  absl::flat_hash_set<std::pair<std::uint32_t, std::uint32_t>> children;
  for (const auto& node : tree.nodes) {
    if (node.parent >= depths.size()) return Refused("a node before its parent");
    if (node.frame >= tree.frames.size()) return Refused("a node whose frame is missing");
    if (node.ranks.empty() || !RankSet::AreASet(node.ranks))
      return Refused("ranks that are no set");
    if (!children.insert({node.parent, node.frame}).second) return Refused("a node twice");
    depths.push_back(depths[node.parent] + 1);
    if (depths.back() > kMaxStackFrames) return Refused("too many frames");
    if (node.parent >= kRoots && !Covers(tree.nodes[node.parent - kRoots].ranks, node.ranks)) {
      return Refused("a frame whose ranks its caller does not have");
    }
  }
  return absl::OkStatus();
}

}  // namespace

const char* ToString(RankTrouble trouble) {
  constexpr const char* kNames[kRankTroubles] = {"stopped",    "traced",        "disk_wait",
                                                 "in_call",    "not_permitted", "gone",
                                                 "incomplete", "no_answer"};
  return kNames[static_cast<std::size_t>(trouble)];
}

std::size_t WireBytes(const EncodedStackTree& tree) {
  std::size_t bytes = kFrameBytes * tree.frames.size();
  for (const std::string& name : tree.names) bytes += kNameBytes + name.size();
  for (const auto& node : tree.nodes) bytes += kNodeBytes + kRangeBytes * node.ranks.size();
  for (const RankNote& note : tree.notes) bytes += kNoteBytes + note.text.size();
  return bytes;
}

RankSet RanksOf(const EncodedStackTree& tree) {
  RankSet ranks;
  for (const auto& node : tree.nodes) {
    if (node.parent < kRoots) ranks.AddRanges(node.ranks);
  }
  for (const RankNote& note : tree.notes) ranks.Add(note.rank);
  return ranks;
}

std::vector<StackFrame> WithoutMiddle(std::vector<StackFrame> outermost_first) {
  if (outermost_first.size() <= kMaxStackFrames) return outermost_first;
  const std::size_t too_many = outermost_first.size() - kMaxStackFrames + 1;
  const auto from = outermost_first.begin() + kOuterFramesKept;
  outermost_first.erase(from, from + static_cast<std::ptrdiff_t>(too_many));
  StackFrame gap;
  gap.function = "...";
  outermost_first.insert(outermost_first.begin() + kOuterFramesKept, std::move(gap));
  return outermost_first;
}

StackTree::StackTree() : nodes_(kRoots) {}

std::uint32_t StackTree::Intern(const std::string& name) {
  const auto [entry, added] =
      name_indices_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
  if (added) names_.push_back(name);
  return entry->second;
}

std::uint32_t StackTree::Intern(const Frame& frame) {
  const auto [entry, added] =
      frame_indices_.try_emplace(KeyOf(frame), static_cast<std::uint32_t>(frames_.size()));
  if (added) frames_.push_back(frame);
  return entry->second;
}

std::uint32_t StackTree::Intern(const StackFrame& frame) {
  return Intern(Frame{Intern(Cut(frame.function)), Intern(Cut(frame.file)),
                      Intern(Cut(frame.image)), frame.line});
}

std::uint32_t StackTree::Child(std::uint32_t parent, std::uint32_t frame) {
  const auto [entry, added] =
      children_.try_emplace({parent, frame}, static_cast<std::uint32_t>(nodes_.size()));
  if (!added) return entry->second;
  const std::uint32_t index = entry->second;
  nodes_.push_back({frame, parent, nodes_[parent].depth + 1, {}, {}});
  nodes_[parent].children.push_back(index);
  return index;
}

void StackTree::Add(std::uint32_t rank, ThreadKind kind,
                    const std::vector<StackFrame>& outermost_first) {
  std::uint32_t node = Root(kind);
  nodes_[node].ranks.Add(rank);
  for (const StackFrame& frame : WithoutMiddle(outermost_first)) {
    node = Child(node, Intern(frame));
    nodes_[node].ranks.Add(rank);
  }
}

void StackTree::Add(RankNote note) {
  note.text = Cut(std::move(note.text));
  notes_.insert(std::move(note));
  if (notes_.size() > kMaxStackNotes) notes_.erase(std::prev(notes_.end()));
}

void StackTree::Merge(const StackTree& other) {
  std::vector<std::uint32_t> frames;
  frames.reserve(other.frames_.size());
  for (std::uint32_t i = 0; i < other.frames_.size(); ++i) {
    const Frame& frame = other.frames_[i];
    frames.push_back(
        Intern(Frame{Intern(other.names_[frame.function]), Intern(other.names_[frame.file]),
                     Intern(other.names_[frame.image]), frame.line}));
  }
  std::vector<std::uint32_t> mine(other.nodes_.size());
  for (std::uint32_t i = 0; i < other.nodes_.size(); ++i) {
    const Node& node = other.nodes_[i];
    mine[i] = i < kRoots ? i : Child(mine[node.parent], frames[node.frame]);
    nodes_[mine[i]].ranks.Add(node.ranks);
  }
  for (const RankNote& note : other.notes_) Add(note);
  left_out_ += other.left_out_;
}

void StackTree::Merge(const EncodedStackTree& other) {
  std::vector<std::uint32_t> names;
  names.reserve(other.names.size());
  for (const std::string& name : other.names) names.push_back(Intern(name));
  std::vector<std::uint32_t> frames;
  frames.reserve(other.frames.size());
  for (const Frame& frame : other.frames) {
    frames.push_back(
        Intern(Frame{names[frame.function], names[frame.file], names[frame.image], frame.line}));
  }
  std::vector<std::uint32_t> mine(kRoots + other.nodes.size());
  std::iota(mine.begin(), mine.begin() + kRoots, 0);
  for (std::uint32_t i = 0; i < other.nodes.size(); ++i) {
    const EncodedStackTree::Node& node = other.nodes[i];
    const std::uint32_t parent = mine[node.parent];
    if (parent < kRoots) nodes_[parent].ranks.AddRanges(node.ranks);
    mine[kRoots + i] = Child(parent, frames[node.frame]);
    nodes_[mine[kRoots + i]].ranks.AddRanges(node.ranks);
  }
  for (const RankNote& note : other.notes) Add(note);
  left_out_ += other.left_out;
}

StackFrame StackTree::frame(std::uint32_t index) const {
  const Frame& frame = frames_[index];
  return {names_[frame.function], names_[frame.file], frame.line, names_[frame.image]};
}

RankSet StackTree::Ranks() const {
  RankSet ranks;
  for (std::uint32_t root = 0; root < kRoots; ++root) ranks.Add(nodes_[root].ranks);
  for (const RankNote& note : notes_) ranks.Add(note.rank);
  return ranks;
}

std::size_t StackTree::wire_bytes() const {
  std::size_t bytes = kFrameBytes * frames_.size();
  for (const std::string& name : names_) bytes += kNameBytes + name.size();
  for (std::size_t i = kRoots; i < nodes_.size(); ++i) bytes += NodeBytes(nodes_[i]);
  for (const RankNote& note : notes_) bytes += kNoteBytes + note.text.size();
  return bytes;
}

// The position of each frame in an order that does not depend on insertion.
std::vector<std::uint32_t> StackTree::FrameOrder() const {
  std::vector<std::uint32_t> sorted(frames_.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  const auto key = [this](std::uint32_t index) {
    const Frame& frame = frames_[index];
    return std::tie(names_[frame.function], names_[frame.file], frame.line, names_[frame.image]);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  std::vector<std::uint32_t> order(frames_.size());
  for (std::uint32_t place = 0; place < sorted.size(); ++place) order[sorted[place]] = place;
  return order;
}

std::vector<std::uint32_t> StackTree::SortedChildren(
    std::uint32_t node, const std::vector<std::uint32_t>& order) const {
  std::vector<std::uint32_t> children = nodes_[node].children;
  std::sort(children.begin(), children.end(), [&](std::uint32_t a, std::uint32_t b) {
    return order[nodes_[a].frame] < order[nodes_[b].frame];
  });
  return children;
}

// The number of notes to encode: the lowest ranks' notes, in at most half of the bytes.
std::size_t StackTree::FittingNotes(std::size_t most, std::size_t* bytes) const {
  std::size_t count = 0;
  for (const RankNote& note : notes_) {
    const std::size_t size = kNoteBytes + note.text.size();
    if (*bytes + size > most / 2) break;
    *bytes += size;
    ++count;
  }
  return count;
}

// All nodes except the roots, most important first: main threads, then outer frames, then frames of
// many ranks. A parent is an outer frame of its child, so it comes first.
std::vector<std::uint32_t> StackTree::ByWeight() const {
  std::vector<std::uint32_t> nodes(nodes_.size() - kRoots);
  std::iota(nodes.begin(), nodes.end(), kRoots);
  std::vector<std::uint32_t> kinds(nodes_.size());
  for (std::uint32_t i = 0; i < kinds.size(); ++i) {
    kinds[i] = i < kRoots ? i : kinds[nodes_[i].parent];
  }
  const std::vector<std::uint32_t> order = FrameOrder();
  std::sort(nodes.begin(), nodes.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Node& x = nodes_[a];
    const Node& y = nodes_[b];
    if (kinds[a] != kinds[b]) return kinds[a] < kinds[b];
    if (x.depth != y.depth) return x.depth < y.depth;
    const std::uint64_t x_ranks = x.ranks.count();
    const std::uint64_t y_ranks = y.ranks.count();
    if (x_ranks != y_ranks) return x_ranks > y_ranks;
    return std::tie(order[x.frame], x.ranks) < std::tie(order[y.frame], y.ranks);
  });
  return nodes;
}

// For each node: whether it is encoded.
std::vector<bool> StackTree::Fitting(std::size_t most) const {
  std::size_t bytes = 0;
  FittingNotes(most, &bytes);
  std::vector<bool> kept(nodes_.size(), false);
  std::vector<bool> frame_counted(frames_.size(), false);
  std::vector<bool> name_counted(names_.size(), false);
  for (std::uint32_t root = 0; root < kRoots; ++root) kept[root] = true;
  for (const std::uint32_t index : ByWeight()) {
    if (!kept[nodes_[index].parent]) continue;
    const std::uint32_t frame = nodes_[index].frame;
    const auto names = {frames_[frame].function, frames_[frame].file, frames_[frame].image};
    std::size_t more = NodeBytes(nodes_[index]) + (frame_counted[frame] ? 0 : kFrameBytes);
    for (const std::uint32_t name : names) {
      if (!name_counted[name]) more += kNameBytes + names_[name].size();
    }
    if (bytes + more > most) continue;  // a smaller node may still fit
    bytes += more;
    kept[index] = true;
    frame_counted[frame] = true;
    for (const std::uint32_t name : names) name_counted[name] = true;
  }
  return kept;
}

namespace {

// Numbers names and frames in the order of their first use by nodes.
class Numbering {
 public:
  Numbering(EncodedStackTree* to, const std::vector<std::string>& names,
            const std::vector<EncodedStackTree::Frame>& frames)
      : to_(to), names_(names), frames_(frames) {}

  std::uint32_t Frame(std::uint32_t frame) {
    const auto [entry, added] =
        frame_numbers_.try_emplace(frame, static_cast<std::uint32_t>(to_->frames.size()));
    if (added) {
      const EncodedStackTree::Frame& from = frames_[frame];
      to_->frames.push_back({Name(from.function), Name(from.file), Name(from.image), from.line});
    }
    return entry->second;
  }

 private:
  std::uint32_t Name(std::uint32_t name) {
    const auto [entry, added] =
        name_numbers_.try_emplace(name, static_cast<std::uint32_t>(to_->names.size()));
    if (added) to_->names.push_back(names_[name]);
    return entry->second;
  }

  EncodedStackTree* to_;
  const std::vector<std::string>& names_;
  const std::vector<EncodedStackTree::Frame>& frames_;
  absl::flat_hash_map<std::uint32_t, std::uint32_t> name_numbers_;
  absl::flat_hash_map<std::uint32_t, std::uint32_t> frame_numbers_;
};

}  // namespace

EncodedStackTree StackTree::Encode(std::size_t most) const {
  EncodedStackTree encoded;
  const std::vector<bool> kept = Fitting(most);
  const std::vector<std::uint32_t> order = FrameOrder();
  Numbering numbering(&encoded, names_, frames_);
  encoded.left_out =
      left_out_ + static_cast<std::uint64_t>(std::count(kept.begin(), kept.end(), false));
  struct Visit {
    std::uint32_t node;
    std::uint32_t parent;  // in the encoded form
  };
  std::vector<Visit> next;
  const auto add_children = [&](std::uint32_t node, std::uint32_t as) {
    const std::vector<std::uint32_t> children = SortedChildren(node, order);
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      if (kept[*child]) next.push_back({*child, as});
    }
  };
  for (std::uint32_t root = kRoots; root-- > 0;) add_children(root, root);
  while (!next.empty()) {
    const Visit visit = next.back();
    next.pop_back();
    const Node& node = nodes_[visit.node];
    const auto number = static_cast<std::uint32_t>(encoded.nodes.size()) + kRoots;
    encoded.nodes.push_back({visit.parent, numbering.Frame(node.frame), node.ranks.ranges()});
    add_children(visit.node, number);
  }
  std::size_t bytes = 0;
  const auto notes = static_cast<std::ptrdiff_t>(FittingNotes(most, &bytes));
  encoded.notes.assign(notes_.begin(), std::next(notes_.begin(), notes));
  return encoded;
}

absl::Status StackTree::Check(const EncodedStackTree& tree, std::size_t most) {
  if (WireBytes(tree) > most) return Refused(absl::StrCat("more than ", most >> 20, " MiB"));
  absl::Status status = CheckFrames(tree);
  if (status.ok()) status = CheckNotes(tree);
  if (status.ok()) status = CheckNodes(tree);
  return status;
}

absl::StatusOr<StackTree> StackTree::Decode(const EncodedStackTree& tree, std::size_t most) {
  if (absl::Status status = Check(tree, most); !status.ok()) return status;
  StackTree decoded;
  decoded.Merge(tree);
  return decoded;
}

}  // namespace ddprun
