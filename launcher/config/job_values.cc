#include "launcher/config/job_values.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/config/values.h"
#include "rendezvous/core/limits.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

// Signals that end a program by default. The first leaves a core and a stack.
constexpr absl::string_view kHangSignals[] = {"SIGABRT", "SIGQUIT", "SIGTERM", "SIGINT",
                                              "SIGUSR1", "SIGUSR2", "SIGKILL"};

std::string Range(const JobKey& key) { return absl::StrCat("from ", key.min, " to ", key.max); }

bool InRange(const JobKey& key, std::int64_t value) { return value >= key.min && value <= key.max; }

bool IsOneLine(absl::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return absl::ascii_iscntrl(c); });
}

// Stores `value` in the member of the draft, which has the type T.
template <typename T>
absl::Status Store(const JobKey& key, JobDraft* draft, T value) {
  *std::get<T*>(key.field(*draft)) = std::move(value);
  return absl::OkStatus();
}

absl::Status SetCommand(const JobKey& key, absl::string_view text, JobDraft* draft) {
  auto words = SplitCommand(text);
  if (!words.has_value() || words->empty() || words->front().empty()) {
    return UnexpectedValue(key, Quoted(text));
  }
  return Store(key, draft, *std::move(words));
}

absl::Status SetOptions(const JobKey& key, absl::string_view text, JobDraft* draft) {
  auto words = SplitCommand(text);
  if (!words.has_value()) return UnexpectedValue(key, Quoted(text));
  for (const std::string& word : *words) {
    if (!IsOption(word)) return UnexpectedValue(key, Quoted(text));
  }
  return Store(key, draft, *std::move(words));
}

absl::Status SetModules(const JobKey& key, absl::string_view text, JobDraft* draft) {
  std::vector<std::string> modules;
  for (absl::string_view name : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    name = absl::StripAsciiWhitespace(name);
    for (const absl::string_view part : absl::StrSplit(name, '.')) {
      if (!IsVariableName(part)) return UnexpectedValue(key, Quoted(text));
    }
    modules.emplace_back(name);
  }
  return Store(key, draft, std::move(modules));
}

// `value`: from ParseStreamChoice() or ParseLocalRanks().
template <typename T>
absl::Status StoreParsed(const JobKey& key, JobDraft* draft, absl::StatusOr<T> value) {
  if (!value.ok()) return UnexpectedValue(key, value.status().message());
  return Store(key, draft, *std::move(value));
}

absl::Status SetInteger(const JobKey& key, absl::string_view text, JobDraft* draft) {
  const auto value = ParseWholeNumber(text);
  if (!value || !InRange(key, *value)) return UnexpectedValue(key, Quoted(text));
  return Store(key, draft, static_cast<int>(*value));
}

absl::Status SetSize(const JobKey& key, absl::string_view text, JobDraft* draft) {
  const auto value = ParseSize(text);
  const bool fits = value && (*value == 0 || InRange(key, *value));
  return fits ? Store(key, draft, *value) : UnexpectedValue(key, Quoted(text));
}

absl::Status SetNumbers(const JobKey& key, absl::string_view text, JobDraft* draft) {
  std::vector<int> numbers;
  for (const absl::string_view item : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const auto value = ParseWholeNumber(absl::StripAsciiWhitespace(item));
    if (!value || !InRange(key, *value)) return UnexpectedValue(key, Quoted(text));
    numbers.push_back(static_cast<int>(*value));
  }
  return Store(key, draft, std::move(numbers));
}

absl::Status SetNodes(const JobKey& key, absl::string_view text, JobDraft* draft) {
  const auto nodes = ParseNodes(text);
  const bool fits = nodes && InRange(key, nodes->min) && InRange(key, nodes->max);
  return fits ? Store(key, draft, *nodes) : UnexpectedValue(key, Quoted(text));
}

bool IsNumberOr(const JobKey& key, absl::string_view text,
                std::initializer_list<absl::string_view> words) {
  const auto value = ParseWholeNumber(text);
  return (value && InRange(key, *value)) || absl::c_linear_search(words, text);
}

absl::Status SetNumberOrWord(const JobKey& key, absl::string_view text, JobDraft* draft) {
  const bool fits = key.type == KeyType::kProcesses ? IsNumberOr(key, text, {"auto", "gpu", "cpu"})
                                                    : IsNumberOr(key, text, {"auto"});
  return fits ? Store(key, draft, std::string(text)) : UnexpectedValue(key, Quoted(text));
}

absl::Status SetChoice(const JobKey& key, absl::string_view text, JobDraft* draft) {
  if (!absl::c_linear_search(key.Choices(), text)) return UnexpectedValue(key, Quoted(text));
  return Store(key, draft, std::string(text));
}

absl::Status SetDuration(const JobKey& key, absl::string_view text, JobDraft* draft) {
  const auto value = ParseDuration(text);
  if (!value || !InRange(key, value->count())) return UnexpectedValue(key, Quoted(text));
  const Field field = key.field(*draft);
  if (std::holds_alternative<milliseconds*>(field)) return Store(key, draft, *value);
  if (std::holds_alternative<Duration*>(field)) return Store(key, draft, Duration(*value));
  std::optional<Duration> unless_zero;
  if (value->count() > 0) unless_zero = *value;
  return Store(key, draft, unless_zero);
}

// "auto, restart or report"
std::string OneOf(std::vector<absl::string_view> choices) {
  const absl::string_view last = choices.back();
  choices.pop_back();
  return absl::StrCat(absl::StrJoin(choices, ", "), " or ", last);
}

// Keys of the section hang that are not plain durations.
absl::Status SetOfHangs(const JobKey& key, absl::string_view text, JobDraft* draft) {
  bool fits = false;
  if (key.type == KeyType::kHangTimeout) {
    const auto value = ParseDuration(text);
    fits = text == "auto" || text == "off" || (value && InRange(key, value->count()));
  } else {
    fits = absl::c_linear_search(kHangSignals, text);
  }
  return fits ? Store(key, draft, std::string(text)) : UnexpectedValue(key, Quoted(text));
}

absl::Status SetEndpoint(const JobKey& key, absl::string_view text, JobDraft* draft) {
  if (text.empty()) return Store(key, draft, std::string());
  auto endpoints = ParseEndpoints(text, static_cast<int>(key.min), kDefaultPort);
  const bool too_many = key.type == KeyType::kEndpoint && absl::StrContains(text, ',');
  if (!endpoints.has_value() || too_many) return UnexpectedValue(key, Quoted(text));
  return Store(key, draft, *std::move(endpoints));
}

}  // namespace

bool IsOption(absl::string_view word) {
  return word.size() >= 2 && word.front() == '-' && IsOneLine(word);
}

std::string Expected(const JobKey& key) {  // table
  switch (key.type) {
    case KeyType::kBoolean:
      return "true or false";
    case KeyType::kInteger:
      return absl::StrCat("a whole number ", Range(key));
    case KeyType::kName:
      return "1 to 128 letters, digits and _.:@+=-, with a letter, digit or _ first";
    case KeyType::kAddress:
      return "a host name or an IP address";
    case KeyType::kPath:
      return "a path";
    case KeyType::kDuration:
      return absl::StrCat("a duration with its unit, such as 500ms, 10s, 5min or 2h, from ",
                          FormatDuration(milliseconds(key.min)), " to ",
                          FormatDuration(milliseconds(key.max)));
    case KeyType::kNumbers:
      return absl::StrCat("a list of whole numbers, each ", Range(key));
    case KeyType::kEndpoint:
      return absl::StrCat("HOST:PORT, the port ", Range(key), ", such as node1:", kDefaultPort);
    case KeyType::kEndpoints:
      return absl::StrCat("HOST:PORT, the port ", Range(key), ", such as node1:", kDefaultPort,
                          "; or up to ", kMaxEndpoints, " different ones, with commas");
    case KeyType::kNodes:
      return absl::StrCat("a number of nodes N, or MIN:MAX with MIN not above MAX, ", Range(key));
    case KeyType::kProcesses:
      return absl::StrCat("a number of workers ", Range(key), ", or auto, gpu or cpu");
    case KeyType::kStandbys:
      return absl::StrCat("a number of standbys ", Range(key), ", or auto");
    case KeyType::kText:
      return "one line of text";
    case KeyType::kOptions:
      return "options, each one word that begins with a dash, such as --exclusive";
    case KeyType::kModules:
      return "names of Python modules, such as torch,numpy";
    case KeyType::kCommand:
      return "a program and its arguments: a list of strings, or one string with closed quotes";
    case KeyType::kEnvironment:
      return "a map of variable names and values";
    case KeyType::kStreams:
      return "0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one of these for each local rank, "
             "such as 0:1,1:3";
    case KeyType::kLocalRanks:
      return "local ranks, such as 0,2";
    case KeyType::kChoice:
      return OneOf(key.Choices());
    case KeyType::kHangTimeout:
      return absl::StrCat("auto, off, or a duration with its unit, such as 90s or 5min, from ",
                          FormatDuration(milliseconds(key.min)), " to ",
                          FormatDuration(milliseconds(key.max)));
    case KeyType::kSignal:
      return absl::StrCat("one of ", absl::StrJoin(kHangSignals, ", "));
    case KeyType::kSize:
      return absl::StrCat("a size with its unit, such as 512KiB, 64MiB or 1GiB, from ",
                          FormatSize(key.min), " to ", FormatSize(key.max), ", or 0");
  }
  return "";
}

absl::Status UnexpectedValue(const JobKey& key, absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", Expected(key), " (found ", found, ")"));
}

// table
absl::Status SetFromText(const JobKey& key, absl::string_view text, JobDraft* draft) {
  // The kernel would silently cut the text at a NUL.
  if (absl::StrContains(text, '\0')) return UnexpectedValue(key, Quoted(text));
  switch (key.type) {
    case KeyType::kBoolean:
      if (const auto value = ParseSwitch(text)) return Store(key, draft, *value);
      break;
    case KeyType::kInteger:
      return SetInteger(key, text, draft);
    case KeyType::kName:
      if (IsName(text)) return Store(key, draft, std::string(text));
      break;
    case KeyType::kAddress:
      if (text.empty() || IsAddress(text)) return Store(key, draft, std::string(text));
      break;
    case KeyType::kPath:
      return Store(key, draft, std::string(text));
    case KeyType::kDuration:
      return SetDuration(key, text, draft);
    case KeyType::kNumbers:
      return SetNumbers(key, text, draft);
    case KeyType::kEndpoint:
    case KeyType::kEndpoints:
      return SetEndpoint(key, text, draft);
    case KeyType::kNodes:
      return SetNodes(key, text, draft);
    case KeyType::kProcesses:
    case KeyType::kStandbys:
      return SetNumberOrWord(key, text, draft);
    case KeyType::kText:
      if (IsOneLine(text)) return Store(key, draft, std::string(text));
      break;
    case KeyType::kOptions:
      return SetOptions(key, text, draft);
    case KeyType::kModules:
      return SetModules(key, text, draft);
    case KeyType::kCommand:
      return SetCommand(key, text, draft);
    case KeyType::kStreams:
      return StoreParsed(key, draft, ParseStreamChoice(text));
    case KeyType::kLocalRanks:
      return StoreParsed(key, draft, ParseLocalRanks(text));
    case KeyType::kChoice:
      return SetChoice(key, text, draft);
    case KeyType::kHangTimeout:
    case KeyType::kSignal:
      return SetOfHangs(key, text, draft);
    case KeyType::kSize:
      return SetSize(key, text, draft);
    case KeyType::kEnvironment:
      break;
  }
  return UnexpectedValue(key, Quoted(text));
}

std::string FormatValue(const JobKey& key, const JobDraft& draft) {
  JobDraft copy = draft;  // field() returns mutable pointers
  const Field field = key.field(copy);
  if (const auto* value = std::get_if<bool*>(&field)) return **value ? "true" : "false";
  if (const auto* value = std::get_if<int*>(&field)) return absl::StrCat(**value);
  if (const auto* value = std::get_if<std::int64_t*>(&field)) return FormatSize(**value);
  if (const auto* value = std::get_if<std::string*>(&field)) return **value;
  if (const auto* value = std::get_if<milliseconds*>(&field)) return FormatDuration(**value);
  if (const auto* value = std::get_if<Duration*>(&field)) return FormatDuration(**value);
  if (const auto* value = std::get_if<std::optional<Duration>*>(&field)) {
    return FormatDuration((*value)->value_or(Duration{}));
  }
  if (const auto* value = std::get_if<NodesConfig*>(&field)) return FormatNodes(**value);
  if (const auto* value = std::get_if<std::vector<int>*>(&field)) {
    return absl::StrJoin(**value, ",");
  }
  if (const auto* value = std::get_if<std::vector<std::string>*>(&field)) {
    return absl::StrJoin(**value, ",");
  }
  if (const auto* value = std::get_if<StreamChoice*>(&field)) return FormatStreamChoice(**value);
  if (const auto* value = std::get_if<std::set<int>*>(&field)) return FormatLocalRanks(**value);
  return "";
}

}  // namespace ddprun
