// Plain values for stacks: a frame, a note about a rank, an encoded tree. stack_tree.h makes and
// checks them.
#ifndef DDPRUN_RENDEZVOUS_STACKS_ENCODED_STACK_TREE_H_
#define DDPRUN_RENDEZVOUS_STACKS_ENCODED_STACK_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/stacks/rank_set.h"

namespace ddprun {

inline constexpr std::size_t kMaxStackFrames = 64;          // of one thread
inline constexpr std::size_t kMaxStackNameBytes = 512;      // of a function, file or image
inline constexpr std::size_t kMaxStackNotes = 4096;         // of one tree
inline constexpr std::size_t kMaxStackTreeBytes = 1 << 20;  // of one tree, by WireBytes()
// Limit for a tree that must fit into a message of 1 MiB; lower, because WireBytes() is an
// estimate.
inline constexpr std::size_t kMaxSentStackTreeBytes = kMaxStackTreeBytes / 8 * 7;

struct StackFrame {
  std::string function;  // demangled; empty: not known
  std::string file;      // empty: not known
  std::uint32_t line = 0;
  std::string image;  // the program or library, without its folder; "python" for a Python frame,
                      // "kernel" for a system call

  friend auto operator<=>(const StackFrame&, const StackFrame&) = default;
};

// Main threads form a tree of their own: they show what a rank does.
enum class ThreadKind : std::uint8_t { kMain, kOther };
inline constexpr std::size_t kThreadKinds = 2;

// Why a rank does not move, or why its stacks are missing or incomplete.
enum class RankTrouble : std::uint8_t {
  kStopped,       // by a signal, such as SIGSTOP
  kTraced,        // by a debugger
  kDiskWait,      // a thread is in an uninterruptible wait (D)
  kInCall,        // a thread waits in a system call on a file
  kNotPermitted,  // ddprun is not allowed to trace it
  kGone,          // the process has ended
  kIncomplete,    // some of its frames or threads are missing
  kNoAnswer,      // a TCP peer does not answer
};
inline constexpr std::size_t kRankTroubles = 8;
const char* ToString(RankTrouble trouble);  // "stopped", "traced", "disk_wait", ...

struct RankNote {
  std::uint32_t rank = 0;
  RankTrouble trouble = RankTrouble::kIncomplete;
  std::string text;  // for a person; one line

  friend auto operator<=>(const RankNote&, const RankNote&) = default;
};

// A tree in the form that is sent. StackTree::Decode() checks every number.
struct EncodedStackTree {
  struct Frame {
    std::uint32_t function = 0;  // index in `names`, like file and image
    std::uint32_t file = 0;
    std::uint32_t image = 0;
    std::uint32_t line = 0;
    friend auto operator<=>(const Frame&, const Frame&) = default;
  };
  struct Node {
    // Below kThreadKinds: this is an outermost frame of a thread of that ThreadKind. Else:
    // kThreadKinds + the index of the parent, which comes before this node.
    std::uint32_t parent = 0;
    std::uint32_t frame = 0;  // index in `frames`
    std::vector<RankRange> ranks;
    friend auto operator<=>(const Node&, const Node&) = default;
  };
  std::vector<std::string> names;
  std::vector<Frame> frames;
  std::vector<Node> nodes;
  std::vector<RankNote> notes;
  // Nodes that did not fit into this tree, or into trees merged into it.
  std::uint64_t left_out = 0;

  friend auto operator<=>(const EncodedStackTree&, const EncodedStackTree&) = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_ENCODED_STACK_TREE_H_
