// A worker's program is on a file server that does not answer (tests/programs/hang_exec.cc). Only
// the exec of the worker hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/job.h"

namespace ddprun {
namespace hung_exec_test {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::seconds kHung{10};
constexpr std::chrono::seconds kLease{3};  // the default, with a heartbeat every second

class HungExecTest : public testing::Test {
 protected:
  // Each worker shows that it is up, and waits until the test ends it.
  void AddNode(int nodes) {
    const std::string script = ": > " + folder_ / "up.$RANK.$DDPRUN_GENERATION" +
                               "; while [ ! -e " + folder_ / "end" + " ]; do sleep 0.1; done";
    job_.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "job", "--nnodes",
                  std::to_string(nodes), "--nproc-per-node", "2", "--max-restarts", "3", "sh", "-c",
                  script});
  }
  bool IsUp(int rank, int generation) {
    return Exists("up." + std::to_string(rank) + "." + std::to_string(generation));
  }
  bool WaitForUp(int rank, int generation) {
    return WaitForChange(folder_.path(), [&] { return IsUp(rank, generation); });
  }
  // The exec of this rank's worker does not go on until Answer().
  void Hang(int rank) { Make(std::to_string(rank)); }
  bool WaitForHang(int rank) {
    return WaitForChange(folder_.path(), [&] { return Exists(std::to_string(rank) + ".hangs"); });
  }
  void Answer(int rank) { std::filesystem::remove(folder_ / std::to_string(rank)); }
  void End() { Make("end"); }
  void Make(const std::string& name) { std::ofstream(folder_ / name).put('1'); }
  bool Exists(const std::string& name) { return std::filesystem::exists(folder_ / name); }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  Job job_{folder_.path(),
           {{"LD_PRELOAD", HANG_EXEC_LIBRARY},
            {"HANG_EXEC", folder_.path()},
            {"ASAN_OPTIONS", "verify_asan_link_order=0"}}};
};

// Seen red when the guardian waited for the exec and the agent waited for the guardian: the node
// was lost.
TEST_F(HungExecTest, CostsNothingButTheWait) {
  Hang(1);
  AddNode(2);
  AddNode(2);
  ASSERT_TRUE(WaitForHang(1));
  for (const int rank : {0, 2, 3}) ASSERT_TRUE(WaitForUp(rank, 0));
  std::this_thread::sleep_for(kHung);  // the length of the hang is what is tested
  EXPECT_FALSE(IsUp(1, 0));
  Answer(1);
  EXPECT_TRUE(WaitForUp(1, 0));
  End();
  for (std::size_t i = 0; i < job_.size(); ++i) {
    EXPECT_EQ(job_.node(i).ExitCode(), 0) << job_.node(i).err();
    EXPECT_THAT(job_.node(i).err(), Not(ContainsRegex("fenced|not heard|lost|restart 1 of 3")));
  }
  EXPECT_THAT(daemon_.program().err(), Not(ContainsRegex("lost|not heard")));
}

// Seen red with a guardian that waited for the exec: rank 0 was not ended.
TEST_F(HungExecTest, DoesNotHoldTheFence) {
  Hang(1);
  AddNode(1);
  ASSERT_TRUE(WaitForHang(1));
  Program& node = job_.node(0);
  ASSERT_TRUE(WaitForUp(0, 0));
  const int running = static_cast<int>(syscall(SYS_pidfd_open, job_.Worker(0), 0));
  ASSERT_GE(running, 0);
  node.Signal(SIGSTOP);
  pollfd ended{running, POLLIN, 0};
  const int limit = static_cast<int>(std::chrono::milliseconds(kLease).count());
  EXPECT_EQ(poll(&ended, 1, limit), 1) << "the rendezvous may give its rank away by now";
  close(running);
  EXPECT_TRUE(node.WaitForErr("has not renewed its lease in time; its 2 workers are killed"));
  Answer(1);
  node.Signal(SIGCONT);
  // Rank 1 never ran in the generation that was fenced.
  EXPECT_TRUE(WaitForUp(1, 1)) << node.err();
  EXPECT_FALSE(IsUp(1, 0));
  EXPECT_THAT(node.err(), HasSubstr("fenced"));
  End();
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
}

TEST_F(HungExecTest, SigtermEndsTheJob) {
  Hang(1);
  AddNode(1);
  ASSERT_TRUE(WaitForHang(1));
  ASSERT_TRUE(WaitForUp(0, 0));
  job_.node(0).Signal(SIGTERM);
  EXPECT_EQ(job_.node(0).ExitCode(), 143) << job_.node(0).err();
  EXPECT_THAT(job_.Survivors(), testing::IsEmpty());
}

TEST_F(HungExecTest, AFailureEndsTheHungStartTooAndIsTheRootCause) {
  Hang(1);
  job_.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "job", "--nproc-per-node", "2",
                "sh", "-c", "exit 3"});
  EXPECT_EQ(job_.node(0).ExitCode(), 3) << job_.node(0).err();
  EXPECT_THAT(job_.node(0).err(), ContainsRegex("root cause: .*rank 0"));
  EXPECT_THAT(job_.Survivors(), testing::IsEmpty());
}

// Seen red with an agent that waited 20 ms for each lower rank, 3 s in total: its node was fenced.
TEST_F(HungExecTest, ManyHungStartsDoNotHoldUpTheAgentOfOneThatFails) {
  constexpr int kWorkers = 160;
  for (int rank = 0; rank + 1 < kWorkers; ++rank) Hang(rank);
  job_.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "job", "--nproc-per-node",
                std::to_string(kWorkers), folder_ / "nothing"});
  EXPECT_EQ(job_.node(0).ExitCode(), 127) << job_.node(0).err();
  EXPECT_THAT(job_.node(0).err(), ContainsRegex("root cause: .*rank 159"));
  EXPECT_THAT(job_.node(0).err(), Not(ContainsRegex("fenced|not heard|not renewed")));
  EXPECT_THAT(job_.Survivors(), testing::IsEmpty());
}

}  // namespace hung_exec_test
}  // namespace ddprun
