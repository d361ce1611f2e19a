// Which process of a node makes snapshots. The holders are real processes.
#include "worker/src/storage/snapshot_turn.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>

#include "tests/support/temp_dir.h"

namespace ddp::internal {
namespace snapshot_turn_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SnapshotTurnTest : public testing::Test {
 protected:
  // A process that takes the turn, then calls `then`, and waits.
  pid_t Holder(const std::function<void(SnapshotTurn&)>& then = [](SnapshotTurn&) {}) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      SnapshotTurn turn;
      turn.In(folder_.path());
      const bool taken = turn.Take(milliseconds(0));
      then(turn);
      (void)!::write(ready[1], taken ? "t" : "f", 1);
      for (;;) ::pause();
    }
    char taken = 0;
    EXPECT_EQ(::read(ready[0], &taken, 1), 1);
    EXPECT_EQ(taken, 't');
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
  }
  void End(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  bool Take(milliseconds patience = milliseconds(0)) {
    turn_.In(folder_.path());
    return turn_.Take(patience);
  }

  ddprun::TempDir folder_;
  SnapshotTurn turn_;
};

TEST_F(SnapshotTurnTest, NobodyTakesItFromAProcessThatRuns) {
  const pid_t holder = Holder();
  EXPECT_FALSE(Take(milliseconds(20)));
  End(holder);
  EXPECT_TRUE(Take());
  EXPECT_TRUE(Take()) << "it has it already";
}

// A dead process whose parent has not reaped it stands for one whose memory is not free yet.
TEST_F(SnapshotTurnTest, ItIsTakenFromAProcessThatExits) {
  const pid_t holder = Holder();
  ::kill(holder, SIGKILL);
  EXPECT_TRUE(Take(seconds(10)));
  End(holder);
}

TEST_F(SnapshotTurnTest, ItIsGivenBack) {
  const pid_t holder = Holder([](SnapshotTurn& turn) { turn.~SnapshotTurn(); });
  EXPECT_TRUE(Take());
  End(holder);
}

TEST_F(SnapshotTurnTest, WithoutAFolderNobodyHasIt) {
  SnapshotTurn turn;
  EXPECT_FALSE(turn.Take(milliseconds(0)));
  turn.In(folder_.path() + "/none");
  EXPECT_FALSE(turn.Take(milliseconds(0)));
}

}  // namespace snapshot_turn_test
}  // namespace ddp::internal
