// A disk under the log folders that does not answer for longer than the lease: agents go on.
//
// Two nodes of a job have their log folders on a file system of its own, in a file, which is frozen
// (fsfreeze) for 10 s. No node may be lost, fence itself, or cost a restart. Seen red with the
// folders made on the agent's loop: both nodes fenced themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
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
  // A file that workers wait for; not on the disk.
  std::string Flag(const std::string& name) const { return folder_ / name; }
  void Raise(const std::string& name) { std::ofstream(Flag(name)).put('1'); }
  // Shell: until the flag is there, a line each tenth of a second.
  std::string Until(const std::string& name) const {
    return "while [ ! -e " + Flag(name) + " ]; do echo still here; sleep 0.1; done; ";
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
  // Two have made their folders and wait for the third, whose logs are elsewhere.
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

}  // namespace frozen_disk_test
}  // namespace ddprun
