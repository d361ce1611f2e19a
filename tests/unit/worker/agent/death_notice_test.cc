#include "worker/src/agent/death_notice.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "tests/support/ready_process.h"

namespace ddp::internal {
namespace death_notice_test {

using ddprun::ProgressPage;
using ddprun::ReadyProcess;

// Shared with a forked process.
ProgressPage* MakePage() {
  void* const memory = ::mmap(nullptr, ddprun::kProgressFileBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return static_cast<ProgressPage*>(memory);
}

bool IsMarked(const ProgressPage& page) { return (page.keeper.load() & FUTEX_OWNER_DIED) != 0; }

TEST(DeathNoticeTest, TheKernelMarksThePage) {
  ProgressPage* const page = MakePage();
  {
    const ReadyProcess dies([page] { DeathNotice::Process().SetPage(page); });
  }
  EXPECT_TRUE(IsMarked(*page));
}

TEST(DeathNoticeTest, OnlyTheLastPageIsMarked) {
  ProgressPage* const before = MakePage();
  ProgressPage* const page = MakePage();
  {
    const ReadyProcess dies([=] {
      DeathNotice::Process().SetPage(before);
      DeathNotice::Process().SetPage(page);
      ::munmap(before, ddprun::kProgressFileBytes);
    });
  }
  EXPECT_FALSE(IsMarked(*before));
  EXPECT_TRUE(IsMarked(*page));
}

TEST(DeathNoticeTest, WithoutAPageNothingIsMarked) {
  ProgressPage* const page = MakePage();
  {
    const ReadyProcess dies([page] {
      DeathNotice::Process().SetPage(page);
      DeathNotice::Process().SetPage(nullptr);
    });
  }
  EXPECT_FALSE(IsMarked(*page));
}

}  // namespace death_notice_test
}  // namespace ddp::internal
