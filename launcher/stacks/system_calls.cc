#include "launcher/stacks/system_calls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace ddprun::stacks {
namespace {

struct CallRow {
  long number;
  const char* name;
  bool has_descriptor;  // the first argument is a descriptor
};

constexpr CallRow kCalls[] = {
    {SYS_read, "read", true},
    {SYS_write, "write", true},
    {SYS_pread64, "pread64", true},
    {SYS_pwrite64, "pwrite64", true},
    {SYS_readv, "readv", true},
    {SYS_writev, "writev", true},
    {SYS_preadv, "preadv", true},
    {SYS_pwritev, "pwritev", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_sync_file_range, "sync_file_range", true},
    {SYS_ftruncate, "ftruncate", true},
    {SYS_fallocate, "fallocate", true},
    {SYS_flock, "flock", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_fstat, "fstat", true},
    {SYS_getdents64, "getdents64", true},
    {SYS_close, "close", true},
    {SYS_recvfrom, "recvfrom", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_sendto, "sendto", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_connect, "connect", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept4", true},
    {SYS_copy_file_range, "copy_file_range", true},
    {SYS_epoll_pwait, "epoll_wait", false},
    {SYS_ppoll, "poll", false},
    {SYS_pselect6, "select", false},
    {SYS_futex, "futex", false},
    {SYS_nanosleep, "nanosleep", false},
    {SYS_clock_nanosleep, "clock_nanosleep", false},
    {SYS_wait4, "wait4", false},
    {SYS_waitid, "waitid", false},
    {SYS_openat, "openat", false},
    {SYS_renameat2, "rename", false},
    {SYS_unlinkat, "unlink", false},
    {SYS_mmap, "mmap", false},
    {SYS_munmap, "munmap", false},
    {SYS_msync, "msync", false},
    {SYS_sync, "sync", false},
    {SYS_restart_syscall, "a call that goes on", false},
#ifdef __x86_64__
    {SYS_open, "open", false},
    {SYS_stat, "stat", false},
    {SYS_rename, "rename", false},
    {SYS_unlink, "unlink", false},
    {SYS_poll, "poll", false},
    {SYS_select, "select", false},
    {SYS_epoll_wait, "epoll_wait", false},
    {SYS_pause, "pause", false},
    {SYS_vfork, "vfork", false},
#endif
};

// Columns of proc_net_tcp(5).
constexpr std::size_t kRemote = 2;
constexpr std::size_t kInode = 9;
constexpr std::size_t kResentColumn = 6;
constexpr std::size_t kProbesColumn = 8;  // named "timeout"

}  // namespace

std::optional<WaitingCall> ParseWaitingCall(std::string_view text) {
  const std::vector<std::string> words =
      absl::StrSplit(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())), ' ');
  long number = -1;
  if (!absl::SimpleAtoi(words.front(), &number) || number < 0) return std::nullopt;
  for (const CallRow& row : kCalls) {
    if (row.number != number) continue;
    WaitingCall call{row.name, -1};
    std::uint64_t argument;
    if (row.has_descriptor && words.size() > 1 && absl::SimpleHexAtoi(words[1], &argument)) {
      call.descriptor = static_cast<int>(argument);
    }
    return call;
  }
  return WaitingCall{absl::StrCat("system call ", number), -1};
}

// "0100007F:7148": 32-bit words in host byte order, then the port.
std::string TcpAddress(std::string_view text) {
  constexpr std::size_t kWordDigits = 8;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ':');
  const absl::string_view digits = parts.front();
  std::uint32_t port = 0;
  if (parts.size() != 2 || !absl::SimpleHexAtoi(parts[1], &port) || port == 0) return "";
  std::array<std::uint32_t, 4> words{};
  const std::size_t count = digits.size() / kWordDigits;
  if (digits.size() % kWordDigits != 0 || (count != 1 && count != words.size())) return "";
  for (std::size_t i = 0; i < count; ++i) {
    if (!absl::SimpleHexAtoi(digits.substr(i * kWordDigits, kWordDigits), &words[i])) return "";
  }
  in6_addr v6;
  std::memcpy(&v6, words.data(), sizeof(v6));
  const bool mapped = count > 1 && IN6_IS_ADDR_V4MAPPED(&v6);
  char name[INET6_ADDRSTRLEN] = "";
  if (count > 1 && !mapped) {
    ::inet_ntop(AF_INET6, &v6, name, sizeof(name));
    return absl::StrCat("[", name, "]:", port);
  }
  ::inet_ntop(AF_INET, mapped ? &words[3] : words.data(), name, sizeof(name));
  return absl::StrCat(name, ":", port);
}

std::string PeerInTable(std::string_view table, std::string_view inode) {
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(table.data(), table.size()), '\n')) {
    const std::vector<absl::string_view> columns =
        absl::StrSplit(line, absl::ByAnyChar(" "), absl::SkipWhitespace());
    if (columns.size() <= kInode ||
        columns[kInode] != absl::string_view(inode.data(), inode.size()))
      continue;
    const absl::string_view remote = columns[kRemote];
    return TcpAddress(std::string_view(remote.data(), remote.size()));
  }
  return "";
}

std::vector<UnansweredPeer> UnansweredInTable(std::string_view table,
                                              const std::set<std::string>& inodes) {
  std::vector<UnansweredPeer> peers;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(table.data(), table.size()), '\n')) {
    const std::vector<absl::string_view> columns =
        absl::StrSplit(line, ' ', absl::SkipWhitespace());
    int resent = 0;
    int probes = 0;
    if (columns.size() <= kInode || !inodes.contains(std::string(columns[kInode])) ||
        !absl::SimpleHexAtoi(columns[kResentColumn], &resent) ||
        !absl::SimpleAtoi(columns[kProbesColumn], &probes) || resent + probes == 0) {
      continue;
    }
    const absl::string_view remote = columns[kRemote];
    peers.push_back(
        {TcpAddress(std::string_view(remote.data(), remote.size())), std::max(resent, probes)});
  }
  return peers;
}

}  // namespace ddprun::stacks
