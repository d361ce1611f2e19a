#include "launcher/stacks/system_calls.h"

#include <sys/syscall.h>

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ddprun::stacks {
namespace {

struct CallRow {
  long number;
  const char* name;
  bool has_descriptor;  // as its first argument
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

}  // namespace ddprun::stacks
