// Text from elsewhere (another machine, a worker, a file's name), made fit for one line of a log or
// a terminal. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_
#define DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// Every control character becomes a '?': those of ASCII, tab and newline too, and U+0080 to U+009F,
// which some terminals obey like ESC. All else stays as it is.
std::string Printable(absl::string_view text);

// The same for text of several lines: newlines and tabs stay.
std::string PrintableLines(absl::string_view text);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_
