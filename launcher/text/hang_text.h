// A hang as a person reads it, and as a program does: the lines of the console, and the
// files in the run's folder (launcher/agent/run/hang_files.h). Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_HANG_TEXT_H_
#define DDPRUN_LAUNCHER_TEXT_HANG_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// Where the main threads of all ranks are. At most `most_lines`; then "..." stands for the others.
std::vector<std::string> HangTreeLines(const HangStacks& hang, std::size_t most_lines);

// The verdict, then the whole tree: stacks.GENERATION.txt.
std::string HangFileText(const HangStacks& hang);

// {"job", "generation", "verdict": [lines], "missing": [hosts], "stacks": {...}}:
// stacks.GENERATION.json.
std::string HangFileJson(const HangStacks& hang, const std::string& job, Generation generation);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_HANG_TEXT_H_
