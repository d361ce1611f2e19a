// Agents continue although the disk of the log folders does not answer for longer than the lease.
//
// The two nodes of a job have their log folders on a file system of their own (in a file), which is
// frozen (fsfreeze) for 10 s. No node may be lost, fence its workers, or cost a restart. Seen red
// when the agent made the folders on its event loop: both nodes fenced their workers. Another test
// has the agent's stderr on the frozen disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"
#include "tests/support/loop_disk.h"

namespace ddprun {
namespace frozen_disk_test {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::seconds kFrozen{10};

class FrozenDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForMounts());
    disk_.emplace(folder_.path());
    ASSERT_EQ(disk_->why_not(), "");
    job_.emplace(disk_->path());
  }

  std::vector<std::string> Flags(int nodes, const std::string& script) {
    return {"--rdzv-endpoint",
            daemon_.endpoint(),
            "--rdzv-id",
            "job",
            "--nnodes",
            std::to_string(nodes),
            "--nproc-per-node",
            "2",
            "--max-restarts",
            "3",
            "sh",
            "-c",
            script};
  }
  // A file that workers wait for. It is not on the frozen disk.
  std::string Flag(const std::string& name) const { return folder_ / name; }
  void Raise(const std::string& name) { std::ofstream(Flag(name)).put('1'); }
  // Shell code: prints a line every tenth of a second until the flag exists.
  std::string Until(const std::string& name) const {
    return "while [ ! -e " + Flag(name) + " ]; do echo still here; sleep 0.1; done; ";
  }

  static bool HasEndedWithin10Seconds(int pid) {
    const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    pollfd ended{process, POLLIN, 0};
    const bool has_ended = process < 0 || poll(&ended, 1, 10'000) == 1;
    close(process);
    return has_ended;
  }

  void FreezeFor10Seconds() {
    disk_->Freeze();
    std::this_thread::sleep_for(kFrozen);  // how long it is frozen is what is tested
    disk_->Thaw();
  }

  void ExpectNoHarm(int restarts) {
    const std::string restarted = restarts == 0 ? "restart 1 of 3" : "restart 2 of 3";
    for (std::size_t i = 0; i < job_->size(); ++i) {
      EXPECT_EQ(job_->node(i).ExitCode(), 0) << job_->node(i).err();
      EXPECT_THAT(job_->node(i).err(), Not(ContainsRegex("fenced|not heard|lost")));
      EXPECT_THAT(job_->node(i).err(), Not(HasSubstr(restarted)));
    }
    EXPECT_THAT(daemon_.program().err(), Not(ContainsRegex("lost|not heard")));
  }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  std::optional<LoopDisk> disk_;
  std::optional<Job> job_;
};

TEST_F(FrozenDiskTest, WhileAJobStarts) {
  // Two nodes have made their folders and wait for the third node, whose logs are on another disk.
  job_->AddNode(Flags(3, "exit 0"));
  job_->AddNode(Flags(3, "exit 0"));
  for (const std::size_t node : {0, 1}) {
    ASSERT_TRUE(job_->node(node).WaitForErr("waiting for 1 node")) << job_->node(node).err();
  }
  disk_->Freeze();
  Job third(folder_.path());
  third.AddNode(Flags(3, "exit 0"));
  std::this_thread::sleep_for(kFrozen);  // how long it is frozen is what is tested
  disk_->Thaw();
  ExpectNoHarm(0);
  EXPECT_EQ(third.node(0).ExitCode(), 0) << third.node(0).err();
}

TEST_F(FrozenDiskTest, WhileAJobRuns) {
  const std::string script = "echo up; " + Until("end");
  job_->AddNode(Flags(2, script));
  job_->AddNode(Flags(2, script));
  for (const std::size_t node : {0, 1}) ASSERT_TRUE(job_->node(node).WaitForOut("up"));
  FreezeFor10Seconds();
  Raise("end");
  ExpectNoHarm(0);
}

TEST_F(FrozenDiskTest, WhileAJobStartsAgain) {
  const std::string script =
      "echo up; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 3 ] && { " +
      Until("fail") + " exit 3; }; exec sleep 1000";
  job_->AddNode(Flags(2, script));
  job_->AddNode(Flags(2, script));
  for (const std::size_t node : {0, 1}) ASSERT_TRUE(job_->node(node).WaitForOut("up"));
  disk_->Freeze();
  Raise("fail");
  std::this_thread::sleep_for(kFrozen);  // how long it is frozen is what is tested
  disk_->Thaw();
  ExpectNoHarm(1);
  for (const std::size_t node : {0, 1}) {
    EXPECT_THAT(job_->node(node).err(), HasSubstr("restart 1 of 3"));
  }
}

// Seen red with a guardian that wrote to stderr on its only thread: the agent waited 10 s for the
// guardian's answer, gave up, and left the job with exit code 70.
TEST_F(FrozenDiskTest, UnderStderrWhenTheGuardianKeepsTheFence) {
  const std::string script =
      "echo $$ > " + Flag("pid.$RANK.$DDPRUN_GENERATION") + "; " + Until("end");
  std::vector<std::string> argv = {
      "sh",        "-c",        "exec \"$@\" 2> " + disk_->path() + "/err", "sh", DdprunPath(),
      "--log-dir", Flag("logs")};
  for (const std::string& argument : Flags(1, script)) argv.push_back(argument);
  Program node(argv);
  const auto pid_of = [&](int rank, int generation) {
    const std::string name = "pid." + std::to_string(rank) + "." + std::to_string(generation);
    return std::atoi(ReadFile(Flag(name)).c_str());
  };
  const auto wait_for_both = [&](int generation) {
    return WaitForChange(folder_.path(),
                         [&] { return pid_of(0, generation) > 0 && pid_of(1, generation) > 0; });
  };
  ASSERT_TRUE(wait_for_both(0));
  disk_->Freeze();
  node.Signal(SIGSTOP);
  for (const int rank : {0, 1}) ASSERT_TRUE(HasEndedWithin10Seconds(pid_of(rank, 0)));
  node.Signal(SIGCONT);
  EXPECT_TRUE(wait_for_both(1)) << "while the disk is frozen";
  disk_->Thaw();
  Raise("end");
  EXPECT_EQ(node.ExitCode(), 0);
  const std::string err = ReadFile(disk_->path() + "/err");
  EXPECT_THAT(err, HasSubstr("has not renewed its lease in time; its 2 workers are killed"));
  EXPECT_THAT(err, HasSubstr("fenced"));
}

}  // namespace frozen_disk_test
}  // namespace ddprun
