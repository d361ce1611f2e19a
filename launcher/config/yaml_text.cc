#include "launcher/config/yaml_text.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ddprun {
namespace {

// A YAML 1.1 parser does not read these as strings.
constexpr absl::string_view kNotStrings[] = {"true", "false", "yes",  "no",  "on", "off",
                                             "y",    "n",     "null", "nan", "inf"};

bool IsPlain(absl::string_view text) {
  if (text.empty() || text.back() == ':') return false;
  if (!absl::ascii_isalpha(text.front()) && text.front() != '/') return false;
  if (absl::c_linear_search(kNotStrings, absl::AsciiStrToLower(text))) return false;
  return absl::c_all_of(
      text, [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("-_./:@", c); });
}

std::string InQuotes(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (absl::ascii_iscntrl(c)) {
      absl::StrAppendFormat(&quoted, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

std::string YamlWord(absl::string_view text) {
  return IsPlain(text) ? std::string(text) : InQuotes(text);
}

std::string YamlBlock(absl::string_view text, int indent) {
  // A byte order mark is valid only at the start of a file.
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  const bool fits = !text.empty() && text.front() != '\n' && absl::c_all_of(text, [](char c) {
    return c == '\n' || c == '\t' || !absl::ascii_iscntrl(c);
  });
  if (!fits) return absl::StrCat(InQuotes(text), "\n");
  const absl::string_view lines = absl::StripSuffix(text, "\n");
  const absl::string_view end = lines.size() == text.size()   ? "-"  // none
                                : absl::EndsWith(lines, "\n") ? "+"  // several
                                                              : "";
  return absl::StrCat("|2", end, "\n", Indented(absl::StrCat(lines, "\n"), indent + 2));
}

std::string Indented(absl::string_view text, int indent) {
  const std::string spaces(indent, ' ');
  std::string result;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::StrAppend(&result, line.empty() ? "" : spaces, line, "\n");
  }
  return result;
}

}  // namespace ddprun
