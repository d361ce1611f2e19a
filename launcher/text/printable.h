// Makes untrusted text (from another machine, a worker, a file name) safe for one line of a log or
// terminal. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_
#define DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// Replaces every control character by '?': the ASCII ones, including tab and newline, and U+0080 to
// U+009F, which some terminals interpret like ESC sequences.
std::string Printable(absl::string_view text);

// The same, but keeps newlines and tabs.
std::string PrintableLines(absl::string_view text);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_
