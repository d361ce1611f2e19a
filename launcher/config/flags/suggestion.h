// "Did you mean ...?" for names that a person mistyped. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_SUGGESTION_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_SUGGESTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun {

// The candidate nearest to `word`: one that `word` abbreviates, or one at most a third of its
// letters away (a letter added, dropped, changed, or two neighbours swapped, counts as one).
// Empty when none is near.
std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates);

// "; did you mean NAME?" for that candidate, or "".
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_SUGGESTION_H_
