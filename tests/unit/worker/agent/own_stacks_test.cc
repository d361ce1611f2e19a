#include "worker/src/agent/own_stacks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "worker/contract/own_stacks.h"

namespace ddp::internal {
namespace own_stacks_test {

using ddprun::kStackSignal;
using ddprun::StackRecord;

constexpr std::uint64_t kRequest = 7 * ddprun::kStackSlots + 2;

// The handler's memfd in this process; −1: none.
int StacksFd() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (target.find(ddprun::kStacksFile) != std::string::npos) {
      return std::stoi(entry.path().filename());
    }
  }
  return -1;
}

off_t SizeOf(int fd) {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 ? info.st_size : -1;
}

void Ask(std::uint64_t request, int code = SI_QUEUE) {
  siginfo_t info = {};
  info.si_signo = kStackSignal;
  info.si_code = code;
  info.si_value.sival_ptr = reinterpret_cast<void*>(request);
  ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), kStackSignal, &info);
}

// Each test runs in a process of its own, because the handler is installed once and stays.
void InChild(const std::function<void()>& test) {
  const auto run = [&] {
    test();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(OwnStacksTest, TheThreadThatIsAskedWritesItsRegistersAndItsStack) {
  InChild([] {
    WriteOwnStacksOnSignal();
    const int fd = StacksFd();
    ASSERT_GE(fd, 0);
    volatile std::uint64_t marker[2] = {0x1234567812345678, 0x8765432187654321};
    Ask(kRequest);
    const off_t at = 2 * static_cast<off_t>(ddprun::kStackSlotBytes);
    StackRecord record = {};
    ASSERT_EQ(::pread(fd, &record, sizeof(record), at), static_cast<ssize_t>(sizeof(record)));
    EXPECT_EQ(record.request, kRequest);
    EXPECT_GE(record.register_count, 17u);
    const auto here = reinterpret_cast<std::uintptr_t>(&marker);
    ASSERT_LT(record.stack_start, here);
    ASSERT_GE(record.stack_start + record.stack_bytes, here + sizeof(marker));
    std::uint64_t copy = 0;
    const off_t offset = static_cast<off_t>(here - record.stack_start);
    ASSERT_EQ(::pread(fd, &copy, sizeof(copy),
                      at + static_cast<off_t>(ddprun::kStackRecordBytes) + offset),
              static_cast<ssize_t>(sizeof(copy)));
    EXPECT_EQ(copy, marker[0]);
  });
}

TEST(OwnStacksTest, ASignalThatIsNoReadersWritesNothing) {
  InChild([] {
    WriteOwnStacksOnSignal();
    ::raise(kStackSignal);
    Ask(0);
    Ask(kRequest, SI_MESGQ);
    EXPECT_EQ(SizeOf(StacksFd()), 0);
  });
}

TEST(OwnStacksTest, ASignalThatTheProgramHandlesStaysTheirs) {
  InChild([] {
    ::signal(kStackSignal, [](int) { ::_exit(0); });
    WriteOwnStacksOnSignal();
    EXPECT_EQ(StacksFd(), -1);
    ::raise(kStackSignal);
    FAIL() << "the program's handler did not run";
  });
}

// Seen red without the comparison of the inode.
TEST(OwnStacksTest, AFileThatHasGotItsDescriptorIsNotWrittenTo) {
  InChild([] {
    WriteOwnStacksOnSignal();
    const int fd = StacksFd();
    const int other = ::memfd_create("the program's own", 0);
    ASSERT_EQ(::dup2(other, fd), fd);
    Ask(kRequest);
    EXPECT_EQ(SizeOf(other), 0);
    ::close(fd);
    errno = EXDEV;
    Ask(kRequest);
    EXPECT_EQ(errno, EXDEV);
  });
}

// Seen red without the check of the limit: SIGXFSZ ended the process.
TEST(OwnStacksTest, ALimitOfTheProgramForFilesEndsNothing) {
  InChild([] {
    WriteOwnStacksOnSignal();
    const rlimit limit = {4096, RLIM_INFINITY};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    Ask(kRequest);
    EXPECT_EQ(SizeOf(StacksFd()), 0);
  });
}

TEST(OwnStacksTest, TheHandlerRunsOnAnAlternateStack) {
  InChild([] {
    WriteOwnStacksOnSignal();
    stack_t stack = {};
    ASSERT_EQ(::sigaltstack(nullptr, &stack), 0);
    EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0);
    struct sigaction action = {};
    ASSERT_EQ(::sigaction(kStackSignal, nullptr, &action), 0);
    EXPECT_NE(action.sa_flags & SA_ONSTACK, 0);
    EXPECT_NE(action.sa_flags & SA_RESTART, 0);
  });
}

}  // namespace own_stacks_test
}  // namespace ddp::internal
