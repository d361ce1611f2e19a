// Which processes of a rank the agent looks at. It does not look at a new process that has the pid
// of an ended one.
#include "launcher/agent/rank_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace ddprun {
namespace rank_processes_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Children that wait until they are killed.
class Children {
 public:
  explicit Children(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        for (;;) ::pause();
      }
      pids_.push_back(child);
    }
  }
  ~Children() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  std::vector<pid_t> pids_;
};

TEST(RankProcessesTest, TheOneThatSpeaksComesFirstAndNoneTwice) {
  const Children children(2);
  const pid_t first = children.pids()[0];
  const pid_t second = children.pids()[1];
  EXPECT_THAT(ProcessesOf(::getpid(), ::getpid(), 8), ElementsAre(::getpid(), first, second));
  EXPECT_THAT(ProcessesOf(second, ::getpid(), 8), ElementsAre(second, ::getpid(), first));
  EXPECT_THAT(ProcessesOf(second, ::getpid(), 2), SizeIs(2));
}

TEST(RankProcessesTest, EightOthersAreShownAndTheRestIsCounted) {
  const Children children(10);
  const RankProcess rank{Rank{3}, ProcessIdOf(::getpid()), ::getpid()};
  // The deadline is now: no stack is copied, and each process gets a note.
  const StackTree tree =
      TakeStacksOf({&rank, 1}, std::chrono::steady_clock::now(), stacks::StackUrgency::kAtOnce);
  std::vector<std::string> texts;
  for (const RankNote& note : tree.notes()) texts.push_back(note.text);
  EXPECT_THAT(texts, testing::Contains("of 10 other processes of it, 8 are shown"));
  EXPECT_THAT(texts, testing::Contains(HasSubstr("process ")).Times(8));
}

TEST(RankProcessesTest, AnotherProcessWithTheNumberOfOneThatEndedIsNotLookedAt) {
  const Children children(1);
  ProcessId process = ProcessIdOf(children.pids()[0]);
  EXPECT_TRUE(IsAlive(process));
  ++process.started;
  EXPECT_FALSE(IsAlive(process));
  const RankProcess rank{Rank{3}, process, process.pid};
  const StackTree tree =
      TakeStacksOf({&rank, 1}, std::chrono::steady_clock::now() + std::chrono::seconds(5),
                   stacks::StackUrgency::kAtOnce);
  ASSERT_THAT(tree.notes(), SizeIs(1));
  EXPECT_EQ(tree.notes().begin()->trouble, RankTrouble::kGone);
}

TEST(RankProcessesTest, AProcessThatHasEndedIsNotAlive) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  const ProcessId process = ProcessIdOf(child);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IsAlive(process)) << "a zombie";
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsAlive(process));
  EXPECT_EQ(ProcessIdOf(child).started, 0u);
  EXPECT_FALSE(IsAlive({child, 0}));
}

TEST(RankProcessesTest, TheNameOfAProgramMayHaveAnything) {
  const auto stat = ParseProcessStat(
      "77 (a) S ( b) T 12 77 77 0 -1 4194304 1 0 0 0 3 4 0 0 20 0 1 0 8899 10 11\n");
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->name, "a) S ( b");
  EXPECT_EQ(stat->state, 'T');
  EXPECT_EQ(stat->parent, 12);
  EXPECT_EQ(stat->started, 8899u);
  EXPECT_FALSE(ParseProcessStat("").has_value());
  EXPECT_FALSE(ParseProcessStat("77 (a) S 12").has_value());
}

}  // namespace rank_processes_test
}  // namespace ddprun
