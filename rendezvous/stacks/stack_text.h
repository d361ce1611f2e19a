// A tree of stacks as a person reads it, and as a program does. Pure.
//
//     16 main trainer.cc:210 → Trainer::Step
//     ├ 15 [0-4,6-15] trainer.cc:151 → … → ProcessGroupGloo work wait
//     └  1 [5] trainer.cc:140 → Dataset::Get dataset.cc:88 → read
//
// How many ranks, which ones, and the frames that they have in common, the outermost first. Frames
// stand in one line as long as no rank leaves them. A function whose ranks are at different lines
// of it stands once, and the lines below it. The ranks are left out where all are meant.
#ifndef DDPRUN_RENDEZVOUS_STACKS_STACK_TEXT_H_
#define DDPRUN_RENDEZVOUS_STACKS_STACK_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

struct StackTextOptions {
  absl::string_view label = "rank";  // what the numbers are: "rank", or "pid"
  std::size_t most_in_line = 8;      // frames; of a longer line the middle is "…". 0: all
  bool other_threads = true;         // all but the main ones
};

// First a line for each note ("rank 5: stopped by a signal"), then the main threads, then the
// others below a heading. Ends with a newline unless it is empty.
std::string ToText(const StackTree& tree, const StackTextOptions& options);

// {"ranks": [[0, 15]], "notes": [{"rank": 5, "trouble": "stopped", "text": ...}],
//  "main": [{"function", "file", "line", "image", "count", "ranks", "frames": [...]}], "other":
//  ..., "left_out": 0}. `label` as above: "pids" and "pid" where that is what the numbers are.
nlohmann::ordered_json ToJson(const StackTree& tree, absl::string_view label);
// The same; null for one that is not well formed.
nlohmann::ordered_json ToJson(const EncodedStackTree& tree, absl::string_view label);
// {"function", "file", "line", "image"}; what is not known is null.
nlohmann::ordered_json ToJson(const StackFrame& frame);

// "Dataset::Get dataset.cc:88"; "?? in libfoo.so" where the function has no name.
std::string FrameText(const StackFrame& frame);

// A demangled name without parameters, template arguments, return type and anonymous namespaces:
// "ddp::Trainer::Step" of "void ddp::Trainer<float>::Step(int) const".
std::string ShortFunction(absl::string_view demangled);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_STACK_TEXT_H_
