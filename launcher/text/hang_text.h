// The texts of a hang: console lines, and the files in the run's folder for people and for programs
// (launcher/agent/run/hang_files.h). Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_HANG_TEXT_H_
#define DDPRUN_LAUNCHER_TEXT_HANG_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// The main threads' stacks of all ranks, at most `most_lines`; "..." stands for the rest.
std::vector<std::string> HangTreeLines(const HangStacks& hang, std::size_t most_lines);

// The verdict, then the whole tree: stacks.GENERATION.txt.
std::string HangFileText(const HangStacks& hang);

// {"job", "generation", "verdict": [lines], "missing": [hosts], "stacks": {...}}:
// stacks.GENERATION.json.
std::string HangFileJson(const HangStacks& hang, const std::string& job, Generation generation);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_HANG_TEXT_H_
