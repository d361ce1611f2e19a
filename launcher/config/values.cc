#include "launcher/config/values.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

struct Unit {
  absl::string_view name;
  std::int64_t factor;
};

// Largest first.
constexpr Unit kUnits[] = {{"h", 3'600'000}, {"min", 60'000}, {"s", 1'000}, {"ms", 1}};
constexpr Unit kSizeUnits[] = {
    {"TiB", std::int64_t{1} << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}};

// Parses a whole number with a unit; the result is in the smallest unit.
std::optional<std::int64_t> ParseWithUnit(absl::string_view text, absl::Span<const Unit> units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::optional<std::int64_t> number = ParseWholeNumber(text.substr(0, digits));
  if (!number.has_value()) return std::nullopt;
  const absl::string_view suffix = text.substr(digits);
  if (suffix.empty() && *number == 0) return 0;
  for (const Unit& unit : units) {
    if (suffix != unit.name) continue;
    if (*number > std::numeric_limits<std::int64_t>::max() / unit.factor) return std::nullopt;
    return *number * unit.factor;
  }
  return std::nullopt;
}

bool IsHost(absl::string_view text, bool ipv6) {
  if (text.empty() || text.size() > kMaxHostBytes) return false;
  return std::all_of(text.begin(), text.end(), [ipv6](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' ||
           (ipv6 && (c == ':' || c == '%'));
  });
}

// Removes one word from the front of `text`, which must not start with white space.
std::optional<std::string> TakeWord(absl::string_view* text) {
  std::string word;
  char quote = 0;
  while (!text->empty()) {
    char c = text->front();
    if (quote == 0 && absl::ascii_isspace(c)) break;
    text->remove_prefix(1);
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      const bool escapes =
          c == '\\' && (quote == 0 || (quote == '"' && !text->empty() &&
                                       (text->front() == '"' || text->front() == '\\')));
      if (escapes) {
        if (text->empty()) return std::nullopt;
        c = text->front();
        text->remove_prefix(1);
      }
      word.push_back(c);
    }
  }
  if (quote != 0) return std::nullopt;
  return word;
}

}  // namespace

std::optional<std::int64_t> ParseWholeNumber(absl::string_view text) {
  if (text.empty() || !absl::ascii_isdigit(text.front())) return std::nullopt;
  std::int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

std::optional<bool> ParseSwitch(absl::string_view text) {
  for (const absl::string_view word : {"true", "yes", "on", "1"}) {
    if (absl::EqualsIgnoreCase(text, word)) return true;
  }
  for (const absl::string_view word : {"false", "no", "off", "0"}) {
    if (absl::EqualsIgnoreCase(text, word)) return false;
  }
  return std::nullopt;
}

std::optional<milliseconds> ParseDuration(absl::string_view text) {
  const auto count = ParseWithUnit(text, kUnits);
  if (!count.has_value()) return std::nullopt;
  return milliseconds(*count);
}

std::string FormatDuration(std::chrono::nanoseconds duration) {
  const std::int64_t count = std::chrono::duration_cast<milliseconds>(duration).count();
  if (count == 0) return "0s";
  for (const Unit& unit : kUnits) {
    if (count % unit.factor == 0) return absl::StrCat(count / unit.factor, unit.name);
  }
  return absl::StrCat(count, "ms");
}

std::optional<std::int64_t> ParseSize(absl::string_view text) {
  return ParseWithUnit(text, kSizeUnits);
}

std::string FormatSize(std::int64_t bytes) {
  if (bytes == 0) return "0";
  for (const Unit& unit : kSizeUnits) {
    if (bytes % unit.factor == 0) return absl::StrCat(bytes / unit.factor, unit.name);
  }
  return absl::StrCat(bytes);
}

std::optional<NodesConfig> ParseNodes(absl::string_view text) {
  const std::size_t colon = text.find(':');
  const auto min = ParseWholeNumber(text.substr(0, colon));
  const auto max =
      colon == absl::string_view::npos ? min : ParseWholeNumber(text.substr(colon + 1));
  if (!min.has_value() || !max.has_value() || *min > *max) return std::nullopt;
  if (*max > std::numeric_limits<int>::max()) return std::nullopt;
  return NodesConfig{static_cast<int>(*min), static_cast<int>(*max)};
}

std::string FormatNodes(const NodesConfig& nodes) {
  return nodes.min == nodes.max ? absl::StrCat(nodes.min) : absl::StrCat(nodes.min, ":", nodes.max);
}

std::optional<Endpoint> ParseEndpoint(absl::string_view text, int min_port,
                                      std::optional<int> default_port) {
  const bool bracketed = absl::StartsWith(text, "[");
  absl::string_view host;
  absl::string_view port;
  if (bracketed) {
    const std::size_t close = text.find(']');
    if (close == absl::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!IsHost(host, bracketed)) return std::nullopt;
  if (port.empty()) {
    if (!default_port.has_value()) return std::nullopt;
    return Endpoint{std::string(host), *default_port};
  }
  if (port.front() != ':') return std::nullopt;
  const auto number = ParseWholeNumber(port.substr(1));
  if (!number.has_value() || *number < min_port || *number > kMaxPort) return std::nullopt;
  return Endpoint{std::string(host), static_cast<int>(*number)};
}

std::string FormatEndpoint(const Endpoint& endpoint) {
  const bool ipv6 = absl::StrContains(endpoint.host, ":");
  return absl::StrCat(ipv6 ? "[" : "", endpoint.host, ipv6 ? "]:" : ":", endpoint.port);
}

std::optional<std::string> ParseEndpoints(absl::string_view text, int min_port,
                                          std::optional<int> default_port) {
  std::vector<std::string> endpoints;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const auto endpoint = ParseEndpoint(absl::StripAsciiWhitespace(part), min_port, default_port);
    if (!endpoint.has_value()) return std::nullopt;
    endpoints.push_back(FormatEndpoint(*endpoint));
    const bool twice =
        std::find(endpoints.begin(), endpoints.end() - 1, endpoints.back()) != endpoints.end() - 1;
    if (twice || endpoints.size() > kMaxEndpoints) return std::nullopt;
  }
  return absl::StrJoin(endpoints, ",");
}

std::vector<std::string> SplitEndpoints(absl::string_view endpoints) {
  if (absl::StartsWith(endpoints, "unix:")) return {std::string(endpoints)};
  return absl::StrSplit(endpoints, ',', absl::SkipEmpty());
}

std::optional<std::vector<std::string>> SplitCommand(absl::string_view text) {
  std::vector<std::string> words;
  while (true) {
    text = absl::StripLeadingAsciiWhitespace(text);
    if (text.empty()) return words;
    std::optional<std::string> word = TakeWord(&text);
    if (!word.has_value()) return std::nullopt;
    words.push_back(*std::move(word));
  }
}

bool IsName(absl::string_view text) {
  constexpr std::size_t kLongestName = 128;
  if (text.empty() || text.size() > kLongestName) return false;
  if (!absl::ascii_isalnum(text.front()) && text.front() != '_') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("_.:@+=-", c);
  });
}

bool IsAddress(absl::string_view text) {
  // A single colon means host:port, not IPv6.
  const auto colons = std::count(text.begin(), text.end(), ':');
  return colons != 1 && IsHost(text, /*ipv6=*/colons > 1);
}

bool IsVariableName(absl::string_view text) {
  if (text.empty() || absl::ascii_isdigit(text.front())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

std::string Quoted(absl::string_view text) {
  constexpr std::size_t kLongest = 80;
  const bool cut = text.size() > kLongest;
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, kLongest)), cut ? "..." : "",
                      "\"");
}

}  // namespace ddprun
