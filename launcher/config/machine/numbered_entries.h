// Entries of a folder whose names are a word and a number, as the kernel and drivers name them:
// nvidia0, node1, index3.
#ifndef DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMBERED_ENTRIES_H_
#define DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMBERED_ENTRIES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun {

// Decimal digits alone, of a number that fits.
std::optional<int> NumberOf(absl::string_view text);

// The numbers N of the entries `prefix`N in `folder`, in order; empty where there is no folder.
std::vector<int> Numbered(const std::string& folder, absl::string_view prefix);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMBERED_ENTRIES_H_
