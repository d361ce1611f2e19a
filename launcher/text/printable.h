// Text from elsewhere (another machine, a worker, a file's name), made fit for one line of a log or
// a terminal. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_
#define DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// A tab becomes a space, every other control character a '?': those of ASCII, the newline too, and
// U+0080 to U+009F, which some terminals obey like ESC. All else stays as it is.
std::string Printable(absl::string_view text);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_PRINTABLE_H_
