// What the Supervisor does while a disk does not answer. Each test is about one wait for the disk,
// and was seen to fail without this wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/launcher/core/supervisor_driver.h"

namespace ddprun {
namespace supervisor_disk_test {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr ExitStatus kTerminated{0, SIGTERM, false};
constexpr ExitStatus kFailed{3, 0, false};

// The generation is started, but no worker runs, because the disk has not made the folders yet.
SupervisorDriver Waiting() {
  SupervisorDriver node;
  node.Freeze();
  node.Run();
  return node;
}

TEST(SupervisorDiskTest, WorkersStartOnceTheirFoldersAreThere) {
  SupervisorDriver node;
  node.Freeze();
  node.Assign(0);
  node.Start(0);
  EXPECT_THAT(node.Take(), ElementsAre("g-1-> Join", "g0-> AssignmentAck"));
  node.Thaw();
  EXPECT_THAT(node.Take(), ElementsAre("Spawn g0"));
}

TEST(SupervisorDiskTest, HeartbeatsGoOnAndKeepTheLease) {
  SupervisorDriver node = Waiting();
  node.Live(seconds(60), /*answered=*/true);
  EXPECT_GE(node.heartbeats().size(), 59u);
  node.Thaw();
  EXPECT_THAT(node.Take(), ElementsAre("Spawn g0"));
}

TEST(SupervisorDiskTest, NothingStartsWhenTheLeaseIsOver) {
  SupervisorDriver node = Waiting();
  node.Live(seconds(26), /*answered=*/false);
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Join", "g0-> AssignmentAck", "g0-> Stopped"));
  node.Thaw();
  EXPECT_THAT(node.Take(), IsEmpty());
}

TEST(SupervisorDiskTest, AStopNeedNotWait) {
  SupervisorDriver node = Waiting();
  node.Stop(0);
  EXPECT_THAT(node.Take(), ElementsAre("g0-> Stopped"));
  node.Thaw();
  EXPECT_THAT(node.Take(), IsEmpty());
}

TEST(SupervisorDiskTest, TheFoldersOfAnEarlierGenerationStartNothing) {
  SupervisorDriver node;
  node.Freeze();
  node.Assign(0);
  node.Assign(1);
  node.Start(1);
  node.Take();
  node.Step(Supervisor::FoldersReady{Generation{0}, LocalRank{0}, ""});
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Step(Supervisor::FoldersReady{Generation{1}, LocalRank{0}, ""});
  EXPECT_THAT(node.Take(), ElementsAre("Spawn g1"));
}

TEST(SupervisorDiskTest, AFolderThatCannotBeMadeIsAWorkerThatDidNotStart) {
  SupervisorDriver node;
  node.FailFolderOf(1);
  node.Run();
  EXPECT_EQ(node.last_exit().rank, Rank{3});
  EXPECT_EQ(node.last_exit().status, ExitStatus{126});
  EXPECT_EQ(node.last_exit().error_text, "cannot make the folder f");
  EXPECT_EQ(node.supervisor().state(), SupervisorState::kJoining);
}

TEST(SupervisorDiskTest, TheErrorFileTellsWhatTheWorkerDidNot) {
  SupervisorDriver node;
  node.LeaveErrorFile("ValueError: no");
  node.Run();
  node.End(0, kFailed);
  EXPECT_EQ(node.last_exit().error_text, "ValueError: no");
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 2 exit code 3", "SIGTERM to 1"));
}

TEST(SupervisorDiskTest, TheErrorFileIsReadAlsoWhereTheWorkerHasSaidWhatIsWrong) {
  SupervisorDriver node;
  node.LeaveErrorFile("of the file");
  node.Run();
  node.Step(Supervisor::ErrorReported{LocalRank{1}, "user", "its own words"});
  node.Freeze();
  node.End(1, kFailed);
  EXPECT_THAT(node.Take(), IsEmpty()) << "the launcher copies it";
  node.Thaw();
  EXPECT_EQ(node.last_exit().error_text, "its own words");
}

TEST(SupervisorDiskTest, FailuresAreReportedInTheirOrder) {
  SupervisorDriver node;
  node.Run();
  node.Step(Supervisor::ErrorReported{LocalRank{1}, "user", "its own words"});
  node.Freeze();
  node.End(0, kFailed);
  node.End(1, kFailed);
  EXPECT_THAT(node.Take(), IsEmpty());
  node.Thaw();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 2 exit code 3",
                                       "g0-> WorkerExited 3 exit code 3", "g0-> Stopped"));
}

TEST(SupervisorDiskTest, AStopWaitsForTheReportOfAWorkerThatHasFailed) {
  SupervisorDriver node;
  node.Run();
  node.Freeze();
  node.End(0, kFailed);
  node.Stop(0);
  node.End(1, kTerminated);
  EXPECT_THAT(node.Take(), ElementsAre("SIGTERM to 1"));
  node.Thaw();
  EXPECT_THAT(node.Take(), ElementsAre("g0-> WorkerExited 2 exit code 3", "g0-> Stopped"));
}

TEST(SupervisorDiskTest, AnAnswerThatComesTooLateIsIgnored) {
  SupervisorDriver node;
  node.Run();
  node.End(0, kFailed);
  node.Take();
  node.Step(Supervisor::ErrorFileRead{Generation{0}, LocalRank{0}, "late"});
  EXPECT_THAT(node.Take(), IsEmpty());
}

}  // namespace supervisor_disk_test
}  // namespace ddprun
