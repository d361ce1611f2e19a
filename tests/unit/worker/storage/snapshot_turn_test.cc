// Which process of a node makes snapshots: the holder of the turn. The holders are real processes.
#include "worker/src/storage/snapshot_turn.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "tests/support/ready_process.h"
#include "tests/support/temp_dir.h"

namespace ddp::internal {
namespace snapshot_turn_test {

using ddprun::ReadyProcess;
using std::chrono::milliseconds;
using std::chrono::seconds;

class SnapshotTurnTest : public testing::Test {
 protected:
  // Ends the process if the turn cannot be taken. The process has it as long as it lives.
  void TakeForEver() const {
    static SnapshotTurn turn;
    turn.In(folder_.path());
    if (!turn.Take(milliseconds(0))) ::_exit(1);
  }
  bool Take(milliseconds patience = milliseconds(0)) {
    turn_.In(folder_.path());
    return turn_.Take(patience);
  }

  ddprun::TempDir folder_;
  SnapshotTurn turn_;
};

TEST_F(SnapshotTurnTest, NobodyTakesItFromAProcessThatRuns) {
  {
    const ReadyProcess holder([this] { TakeForEver(); });
    EXPECT_FALSE(Take(milliseconds(20)));
  }
  EXPECT_TRUE(Take());
  EXPECT_TRUE(Take()) << "it has it already";
}

// A dead process whose parent has not reaped it stands for one whose memory is not free yet.
TEST_F(SnapshotTurnTest, ItIsTakenFromAProcessThatExits) {
  const ReadyProcess holder([this] { TakeForEver(); });
  holder.Kill();
  EXPECT_TRUE(Take(seconds(10)));
}

TEST_F(SnapshotTurnTest, ItIsGivenBack) {
  const ReadyProcess holder([this] {
    SnapshotTurn turn;
    turn.In(folder_.path());
    if (!turn.Take(milliseconds(0))) ::_exit(1);
  });
  EXPECT_TRUE(Take());
}

TEST_F(SnapshotTurnTest, WithoutAFolderNobodyHasIt) {
  SnapshotTurn turn;
  EXPECT_FALSE(turn.Take(milliseconds(0)));
  turn.In(folder_.path() + "/none");
  EXPECT_FALSE(turn.Take(milliseconds(0)));
}

}  // namespace snapshot_turn_test
}  // namespace ddp::internal
