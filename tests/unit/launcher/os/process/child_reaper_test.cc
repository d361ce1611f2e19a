#include "launcher/os/process/child_reaper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace child_reaper_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

bool Exists(pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

class ChildReaperTest : public ::testing::Test {
 protected:
  ChildReaperTest() { BecomeSubreaper(); }
  ~ChildReaperTest() override {
    EndChildren({}, seconds(10));
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);  // not for processes of other tests
  }

  // Runs the script until it has printed `count` numbers, and returns them.
  std::vector<pid_t> PidsOf(const std::string& script, std::size_t count) {
    absl::StatusOr<SpawnedProcess> process = runner_.Spawn(test::Shell(script));
    EXPECT_TRUE(process.ok()) << process.status();
    std::string text;
    EXPECT_TRUE(test::RunUntil(&loop_, [&] {
      test::ReadAvailable(process->stdout_pipe.get(), &text);
      return test::SplitLines(text).size() >= count && text.back() == '\n';
    }));
    std::vector<pid_t> pids;
    for (const std::string& line : test::SplitLines(text)) pids.push_back(std::stoi(line));
    processes_.push_back(*std::move(process));
    return pids;
  }

  EventLoop loop_;
  PosixProcessRunner runner_;
  std::vector<SpawnedProcess> processes_;
};

TEST_F(ChildReaperTest, ListsTheChildrenOfThisProcessAndNoOthers) {
  const auto pids = PidsOf("echo $$; sleep 1000 & echo $!; wait", 2);
  EXPECT_THAT(ListChildren(), ElementsAre(pids[0]));
}

TEST_F(ChildReaperTest, TheScanOfAllProcessesFindsTheSame) {
  PidsOf("echo $$; exec sleep 1000", 1);
  PidsOf("echo $$; exec sleep 1000", 1);
  EXPECT_THAT(internal::ListChildrenByScan(), UnorderedElementsAreArray(ListChildren()));
}

TEST_F(ChildReaperTest, EndsDaemonsWhateverTheyHaveLeft) {
  const auto pids = PidsOf(
      "sleep 1000 & echo $!\n"
      "setsid sh -c 'sleep 1000 & echo $!; setsid sh -c \"trap : TERM; echo \\$\\$; "
      "sleep 1000; sleep 1000\" & exit 0'\n"
      "echo $$; wait",
      4);
  ASSERT_EQ(pids.size(), 4u);
  EXPECT_THAT(EndChildren({}, seconds(10)), IsEmpty());
  for (const pid_t pid : pids) EXPECT_FALSE(Exists(pid)) << pid;
}

TEST_F(ChildReaperTest, SparesWhomItIsTold) {
  const pid_t spared = PidsOf("echo $$; exec sleep 1000", 1)[0];
  const pid_t other = PidsOf("echo $$; exec sleep 1000", 1)[0];
  EXPECT_THAT(EndChildren({spared}, seconds(10)), IsEmpty());
  EXPECT_FALSE(Exists(other));
  EXPECT_THAT(ListChildren(), ElementsAre(spared));
}

TEST_F(ChildReaperTest, LeavesAKeptChildAloneUntilItIsReleased) {
  const pid_t kept = PidsOf("echo $$; exec sleep 1000", 1)[0];
  ExcludeChild(kept);
  EXPECT_THAT(EndChildren({}, milliseconds(20)), IsEmpty());
  EXPECT_TRUE(Exists(kept));
  IncludeChild(kept);
  EXPECT_THAT(EndChildren({}, seconds(10)), IsEmpty());
  EXPECT_FALSE(Exists(kept));
}

TEST_F(ChildReaperTest, CollectsWhatHasEndedAndKillsNobody) {
  const pid_t alive = PidsOf("echo $$; exec sleep 1000", 1)[0];
  const pid_t dead = PidsOf("echo $$", 1)[0];
  const pid_t spared = PidsOf("echo $$", 1)[0];
  ASSERT_TRUE(test::RunUntilDead(&loop_, processes_[1].pidfd.get()));
  ASSERT_TRUE(test::RunUntilDead(&loop_, processes_[2].pidfd.get()));
  ReapEndedChildren({spared});
  EXPECT_THAT(ListChildren(), Not(Contains(dead)));
  EXPECT_THAT(ListChildren(), Contains(spared)) << "its exit status is somebody's business";
  EXPECT_THAT(ListChildren(), Contains(alive));
}

TEST(ParentFromStatTest, TheNameMayHoldAnything) {
  EXPECT_EQ(internal::ParentFromStat("12 (sh) S 7 12 12 0"), 7);
  EXPECT_EQ(internal::ParentFromStat("12 (a) R 99 (b) S 7 12 12 0"), 7);
  EXPECT_EQ(internal::ParentFromStat("12 (\n)) S 7 12"), 7);
  EXPECT_EQ(internal::ParentFromStat(""), -1);
  EXPECT_EQ(internal::ParentFromStat("12 (sh) "), -1);
}

}  // namespace child_reaper_test
}  // namespace ddprun
