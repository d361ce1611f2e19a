#include "launcher/config/flags/suggestion.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ddprun {
namespace {

// Optimal string alignment distance, one full table: names are short.
std::size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestName = 64;  // longer words are not typing errors
  if (word.size() < 2 || word.size() > kLongestName) return "";
  std::string nearest;
  std::size_t best = 0;
  for (const std::string& candidate : candidates) {
    std::size_t distance = Distance(word, candidate);
    if (word.size() >= 4 && absl::StartsWith(candidate, word)) distance = 1;
    if (distance > std::max<std::size_t>(1, word.size() / 3)) continue;
    if (nearest.empty() || distance < best) {
      nearest = candidate;
      best = distance;
    }
  }
  return nearest;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(word, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

}  // namespace ddprun
