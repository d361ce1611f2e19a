#include "launcher/agent/process_facts.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ddprun {
namespace {

// The file, empty where it cannot be read; as long as the kernel makes such files.
std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Of the line "NAME: 123" in `text`.
std::int64_t Number(const std::string& text, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    std::int64_t value = 0;
    const absl::string_view rest = line.substr(name.size());
    if (absl::SimpleAtoi(rest, &value)) return value;
  }
  return 0;
}

struct NamedCall {
  long number;
  const char* name;
  bool of_a_file;  // its first argument is a descriptor
};

constexpr NamedCall kCalls[] = {
    {SYS_read, "read", true},
    {SYS_write, "write", true},
    {SYS_pread64, "pread64", true},
    {SYS_pwrite64, "pwrite64", true},
    {SYS_readv, "readv", true},
    {SYS_writev, "writev", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_recvfrom, "recvfrom", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_sendto, "sendto", true},
    {SYS_openat, "openat", false},
    {SYS_futex, "futex", false},
    {SYS_epoll_wait, "epoll_wait", false},
    {SYS_clock_nanosleep, "clock_nanosleep", false},
    {SYS_wait4, "wait4", false},
};

std::string DescriptorName(const std::string& folder, std::int64_t descriptor) {
  std::array<char, 256> target{};
  const std::string link = absl::StrCat(folder, "/fd/", descriptor);
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size() - 1);
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : "";
}

// "read(/data/shard-0017)", "futex", or the kernel's function where the call is not told.
std::string WaitsFor(const std::string& folder) {
  const std::string syscall = Read(folder + "/syscall");
  const std::vector<std::string> words = absl::StrSplit(syscall, ' ');
  std::int64_t number = -1;
  if (words.size() > 1 && absl::SimpleAtoi(words[0], &number)) {
    for (const NamedCall& call : kCalls) {
      if (call.number != number) continue;
      std::int64_t descriptor = 0;
      if (!call.of_a_file || !absl::SimpleHexAtoi(words[1], &descriptor)) return call.name;
      const std::string name = DescriptorName(folder, descriptor);
      return name.empty() ? call.name : absl::StrCat(call.name, "(", name, ")");
    }
  }
  const std::string function = Read(folder + "/wchan");
  return function == "0" ? "" : function;
}

}  // namespace

ProcessFacts ReadProcessFacts(pid_t pid) {
  ProcessFacts facts;
  const std::string folder = absl::StrCat("/proc/", pid);
  const std::string stat = Read(folder + "/stat");
  // The name of the program is in parentheses, and may have any character in it.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 > stat.size()) return facts;
  const std::vector<std::string> words = absl::StrSplit(stat.substr(name_end + 2), ' ');
  constexpr std::size_t kState = 0;
  constexpr std::size_t kUserTime = 11;
  constexpr std::size_t kSystemTime = 12;
  if (words.size() <= kSystemTime || words[kState].empty()) return facts;
  switch (words[kState][0]) {
    case 'T':
      facts.state = ProcessState::kStopped;
      break;
    case 't':
      facts.state = ProcessState::kTraced;
      break;
    case 'D':
      facts.state = ProcessState::kDiskWait;
      break;
    default:
      break;
  }
  if (Number(Read(folder + "/status"), "TracerPid:") != 0) facts.state = ProcessState::kTraced;
  std::int64_t user = 0;
  std::int64_t system = 0;
  if (absl::SimpleAtoi(words[kUserTime], &user) && absl::SimpleAtoi(words[kSystemTime], &system)) {
    static const long ticks = ::sysconf(_SC_CLK_TCK);
    facts.cpu = std::chrono::milliseconds((user + system) * 1000 / ticks);
  }
  const std::string io = Read(folder + "/io");
  facts.io_bytes = Number(io, "rchar:") + Number(io, "wchar:");
  const std::vector<std::string> schedule = absl::StrSplit(Read(folder + "/schedstat"), ' ');
  std::int64_t waited = 0;
  if (schedule.size() > 1 && absl::SimpleAtoi(schedule[1], &waited)) {
    facts.waited = std::chrono::nanoseconds(waited);
  }
  facts.waits_for = WaitsFor(folder);
  return facts;
}

}  // namespace ddprun
