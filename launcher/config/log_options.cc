#include "launcher/config/log_options.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr std::int64_t kHighestLocalRank = 1'000'000;  // far beyond what a node can have

std::optional<Streams> ParseStreams(absl::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return std::nullopt;
  const int bits = text[0] - '0';
  return Streams{(bits & 1) != 0, (bits & 2) != 0};
}

int FormatStreams(const Streams& streams) { return (streams.out ? 1 : 0) + (streams.err ? 2 : 0); }

std::optional<int> ParseLocalRank(absl::string_view text) {
  const auto rank = ParseWholeNumber(text);
  if (!rank || *rank > kHighestLocalRank) return std::nullopt;
  return static_cast<int>(*rank);
}

// `found`: the invalid part of `text`.
absl::Status BadPart(absl::string_view found, absl::string_view text) {
  return absl::InvalidArgumentError(
      found == text ? Quoted(text) : absl::StrCat(Quoted(found), " in ", Quoted(text)));
}

Streams StreamsOf(const StreamChoice& choice, int local_rank) {
  if (const auto* all = std::get_if<Streams>(&choice)) return *all;
  const auto& by_rank = std::get<std::map<int, Streams>>(choice);
  const auto it = by_rank.find(local_rank);
  return it == by_rank.end() ? Streams{} : it->second;
}

}  // namespace

absl::StatusOr<StreamChoice> ParseStreamChoice(absl::string_view text) {
  StreamChoice choice;
  if (const auto all = ParseStreams(text)) {
    choice = *all;
    return choice;
  }
  std::map<int, Streams> by_rank;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    const auto rank = ParseLocalRank(pair.first);
    const auto streams = ParseStreams(pair.second);
    if (!rank || !streams) return BadPart(part, text);
    by_rank[*rank] = *streams;
  }
  choice = std::move(by_rank);
  return choice;
}

std::string FormatStreamChoice(const StreamChoice& choice) {
  if (const auto* all = std::get_if<Streams>(&choice)) return absl::StrCat(FormatStreams(*all));
  return absl::StrJoin(std::get<std::map<int, Streams>>(choice), ",",
                       [](std::string* out, const std::pair<const int, Streams>& entry) {
                         absl::StrAppend(out, entry.first, ":", FormatStreams(entry.second));
                       });
}

absl::StatusOr<std::set<int>> ParseLocalRanks(absl::string_view text) {
  std::set<int> ranks;
  if (text.empty()) return ranks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const auto rank = ParseLocalRank(absl::StripAsciiWhitespace(part));
    if (!rank) return BadPart(part, text);
    ranks.insert(*rank);
  }
  return ranks;
}

std::string FormatLocalRanks(const std::set<int>& ranks) { return absl::StrJoin(ranks, ","); }

Streams ShownStreams(const LogsConfig& logs, int local_rank) {
  if (!logs.local_ranks_filter.empty() && logs.local_ranks_filter.count(local_rank) == 0) return {};
  const Streams redirected = StreamsOf(logs.redirects, local_rank);
  const Streams teed = StreamsOf(logs.tee, local_rank);
  return {teed.out || !redirected.out, teed.err || !redirected.err};
}

}  // namespace ddprun
