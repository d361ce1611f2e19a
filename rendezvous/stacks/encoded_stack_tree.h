// The words of stacks: a frame, what keeps a rank from being seen whole, a tree as it travels.
// Plain values; stack_tree.h makes and checks them.
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
// Of a tree that is to fit into a message of 1 MiB: WireBytes() is an estimate.
inline constexpr std::size_t kMaxSentStackTreeBytes = kMaxStackTreeBytes / 8 * 7;

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

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_ENCODED_STACK_TREE_H_
