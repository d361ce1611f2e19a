#include "launcher/agent/usage/process_use.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/stacks/process_facts.h"

namespace ddprun {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// The number of the line "NAME: 123".
std::int64_t NumberOf(std::string_view text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(View(text), '\n')) {
    std::int64_t value = 0;
    if (absl::ConsumePrefix(&line, name) && absl::SimpleAtoi(line, &value)) return value;
  }
  return 0;
}

}  // namespace

Use operator+(const Use& a, const Use& b) {
  return {a.cpu + b.cpu, a.read_bytes + b.read_bytes, a.written_bytes + b.written_bytes,
          a.resident_bytes + b.resident_bytes};
}

std::optional<ProcessUse> ParseProcessUse(pid_t pid, std::string_view stat, std::string_view io,
                                          std::int64_t ticks_per_second, std::int64_t page_bytes) {
  // The program's name is in parentheses and may contain any character.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 > stat.size()) return std::nullopt;
  const std::vector<absl::string_view> words = absl::StrSplit(View(stat.substr(name_end + 2)), ' ');
  // Field numbers of proc(5), minus the three fields that are not in `words`.
  constexpr std::size_t kUserTime = 11;
  constexpr std::size_t kSystemTime = 12;
  constexpr std::size_t kStarted = 19;
  constexpr std::size_t kResidentPages = 21;
  std::int64_t user = 0;
  std::int64_t system = 0;
  std::int64_t pages = 0;
  ProcessUse use{{pid, 0}, {}};
  if (words.size() <= kResidentPages || !absl::SimpleAtoi(words[kUserTime], &user) ||
      !absl::SimpleAtoi(words[kSystemTime], &system) ||
      !absl::SimpleAtoi(words[kStarted], &use.process.started) ||
      !absl::SimpleAtoi(words[kResidentPages], &pages)) {
    return std::nullopt;
  }
  use.use.cpu = std::chrono::milliseconds((user + system) * 1000 / ticks_per_second);
  use.use.resident_bytes = pages * page_bytes;
  use.use.read_bytes = NumberOf(io, "rchar:");
  use.use.written_bytes = NumberOf(io, "wchar:");
  return use;
}

std::optional<ProcessUse> ReadProcessUse(pid_t pid) {
  static const std::int64_t ticks = sysconf(_SC_CLK_TCK);
  static const std::int64_t page = sysconf(_SC_PAGESIZE);
  return ParseProcessUse(pid, stacks::ReadProc(absl::StrCat("/proc/", pid, "/stat")),
                         stacks::ReadProc(absl::StrCat("/proc/", pid, "/io")), ticks, page);
}

}  // namespace ddprun
