// Translates stack trees. Only sizes are checked here, so that a refused tree costs no memory.
// StackTree::Decode() checks the rest.
#include <google/protobuf/arena.h>

#include <memory>
#include <string>
#include <utility>

#include "rendezvous/stacks/encoded_stack_tree.h"
#include "rendezvous/wire/parts.h"
#include "rendezvous/wire/text.h"
#include "rendezvous/wire/translate.h"

namespace ddprun::wire {
namespace {

constexpr std::int64_t kMaxEntries = kMaxStackTreeBytes;  // of names, frames or nodes

bool TakeCount(const char* field, int count, std::int64_t most, FieldChecker& check) {
  check.Number(field, count, 0, most);
  return check.status().ok();
}

std::vector<RankRange> ReadRanks(const v1::StackTree::Node& from, FieldChecker& check) {
  std::vector<RankRange> ranges;
  if (from.ranks_size() % 2 != 0) {
    check.Fail("StackTree.Node.ranks has a range without its end");
    return ranges;
  }
  ranges.reserve(static_cast<std::size_t>(from.ranks_size() / 2));
  for (int i = 0; i < from.ranks_size(); i += 2) {
    check.Number("StackTree.Node.ranks", from.ranks(i + 1), from.ranks(i), kMaxWorldSize - 1);
    ranges.push_back({from.ranks(i), from.ranks(i + 1)});
  }
  return ranges;
}

std::vector<std::string> ReadLines(const char* field,
                                   const google::protobuf::RepeatedPtrField<std::string>& from,
                                   std::size_t most, std::size_t bytes, FieldChecker& check) {
  std::vector<std::string> lines;
  if (!TakeCount(field, from.size(), static_cast<std::int64_t>(most), check)) return lines;
  for (const std::string& line : from) lines.push_back(check.Text(field, line, bytes));
  return lines;
}

}  // namespace

void Fill(const EncodedStackTree& from, v1::StackTree* to) {
  for (const std::string& name : from.names) to->add_names(name);
  for (const EncodedStackTree::Frame& frame : from.frames) {
    v1::StackTree::Frame* const entry = to->add_frames();
    entry->set_function(frame.function);
    entry->set_file(frame.file);
    entry->set_image(frame.image);
    entry->set_line(frame.line);
  }
  for (const EncodedStackTree::Node& node : from.nodes) {
    v1::StackTree::Node* const entry = to->add_nodes();
    entry->set_parent(node.parent);
    entry->set_frame(node.frame);
    for (const RankRange& range : node.ranks) {
      entry->add_ranks(range.first);
      entry->add_ranks(range.last);
    }
  }
  for (const RankNote& note : from.notes) {
    v1::StackTree::Note* const entry = to->add_notes();
    entry->set_rank(note.rank);
    entry->set_trouble(static_cast<std::uint32_t>(note.trouble));
    entry->set_text(note.text);
  }
  to->set_left_out(from.left_out);
}

EncodedStackTree ReadStackTree(const v1::StackTree& from, FieldChecker& check) {
  EncodedStackTree to;
  if (!TakeCount("StackTree.names: number", from.names_size(), kMaxEntries, check) ||
      !TakeCount("StackTree.frames: number", from.frames_size(), kMaxEntries, check) ||
      !TakeCount("StackTree.nodes: number", from.nodes_size(), kMaxEntries, check) ||
      !TakeCount("StackTree.notes: number", from.notes_size(), kMaxStackNotes, check)) {
    return to;
  }
  for (const std::string& name : from.names()) {
    to.names.push_back(check.Text("StackTree.names", name, kMaxStackNameBytes));
  }
  for (const v1::StackTree::Frame& frame : from.frames()) {
    to.frames.push_back({frame.function(), frame.file(), frame.image(), frame.line()});
  }
  for (const v1::StackTree::Node& node : from.nodes()) {
    if (!check.status().ok()) return to;
    to.nodes.push_back({node.parent(), node.frame(), ReadRanks(node, check)});
  }
  for (const v1::StackTree::Note& note : from.notes()) {
    const int trouble = check.Number("StackTree.Note.trouble", note.trouble(), 0,
                                     static_cast<std::int64_t>(kRankTroubles) - 1);
    check.Number("StackTree.Note.rank", note.rank(), 0, kMaxWorldSize - 1);
    to.notes.push_back({note.rank(), static_cast<RankTrouble>(trouble),
                        check.Text("StackTree.Note.text", note.text(), kMaxStackNameBytes)});
  }
  to.left_out = from.left_out();
  return to;
}

void Fill(const HangStacks& from, v1::HangStacks* to) {
  for (const std::string& line : from.verdict) to->add_verdict(CleanText(line, kMaxTextBytes));
  for (const std::string& host : from.missing) to->add_missing(CleanText(host, kMaxHostBytes));
  Fill(*from.tree, to->mutable_tree());
  to->set_next(CleanText(from.next, kMaxTextBytes));
}

HangStacks ReadHangStacks(const v1::HangStacks& from, FieldChecker& check) {
  HangStacks to;
  to.verdict =
      ReadLines("HangStacks.verdict", from.verdict(), kMaxVerdictLines, kMaxTextBytes, check);
  to.missing =
      ReadLines("HangStacks.missing", from.missing(), kMaxMissingHosts, kMaxHostBytes, check);
  to.tree = std::make_shared<EncodedStackTree>(ReadStackTree(from.tree(), check));
  to.next = check.Text("HangStacks.next", from.next(), kMaxTextBytes);
  return to;
}

void Fill(const StackFrame& from, v1::StackFrame* to) {
  to->set_function(from.function.substr(0, kMaxCauseNameBytes));
  to->set_file(from.file.substr(0, kMaxCauseNameBytes));
  to->set_line(from.line);
  to->set_image(from.image.substr(0, kMaxCauseNameBytes));
}

std::vector<StackFrame> ReadFrames(const google::protobuf::RepeatedPtrField<v1::StackFrame>& from,
                                   FieldChecker& check) {
  std::vector<StackFrame> to;
  if (!TakeCount("RootCause.frames: number", from.size(), kMaxCauseFrames, check)) return to;
  for (const v1::StackFrame& frame : from) {
    to.push_back({check.Text("StackFrame.function", frame.function(), kMaxCauseNameBytes),
                  check.Text("StackFrame.file", frame.file(), kMaxCauseNameBytes), frame.line(),
                  check.Text("StackFrame.image", frame.image(), kMaxCauseNameBytes)});
  }
  return to;
}

v1::StackTree ToProto(const EncodedStackTree& tree) {
  v1::StackTree proto;
  Fill(tree, &proto);
  return proto;
}

absl::StatusOr<EncodedStackTree> FromProto(const v1::StackTree& tree) {
  FieldChecker check;
  EncodedStackTree to = ReadStackTree(tree, check);
  if (!check.status().ok()) return check.status();
  return to;
}

std::string PackTree(const EncodedStackTree& tree) { return ToProto(tree).SerializeAsString(); }

absl::StatusOr<EncodedStackTree> UnpackTree(const std::string& packed) {
  google::protobuf::Arena arena;  // a tree has hundreds of small parts
  auto* const tree = google::protobuf::Arena::CreateMessage<v1::StackTree>(&arena);
  if (!tree->ParseFromString(packed)) {
    return absl::InvalidArgumentError("StacksTaken.tree is no StackTree");
  }
  return FromProto(*tree);
}

}  // namespace ddprun::wire
