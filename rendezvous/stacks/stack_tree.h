// The stacks of many ranks as one tree: frames that ranks have in common, from the outermost one
// on, stand once, with the set of these ranks. An agent makes one of its workers' stacks; the
// rendezvous merges the agents' trees. Pure: no I/O, no clock.
//
// Not thread-safe. Merging is associative and commutative: equal stacks give equal Encode(), in
// whatever order they came. Only names, files and lines are in it, never a value from memory.
#ifndef DDPRUN_RENDEZVOUS_STACKS_STACK_TREE_H_
#define DDPRUN_RENDEZVOUS_STACKS_STACK_TREE_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/stacks/encoded_stack_tree.h"
#include "rendezvous/stacks/rank_set.h"

namespace ddprun {

// About as many bytes as it takes on the wire.
std::size_t WireBytes(const EncodedStackTree& tree);
// The ranks that have a thread in `tree`, or a note.
RankSet RanksOf(const EncodedStackTree& tree);

// At most kMaxStackFrames: of a deeper stack the middle is left out, and a frame named "..." says
// so.
std::vector<StackFrame> WithoutMiddle(std::vector<StackFrame> outermost_first);

class StackTree {
 public:
  struct Node {
    std::uint32_t frame = 0;  // an index for frame()
    std::uint32_t parent = 0;
    std::uint32_t depth = 0;  // 1 for an outermost frame
    RankSet ranks;
    std::vector<std::uint32_t> children;  // in no order; indices for node()
  };

  StackTree();

  // One thread of `rank`. Names are cut at kMaxStackNameBytes, the stack by WithoutMiddle().
  void Add(std::uint32_t rank, ThreadKind kind, const std::vector<StackFrame>& outermost_first);

  // Beyond kMaxStackNotes the notes of the highest ranks are forgotten.
  void Add(RankNote note);

  void Merge(const StackTree& other);
  // `other` is one that Check() accepts.
  void Merge(const EncodedStackTree& other);

  // Equal trees give equal results. To fit into `most` bytes, it drops frames: those of other
  // threads before those of main threads, inner before outer ones, those of few ranks before those
  // of many. Notes get at most half of the bytes; those of the highest ranks are dropped.
  EncodedStackTree Encode(std::size_t most = kMaxStackTreeBytes) const;

  // InvalidArgument for what Encode() never makes: an index out of range, a child without its
  // parent's ranks, something twice, too many frames, names or notes, more than `most` bytes.
  static absl::Status Check(const EncodedStackTree& tree, std::size_t most = kMaxStackTreeBytes);
  // Error: that of Check().
  static absl::StatusOr<StackTree> Decode(const EncodedStackTree& tree,
                                          std::size_t most = kMaxStackTreeBytes);

  // The nodes of a kind's outermost frames are the children of its root.
  static std::uint32_t Root(ThreadKind kind) { return static_cast<std::uint32_t>(kind); }
  const Node& node(std::uint32_t index) const { return nodes_[index]; }
  StackFrame frame(std::uint32_t index) const;
  const std::set<RankNote>& notes() const { return notes_; }
  std::uint64_t left_out() const { return left_out_; }
  RankSet Ranks() const;  // that have a thread in it, or a note
  // WireBytes() of all of it.
  std::size_t wire_bytes() const;

 private:
  using Frame = EncodedStackTree::Frame;
  using FrameKey =
      std::pair<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>>;

  std::uint32_t Intern(const std::string& name);
  std::uint32_t Intern(const Frame& frame);
  std::uint32_t Intern(const StackFrame& frame);
  std::uint32_t Child(std::uint32_t parent, std::uint32_t frame);
  std::vector<std::uint32_t> SortedChildren(std::uint32_t node,
                                            const std::vector<std::uint32_t>& order) const;
  std::vector<std::uint32_t> FrameOrder() const;
  std::size_t FittingNotes(std::size_t most, std::size_t* bytes) const;
  std::vector<std::uint32_t> ByWeight() const;
  std::vector<bool> Fitting(std::size_t most) const;

  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, std::uint32_t> name_indices_;
  std::vector<Frame> frames_;
  absl::flat_hash_map<FrameKey, std::uint32_t> frame_indices_;
  std::vector<Node> nodes_;  // a parent before its children; the first ones are the roots
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> children_;
  std::set<RankNote> notes_;
  std::uint64_t left_out_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_STACK_TREE_H_
