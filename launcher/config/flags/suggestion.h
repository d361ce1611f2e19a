// "Did you mean ...?" for names that a person mistyped. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_SUGGESTION_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_SUGGESTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun {

// The candidate nearest to `word`. A candidate is near if it begins with `word`, of at least 4
// letters, or if the two differ by at most a third of the letters of `word` (at least 1). A letter
// that is added, dropped or changed counts as one difference; so do two swapped neighbours. "": no
// candidate is near.
std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates);

// "; did you mean NAME?" with the nearest candidate, or "".
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_SUGGESTION_H_
