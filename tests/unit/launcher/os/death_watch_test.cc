// Real processes that mark a progress page, and die.
#include "launcher/os/death_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "launcher/os/process/process_id.h"
#include "launcher/os/progress_page_file.h"
#include "tests/unit/launcher/os/marked_process.h"

namespace ddprun {
namespace death_watch_test {

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
  process.Kill();
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
  one.Kill();
  loop_.Run();
  zero.Kill();
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
  first.Kill();
  watch_.Watch(page->descriptor(), [&] { loop_.Quit(); });
  second.Kill();
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
