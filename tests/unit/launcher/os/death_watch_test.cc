// Real processes that mark a progress page, and die.
#include "launcher/os/death_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "launcher/os/process/process_id.h"
#include "launcher/os/progress_page_file.h"
#include "worker/contract/progress_page.h"

namespace ddprun {
namespace death_watch_test {

using testing::IsEmpty;

// Memory of its own makes the process exit slowly.
constexpr std::size_t kMemory = std::size_t{64} << 20;

// A process whose second thread holds the page's word, like a worker of the library.
class MarkedProcess {
 public:
  explicit MarkedProcess(int page_fd) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      std::vector<char> memory(kMemory, 'x');
      auto* const page = static_cast<ProgressPage*>(
          ::mmap(nullptr, kProgressFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0));
      std::thread([page, ready = pipe[1]] {
        static robust_list_head head;
        auto* const entry = reinterpret_cast<robust_list*>(&page->keeper_list);
        head.list.next = entry;
        entry->next = &head.list;
        head.futex_offset = static_cast<long>(offsetof(ProgressPage, keeper)) -
                            static_cast<long>(offsetof(ProgressPage, keeper_list));
        ::syscall(SYS_set_robust_list, &head, sizeof(head));
        page->keeper.store(static_cast<std::uint32_t>(::gettid()) | FUTEX_WAITERS);
        (void)!::write(ready, "r", 1);
        for (;;) ::pause();
      }).detach();
      for (;;) ::pause();
    }
    char ready = 0;
    EXPECT_EQ(::read(pipe[0], &ready, 1), 1);
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  ~MarkedProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

class DeathWatchTest : public testing::Test {
 protected:
  EventLoop loop_;
  DeathWatch watch_{&loop_};
};

TEST_F(DeathWatchTest, AKilledProcessIsReportedOnceWithTheStatusThatItWillHave) {
  auto page = ProgressPageFile::Make();
  ASSERT_TRUE(page.ok());
  const MarkedProcess process(page->descriptor());
  int reports = 0;
  std::optional<ExitStatus> status;
  watch_.Watch(page->descriptor(), [&] {
    ++reports;
    // Its threads begin to exit one after the other.
    while (!status) status = StatusOfExiting(process.pid());
    loop_.Quit();
  });
  EXPECT_EQ(StatusOfExiting(process.pid()), std::nullopt) << "it lives";
  ::kill(process.pid(), SIGKILL);
  loop_.Run();
  EXPECT_EQ(status->signal, SIGKILL);
  loop_.Post([this] { loop_.Quit(); });
  loop_.Run();
  EXPECT_EQ(reports, 1);
}

TEST_F(DeathWatchTest, EachOfSeveralIsReported) {
  auto page0 = ProgressPageFile::Make();
  auto page1 = ProgressPageFile::Make();
  const MarkedProcess zero(page0->descriptor());
  const MarkedProcess one(page1->descriptor());
  std::vector<int> dying;
  const auto tell = [&](int which) {
    dying.push_back(which);
    loop_.Quit();
  };
  watch_.Watch(page0->descriptor(), [&] { tell(0); });
  watch_.Watch(page1->descriptor(), [&] { tell(1); });
  ::kill(one.pid(), SIGKILL);
  loop_.Run();
  ::kill(zero.pid(), SIGKILL);
  loop_.Run();
  EXPECT_THAT(dying, testing::ElementsAre(1, 0));
}

TEST_F(DeathWatchTest, APageThatIsForgottenIsNotReported) {
  auto forgotten = ProgressPageFile::Make();
  auto page = ProgressPageFile::Make();
  const MarkedProcess first(forgotten->descriptor());
  const MarkedProcess second(page->descriptor());
  bool told = false;
  watch_.Watch(forgotten->descriptor(), [&] { told = true; });
  watch_.Clear();
  ::kill(first.pid(), SIGKILL);
  watch_.Watch(page->descriptor(), [&] { loop_.Quit(); });
  ::kill(second.pid(), SIGKILL);
  loop_.Run();
  EXPECT_FALSE(told);
}

TEST_F(DeathWatchTest, AProcessThatDiedBeforeItWasWatchedIsReported) {
  auto page = ProgressPageFile::Make();
  { const MarkedProcess process(page->descriptor()); }
  bool told = false;
  watch_.Watch(page->descriptor(), [&] {
    told = true;
    loop_.Quit();
  });
  loop_.Run();
  EXPECT_TRUE(told);
}

TEST(StatusOfExitingTest, AProcessThatRunsOrEndedWellHasNone) {
  EXPECT_EQ(StatusOfExiting(::getpid()), std::nullopt);
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(StatusOfExiting(pid), std::nullopt);
  ::waitpid(pid, nullptr, 0);
}

TEST(StatusOfExitingTest, ItIsTheOneThatWaitReturns) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(7);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  const auto status = StatusOfExiting(pid);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 7);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace death_watch_test
}  // namespace ddprun
