// Finds entries of a folder that are named by a word and a number, as kernel and drivers do:
// nvidia0, node1, index3.
#ifndef DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMBERED_ENTRIES_H_
#define DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMBERED_ENTRIES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun {

// Parses decimal digits. nullopt: anything else, or too large.
std::optional<int> NumberOf(absl::string_view text);

// The numbers N of the entries `prefix`N in `folder`, ascending; empty if there is no folder.
std::vector<int> Numbered(const std::string& folder, absl::string_view prefix);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMBERED_ENTRIES_H_
