#include "worker/src/agent/death_notice.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace ddp::internal {
namespace death_notice_test {

using ddprun::ProgressPage;

// Shared with a forked process.
ProgressPage* MakePage() {
  void* const memory = ::mmap(nullptr, ddprun::kProgressFileBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return static_cast<ProgressPage*>(memory);
}

// Runs `begin` in a process, kills it, and waits for its end.
void RunAndKill(const std::function<void()>& begin) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    begin();
    (void)!::write(ready[1], "r", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

bool IsMarked(const ProgressPage& page) { return (page.keeper.load() & FUTEX_OWNER_DIED) != 0; }

TEST(DeathNoticeTest, TheKernelMarksThePage) {
  ProgressPage* const page = MakePage();
  RunAndKill([page] { DeathNotice::Process().SetPage(page); });
  EXPECT_TRUE(IsMarked(*page));
}

TEST(DeathNoticeTest, OnlyTheLastPageIsMarked) {
  ProgressPage* const before = MakePage();
  ProgressPage* const page = MakePage();
  RunAndKill([=] {
    DeathNotice::Process().SetPage(before);
    DeathNotice::Process().SetPage(page);
    ::munmap(before, ddprun::kProgressFileBytes);
  });
  EXPECT_FALSE(IsMarked(*before));
  EXPECT_TRUE(IsMarked(*page));
}

TEST(DeathNoticeTest, WithoutAPageNothingIsMarked) {
  ProgressPage* const page = MakePage();
  RunAndKill([page] {
    DeathNotice::Process().SetPage(page);
    DeathNotice::Process().SetPage(nullptr);
  });
  EXPECT_FALSE(IsMarked(*page));
}

}  // namespace death_notice_test
}  // namespace ddp::internal
