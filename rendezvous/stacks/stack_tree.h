// The stacks of many ranks as one tree. Ranks with common outer frames share the nodes of these
// frames, and each node has the set of its ranks. An agent makes a tree of its workers; the
// rendezvous merges the agents' trees. Pure: no I/O, no clock.
//
// Not thread-safe. Merging is associative and commutative: equal stacks give an equal Encode() in
// any order. A frame holds names, a file and a line, never a value from memory.
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

// Estimated size on the wire, in bytes.
std::size_t WireBytes(const EncodedStackTree& tree);
// The ranks with a thread or a note in `tree`.
RankSet RanksOf(const EncodedStackTree& tree);

// Cuts a stack to kMaxStackFrames frames: a frame named "..." replaces the middle.
std::vector<StackFrame> WithoutMiddle(std::vector<StackFrame> outermost_first);

class StackTree {
 public:
  struct Node {
    std::uint32_t frame = 0;  // index for frame()
    std::uint32_t parent = 0;
    std::uint32_t depth = 0;  // outermost frame: 1
    RankSet ranks;
    std::vector<std::uint32_t> children;  // indices for node(), unordered
  };

  StackTree();

  // Adds one thread of `rank`. Cuts names to kMaxStackNameBytes, and the stack with
  // WithoutMiddle().
  void Add(std::uint32_t rank, ThreadKind kind, const std::vector<StackFrame>& outermost_first);

  // If there are more than kMaxStackNotes, drops the notes of the highest ranks.
  void Add(RankNote note);

  void Merge(const StackTree& other);
  // Check() must accept `other`.
  void Merge(const EncodedStackTree& other);

  // Equal trees give equal results. To fit into `most` bytes, it drops frames in this order: other
  // threads before main threads, inner frames before outer frames, frames of few ranks before
  // frames of many. Notes get at most half of the bytes; notes of the highest ranks are dropped
  // first.
  EncodedStackTree Encode(std::size_t most = kMaxStackTreeBytes) const;

  // InvalidArgument for a tree that Encode() never makes: an index out of range, a child with ranks
  // that its parent lacks, a duplicate, a stack that is too deep, a text that is too long, too many
  // notes, or more than `most` bytes.
  static absl::Status Check(const EncodedStackTree& tree, std::size_t most = kMaxStackTreeBytes);
  // Fails with the status of Check().
  static absl::StatusOr<StackTree> Decode(const EncodedStackTree& tree,
                                          std::size_t most = kMaxStackTreeBytes);

  // The node of a thread kind. Its children are the outermost frames.
  static std::uint32_t Root(ThreadKind kind) { return static_cast<std::uint32_t>(kind); }
  const Node& node(std::uint32_t index) const { return nodes_[index]; }
  StackFrame frame(std::uint32_t index) const;
  const std::set<RankNote>& notes() const { return notes_; }
  std::uint64_t left_out() const { return left_out_; }
  RankSet Ranks() const;  // ranks with a thread or a note
  // WireBytes() of the whole tree.
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
  std::vector<Node> nodes_;  // roots first; a parent comes before its children
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> children_;
  std::set<RankNote> notes_;
  std::uint64_t left_out_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_STACK_TREE_H_
