#include "launcher/agent/worker_postmortem.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxFileBytes = 64 << 10;

// The beginning of a file, or "".
std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::string ReadErrorFile(const std::string& path) { return ReadSmallFile(path); }

OomProbe::OomProbe(const std::string& root, const std::string& own_cgroups,
                   const std::string& kernel_log, const std::string& vmstat)
    : kernel_log_(open(kernel_log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  const std::string cgroups = ReadSmallFile(own_cgroups);
  for (const auto line : absl::StrSplit(cgroups, '\n')) {
    // "0::/path" is version 2, "5:memory:/path" version 1.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    std::string file;
    if (fields[0] == "0") {
      file = absl::StrCat(root, fields[2], "/memory.events");
    } else if (fields[1] == "memory") {
      file = absl::StrCat(root, "/memory", fields[2], "/memory.oom_control");
    }
    if (!file.empty() && access(file.c_str(), R_OK) == 0) events_file_ = file;
  }
  if (events_file_.empty() && !kernel_log_.valid()) events_file_ = vmstat;
  last_count_ = Count().value_or(0);
  if (kernel_log_.valid()) lseek(kernel_log_.get(), 0, SEEK_END);
}

bool OomProbe::WasKilled(pid_t pid) {
  bool in_log = false;
  if (kernel_log_.valid()) {
    // One read is one record: "6,1234,5678,-;Out of memory: Killed process 4242 (train) ...".
    const std::string words = absl::StrCat("Killed process ", pid, " ");
    char record[8192];
    for (ssize_t size; (size = read(kernel_log_.get(), record, sizeof record)) > 0;) {
      in_log = in_log || absl::StrContains(absl::string_view(record, size), words);
    }
  }
  const std::int64_t count = Count().value_or(last_count_);
  const bool counted = count > last_count_;
  last_count_ = count;
  return in_log || counted;
}

std::optional<std::int64_t> OomProbe::Count() const {
  if (events_file_.empty()) return std::nullopt;
  const std::string events = ReadSmallFile(events_file_);
  for (const auto line : absl::StrSplit(events, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    std::int64_t count = 0;
    if (fields.size() == 2 && fields[0] == "oom_kill" && absl::SimpleAtoi(fields[1], &count)) {
      return count;
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
