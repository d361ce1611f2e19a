#include "launcher/python/module_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ddprun {
namespace {

constexpr absl::string_view kBefore = "# Written by `ddprun python-module`, version ";
constexpr absl::string_view kBetween = ", hash ";
constexpr absl::string_view kAfter = ". A later one replaces this file unless it was edited.";

std::string Hash(absl::string_view text) {
  return absl::StrCat(absl::Hex(XXH3_64bits(text.data(), text.size()), absl::kZeroPad16));
}

// 0.10.2 is later than 0.9.
std::vector<int> Numbers(absl::string_view version) {
  std::vector<int> numbers;
  for (const absl::string_view part : absl::StrSplit(version, '.')) {
    if (!absl::SimpleAtoi(part, &numbers.emplace_back())) numbers.back() = 0;
  }
  return numbers;
}

}  // namespace

std::string PythonModuleFile(absl::string_view module, absl::string_view version) {
  return absl::StrCat(kBefore, version, kBetween, Hash(module), kAfter, "\n", module);
}

std::string WhyNotReplaced(absl::string_view content, absl::string_view version) {
  const std::size_t end = content.find('\n');
  absl::string_view line = content.substr(0, end);
  const absl::string_view rest =
      end == absl::string_view::npos ? absl::string_view() : content.substr(end + 1);
  const std::vector<absl::string_view> parts =
      absl::ConsumePrefix(&line, kBefore) && absl::ConsumeSuffix(&line, kAfter)
          ? std::vector<absl::string_view>(absl::StrSplit(line, kBetween))
          : std::vector<absl::string_view>();
  if (parts.size() != 2) return "it is not one that ddprun has written";
  if (parts[1] != Hash(rest)) return "it was edited since ddprun wrote it";
  if (Numbers(parts[0]) > Numbers(version)) {
    return absl::StrCat("it is of ddprun ", parts[0], ", which is newer than ", version);
  }
  return "";
}

}  // namespace ddprun
