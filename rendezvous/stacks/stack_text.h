// A tree of stacks as text for people, and as JSON. Pure.
//
//     16 main trainer.cc:210 → Trainer::Step
//     ├ 15 [0-4,6-15] trainer.cc:151 → … → ProcessGroupGloo work wait
//     └  1 [5] trainer.cc:140 → Dataset::Get dataset.cc:88 → read
//
// Each line has the number of ranks, the ranks, and their common frames, outermost first. Frames
// share a line as long as all its ranks have the same frames. If ranks are at different lines of
// one function, the function is printed once, and its lines below it. A line about all ranks does
// not list them.
#ifndef DDPRUN_RENDEZVOUS_STACKS_STACK_TEXT_H_
#define DDPRUN_RENDEZVOUS_STACKS_STACK_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

struct StackTextOptions {
  absl::string_view label = "rank";  // what the numbers mean: "rank" or "pid"
  // Frames per line; "…" replaces the middle of a longer one; 0: no limit.
  std::size_t most_in_line = 8;
  bool other_threads = true;  // also print threads other than main threads
};

// First a line for each note ("rank 5: stopped by a signal"), then the main threads, then the
// others below a heading. Ends with a newline unless it is empty.
std::string ToText(const StackTree& tree, const StackTextOptions& options);

// {"ranks": [[0, 15]], "notes": [{"rank": 5, "trouble": "stopped", "text": ...}],
//  "main": [{"function", "file", "line", "image", "count", "ranks", "frames": [...]}], "other":
//  ..., "left_out": 0}. `label` as in StackTextOptions; with "pid" the keys are "pids" and "pid".
nlohmann::ordered_json ToJson(const StackTree& tree, absl::string_view label);
// Null if `tree` is malformed.
nlohmann::ordered_json ToJson(const EncodedStackTree& tree, absl::string_view label);
// {"function", "file", "line", "image"}; unknown values are null.
nlohmann::ordered_json ToJson(const StackFrame& frame);

// "Dataset::Get dataset.cc:88"; "?? in libfoo.so" if the function has no name.
std::string FrameText(const StackFrame& frame);

// A demangled name without parameters, template arguments, return type and anonymous namespaces:
// "ddp::Trainer::Step" of "void ddp::Trainer<float>::Step(int) const".
std::string ShortFunction(absl::string_view demangled);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_STACK_TEXT_H_
