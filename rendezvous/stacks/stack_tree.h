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
#include "absl/status/statusor.h"
#include "rendezvous/stacks/rank_set.h"

namespace ddprun {

inline constexpr std::size_t kMaxStackFrames = 64;          // of one thread
inline constexpr std::size_t kMaxStackNameBytes = 512;      // of a function, file or image
inline constexpr std::size_t kMaxStackNotes = 4096;         // of one tree
inline constexpr std::size_t kMaxStackTreeBytes = 1 << 20;  // of one tree on the wire

struct StackFrame {
  std::string function;  // demangled; empty: not known
  std::string file;      // empty: not known
  std::uint32_t line = 0;
  std::string image;  // the program or library, without its folder; "python" for a Python frame,
                      // "kernel" for a system call

  friend auto operator<=>(const StackFrame&, const StackFrame&) = default;
};

// Main threads make a tree of their own: their frames tell what a rank does.
enum class ThreadKind : std::uint8_t { kMain, kOther };
inline constexpr std::size_t kThreadKinds = 2;

// What keeps a rank from moving, or its stacks from being seen whole.
enum class RankTrouble : std::uint8_t {
  kStopped,       // by a signal, SIGSTOP for one
  kTraced,        // by a debugger
  kDiskWait,      // a thread is in an uninterruptible wait (D)
  kInCall,        // a thread waits in a system call on a file
  kNotPermitted,  // ddprun may not trace it
  kGone,          // it ended
  kIncomplete,    // some of its frames or threads are missing
};
inline constexpr std::size_t kRankTroubles = 7;
const char* ToString(RankTrouble trouble);  // "stopped", "traced", "disk_wait", ...

struct RankNote {
  std::uint32_t rank = 0;
  RankTrouble trouble = RankTrouble::kIncomplete;
  std::string text;  // for a person; one line

  friend auto operator<=>(const RankNote&, const RankNote&) = default;
};

// A tree as it travels. Every number is checked by StackTree::Decode().
struct EncodedStackTree {
  struct Frame {
    std::uint32_t function = 0;  // all three: an index of `names`
    std::uint32_t file = 0;
    std::uint32_t image = 0;
    std::uint32_t line = 0;
    friend auto operator<=>(const Frame&, const Frame&) = default;
  };
  struct Node {
    std::uint32_t parent = 0;  // an index of `nodes` below its own, plus kThreadKinds; below that
                               // the kind of thread that it is the outermost frame of
    std::uint32_t frame = 0;   // an index of `frames`
    std::vector<RankRange> ranks;
    friend auto operator<=>(const Node&, const Node&) = default;
  };
  std::vector<std::string> names;
  std::vector<Frame> frames;
  std::vector<Node> nodes;
  std::vector<RankNote> notes;
  std::uint64_t left_out = 0;  // nodes that did not fit, here or in a tree merged into it

  friend auto operator<=>(const EncodedStackTree&, const EncodedStackTree&) = default;
};

// About as many bytes as it takes on the wire.
std::size_t WireBytes(const EncodedStackTree& tree);

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

  // The same for equal trees. Where it would take more than `most` bytes, the frames furthest in
  // are left out, and of these the ones of the fewest ranks first.
  EncodedStackTree Encode(std::size_t most = kMaxStackTreeBytes) const;

  // InvalidArgument for what Encode() never makes: an index out of range, a child without its
  // parent's ranks, too many frames, names or notes, more than kMaxStackTreeBytes.
  static absl::StatusOr<StackTree> Decode(const EncodedStackTree& tree);

  // The nodes of a kind's outermost frames are the children of its root.
  static std::uint32_t Root(ThreadKind kind) { return static_cast<std::uint32_t>(kind); }
  const Node& node(std::uint32_t index) const { return nodes_[index]; }
  StackFrame frame(std::uint32_t index) const;
  const std::set<RankNote>& notes() const { return notes_; }
  std::uint64_t left_out() const { return left_out_; }
  RankSet Ranks() const;  // that have a thread in it, or a note

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
