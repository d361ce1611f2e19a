#include "launcher/agent/worker_postmortem.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxFileBytes = 64 << 10;

// The first bytes of a file; "": it cannot be read.
std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// The file of the cgroup `path` under a mount point; "": it cannot be read. In a container the
// mount may begin at the container's cgroup or at an ancestor of it, while /proc/self/cgroup has
// the path on the host. So leading names of `path` are dropped until the file exists.
std::string FileOfCgroup(absl::string_view mount, absl::string_view path, absl::string_view file) {
  while (true) {
    std::string whole = absl::StrCat(mount, path, "/", file);
    if (access(whole.c_str(), R_OK) == 0) return whole;
    if (path.empty()) return "";
    path.remove_prefix(std::min(path.find('/', 1), path.size()));
  }
}

// True: the pids of this process are those of the kernel's log. The first PID namespace has the
// same inode on every machine (PROC_PID_INIT_INO).
bool IsFirstPidNamespace(const std::string& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error) == "pid:[4026531836]";
}

}  // namespace

std::string ReadErrorFile(const std::string& path) { return ReadSmallFile(path); }

OomProbe::OomProbe() : OomProbe(Places{}) {}

OomProbe::OomProbe(const Places& places) : events_file_(places.vmstat) {
  if (IsFirstPidNamespace(places.pid_namespace)) {
    kernel_log_.reset(open(places.kernel_log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  const std::string cgroups = ReadSmallFile(places.own_cgroups);
  for (const auto line : absl::StrSplit(cgroups, '\n')) {
    // "0::/path" is version 2, "5:memory:/path" version 1.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    std::string file;
    if (fields[0] == "0") {
      file = FileOfCgroup(places.cgroups, fields[2], "memory.events");
    } else if (fields[1] == "memory") {
      file = FileOfCgroup(places.cgroups + "/memory", fields[2], "memory.oom_control");
    }
    if (!file.empty()) events_file_ = file;
  }
  Begin();
}

void OomProbe::Begin() {
  last_count_ = Count().value_or(last_count_);
  unclaimed_ = 0;
  if (kernel_log_.valid()) lseek(kernel_log_.get(), 0, SEEK_END);
  log_lost_lines_ = false;
  named_by_log_.clear();
}

void OomProbe::Look(TimePoint now) {
  const std::int64_t count = Count().value_or(last_count_);
  if (count > last_count_) {
    unclaimed_ += count - last_count_;
    counted_at_ = now;
  } else if (now - counted_at_ > kRecent) {
    unclaimed_ = 0;  // kills of another process: a worker would have ended by now
  }
  last_count_ = count;
}

bool OomProbe::WasKilled(pid_t pid, TimePoint now) {
  Look(now);
  ReadLog();
  const bool named = named_by_log_.erase(pid) > 0;
  const bool log_decides = kernel_log_.valid() && !log_lost_lines_;
  if (!named && (log_decides || unclaimed_ == 0)) return false;
  if (unclaimed_ > 0) --unclaimed_;
  return true;
}

void OomProbe::ReadLog() {
  if (!kernel_log_.valid()) return;
  // One read is one record: "6,1234,5678,-;Out of memory: Killed process 4242 (train) ...".
  constexpr absl::string_view kWords = "Killed process ";
  char record[8192];
  while (true) {
    const ssize_t size = read(kernel_log_.get(), record, sizeof record);
    if (size < 0 &&
        errno == EPIPE) {  // the kernel has overwritten records; the next read continues
      log_lost_lines_ = true;
      continue;
    }
    if (size <= 0) return;
    absl::string_view text(record, size);
    const std::size_t at = text.find(kWords);
    if (at == absl::string_view::npos) continue;
    text.remove_prefix(at + kWords.size());
    pid_t pid = 0;
    if (absl::SimpleAtoi(text.substr(0, text.find(' ')), &pid)) named_by_log_.insert(pid);
  }
}

std::optional<std::int64_t> OomProbe::Count() const {
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
