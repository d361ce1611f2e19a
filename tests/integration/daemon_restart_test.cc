// A rendezvous is killed while jobs run, and another one reads its journal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/job.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace daemon_restart_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Under a sanitizer a rendezvous that starts may need more than a second for its first answer.
constexpr const char* kLease =
    kUnderSanitizer ? "lease=4500ms,heartbeat=600ms" : "lease=1500ms,heartbeat=200ms";
constexpr std::chrono::milliseconds kLongerThanTheLease(kUnderSanitizer ? 9000 : 4000);

class DaemonRestartTest : public testing::Test {
 protected:
  // The lease is short, so that the daemon can be away for several leases.
  std::vector<std::string> Flags(const std::string& script, int max_restarts = 0,
                                 const std::string& conf = kLease) {
    return {"--rdzv-endpoint",
            daemon_.endpoint(),
            "--rdzv-id",
            "job",
            "--nnodes",
            "2",
            "--rdzv-conf",
            conf,
            "--max-restarts",
            std::to_string(max_restarts),
            "sh",
            "-c",
            script};
  }
  void StartTwo(const std::string& script, int max_restarts = 0, const std::string& conf = kLease) {
    for (int node = 0; node < 2; ++node) job_.AddNode(Flags(script, max_restarts, conf));
    for (int node = 0; node < 2; ++node) ASSERT_TRUE(job_.node(node).WaitForOut("up"));
  }
  // The agent of this rank knows that its worker has failed.
  void WaitForFailureOf(int rank) {
    const std::string name = std::to_string(rank);
    for (int node = 0; node < 2; ++node) {
      if (job_.node(node).out().find("[default" + name + "]:up") == std::string::npos) continue;
      ASSERT_TRUE(job_.node(node).WaitForErr("rank " + name + " (local rank 0"));
    }
  }
  std::string go() const { return folder_ / "go"; }
  std::string UntilGo() const {
    return "echo up; while [ ! -e " + go() + " ]; do sleep 0.05; done";
  }
  std::pair<pid_t, pid_t> Workers() const { return {job_.Worker(0), job_.Worker(1)}; }
  // The same workers still run, and the job succeeds in its first generation.
  void EndUndisturbed(const std::pair<pid_t, pid_t>& workers) {
    EXPECT_EQ(Workers(), workers);
    std::ofstream(go()) << "";
    for (int node = 0; node < 2; ++node) {
      EXPECT_EQ(job_.node(node).ExitCode(), 0) << job_.node(node).err();
      EXPECT_THAT(job_.node(node).err(), Not(HasSubstr("generation 1")));
    }
  }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  Job job_{folder_.path()};
};

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Not synchronization: how long the daemon is away is what is tested.
void BeAway(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

TEST_F(DaemonRestartTest, WorkersTrainOnAndNothingRestarts) {
  StartTwo(UntilGo());
  const auto workers = Workers();
  for (int times = 0; times < 3; ++times) {
    daemon_.Kill();
    BeAway(times == 0 ? kLongerThanTheLease : std::chrono::milliseconds(200));
    daemon_.Start();
    ASSERT_TRUE(daemon_.program().WaitForErr("is back within its lease"));
  }
  EndUndisturbed(workers);
}

// Five default leases: these are the lease and the heartbeat of a user who sets nothing.
TEST_F(DaemonRestartTest, FifteenSecondsOfAbsenceRestartNothing) {
  StartTwo(UntilGo(), 0, "lease=3s,heartbeat=1s");
  const auto workers = Workers();
  daemon_.Kill();
  BeAway(std::chrono::seconds(15));
  EXPECT_EQ(Workers(), workers) << job_.node(0).err() << job_.node(1).err();
  daemon_.Start();
  ASSERT_TRUE(daemon_.program().WaitForErr("is back within its lease"));
  EndUndisturbed(workers);
}

TEST_F(DaemonRestartTest, AFailureWhileItIsAwayIsHandledWhenItIsBack) {
  StartTwo(
      "[ $DDPRUN_GENERATION = 1 ] && exit 0; echo up; [ $RANK = 1 ] && "
      "while [ ! -e " +
          go() + " ]; do sleep 0.05; done && exit 3; exec sleep 1000",
      1);
  daemon_.Kill();
  WriteFile(go(), "");
  WaitForFailureOf(1);
  daemon_.Start();
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(job_.node(node).ExitCode(), 0) << job_.node(node).err();
    EXPECT_THAT(job_.node(node).err(), HasSubstr("restart 1 of 1"));
  }
}

TEST_F(DaemonRestartTest, AnAgentThatDiesMeanwhileIsMissedAfterOneLease) {
  StartTwo("[ $DDPRUN_GENERATION = 1 ] && exit 0; echo up; exec sleep 1000");
  daemon_.Kill();
  job_.node(1).Signal(SIGKILL);
  BeAway(std::chrono::milliseconds(300));
  daemon_.Start();
  ASSERT_TRUE(daemon_.program().WaitForErr("lost "));
  Program& successor = job_.AddNode(Flags("exit 0"));
  EXPECT_EQ(job_.node(0).ExitCode(), 0) << job_.node(0).err();
  EXPECT_EQ(successor.ExitCode(), 0) << successor.err();
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_F(DaemonRestartTest, AJobThatEndedWhileItWasAwayIsToldToThoseWhoComeBack) {
  StartTwo("echo up; while [ ! -e " + go() + " ]; do sleep 0.05; done; exit 5");
  daemon_.Kill();
  WriteFile(go(), "");
  for (int rank = 0; rank < 2; ++rank) WaitForFailureOf(rank);
  daemon_.Start();
  for (int node = 0; node < 2; ++node) EXPECT_EQ(job_.node(node).ExitCode(), 5);
}

TEST_F(DaemonRestartTest, AJournalInUseAndOneThatIsDamagedAreNamed) {
  const std::string state = folder_ / "state";
  Program second({DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0", "--state-dir", state});
  EXPECT_EQ(second.ExitCode(), 69);
  EXPECT_THAT(second.err(), HasSubstr(state));
  StartTwo("echo up; exit 0");
  for (int node = 0; node < 2; ++node) EXPECT_EQ(job_.node(node).ExitCode(), 0);
  daemon_.Kill();
  std::string journal = ReadFile(state + "/journal");
  journal[journal.size() / 3] ^= 1;
  WriteFile(state + "/journal", journal);
  Program damaged({DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0", "--state-dir", state});
  EXPECT_EQ(damaged.ExitCode(), 65) << damaged.err();
  EXPECT_THAT(damaged.err(), HasSubstr(state + "/journal"));
  EXPECT_THAT(damaged.err(), HasSubstr("damaged at byte "));
}

}  // namespace daemon_restart_test
}  // namespace ddprun
