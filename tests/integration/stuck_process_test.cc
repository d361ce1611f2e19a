// SIGKILL does not end a worker that writes to a frozen file system (fsfreeze). Its node is left
// out until the thaw, and the other node continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"
#include "tests/support/loop_disk.h"

namespace ddprun {
namespace stuck_process_test {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Json = nlohmann::json;

class StuckProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForMounts());
    disk_.emplace(folder_.path());
    ASSERT_EQ(disk_->why_not(), "");
  }

  // In generation 0 rank 1 writes to the disk on request, and rank 0 fails on request.
  void AddNode(const std::string& nodes) {
    const std::string script = "echo generation $DDPRUN_GENERATION of $GROUP_WORLD_SIZE; " +
                               std::string("if [ $DDPRUN_GENERATION$RANK = 01 ]; then ") +
                               Until("write") + "echo x > " + disk_->path() + "/file; fi; " +
                               "if [ $DDPRUN_GENERATION$RANK = 00 ]; then " + Until("fail") +
                               "exit 3; fi; " + Until("end");
    job_.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "job", "--nnodes", nodes,
                  "--max-restarts", "3", "--stop-grace", "100ms", "sh", "-c", script});
  }
  std::string Until(const std::string& flag) const {
    return "while [ ! -e " + folder_ / flag + " ]; do sleep 0.05; done; ";
  }
  void Raise(const std::string& flag) { std::ofstream(folder_ / flag).put('1'); }

  // Two nodes run, and SIGKILL does not end rank 1. Sets `stuck_`, `healthy_` and `worker_`.
  void StickRank1(const std::string& nodes) {
    AddNode(nodes);
    AddNode(nodes);
    for (const std::size_t node : {0, 1}) {
      ASSERT_TRUE(job_.node(node).WaitForOut("generation 0 of 2")) << job_.node(node).err();
    }
    stuck_ = job_.node(0).out().find("[default1]:") == std::string::npos ? 1 : 0;
    healthy_ = 1 - stuck_;
    worker_ = job_.Worker(1);
    ASSERT_GT(worker_, 0);
    disk_->Freeze();
    Raise("write");
    ASSERT_TRUE(WaitForDiskWait(worker_));
    Raise("fail");
    ASSERT_TRUE(job_.node(stuck_).WaitForErr(Named() + " is still there"))
        << job_.node(stuck_).err();
  }
  std::string Named() const { return "rank 1 (pid " + std::to_string(worker_) + ")"; }
  // Polls, because nothing announces it.
  static bool WaitForDiskWait(pid_t pid) {
    const auto deadline = std::chrono::steady_clock::now() + kHang;
    while (std::chrono::steady_clock::now() < deadline) {
      const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
      if (stat.find(") D ") != std::string::npos) return true;
      poll(nullptr, 0, 5);
    }
    return false;
  }

  std::string Ddprun(std::vector<std::string> argv) {
    argv.insert(argv.begin(), DdprunPath());
    argv.insert(argv.end(), {"--rdzv-endpoint", daemon_.endpoint()});
    Program program(argv);
    EXPECT_EQ(program.ExitCode(), 0) << program.err();
    return program.out();
  }
  // The node that `status` shows as held back; null if there is none.
  Json HeldBack() {
    const Json status = Json::parse(Ddprun({"status", "job", "--json"}));
    for (const Json& node : status["jobs"][0]["nodes"]) {
      if (!node["stuck"].empty()) return node;
    }
    return nullptr;
  }
  void ExpectHeldBack() {
    const Json node = HeldBack();
    ASSERT_FALSE(node.is_null());
    EXPECT_THAT(node["state"].get<std::string>(),
                AllOf(HasSubstr("held back: " + Named() + " is still there "),
                      ContainsRegex(" s after SIGKILL, in disk wait \\(D\\), in ")));
    EXPECT_EQ(node["stuck"][0]["pid"], worker_);
    EXPECT_EQ(node["stuck"][0]["rank"], 1);
  }
  void EndInGeneration(const std::string& generation) {
    for (const std::size_t node : {0, 1}) {
      EXPECT_TRUE(job_.node(node).WaitForOut("generation " + generation + " of 2"))
          << job_.node(node).err();
    }
    EXPECT_TRUE(HeldBack().is_null());
    Raise("end");
    for (const std::size_t node : {0, 1}) {
      EXPECT_EQ(job_.node(node).ExitCode(), 0) << job_.node(node).err();
      EXPECT_THAT(job_.node(node).err(), Not(ContainsRegex("fenced|not heard")));
    }
    EXPECT_THAT(job_.Survivors(), IsEmpty());
  }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  std::optional<LoopDisk> disk_;
  Job job_{folder_.path()};
  std::size_t stuck_ = 0;  // the node of rank 1
  std::size_t healthy_ = 0;
  pid_t worker_ = 0;  // rank 1
};

TEST_F(StuckProcessTest, ItsNodeIsLeftOutUntilTheThaw) {
  StickRank1("1:2");
  EXPECT_TRUE(job_.node(healthy_).WaitForOut("generation 1 of 1")) << job_.node(healthy_).err();
  EXPECT_TRUE(job_.node(stuck_).WaitForErr("is left out of the job until its processes are gone"));
  ExpectHeldBack();
  disk_->Thaw();
  EXPECT_TRUE(job_.node(stuck_).WaitForErr("process " + std::to_string(worker_) + " is gone"));
  EndInGeneration("2");
  const std::string events = Ddprun({"events", "job"});
  EXPECT_THAT(events, ContainsRegex("\"event\":\"stuck\",\"host\":\".*\",\"reason\":\"rank 1"));
  EXPECT_THAT(events, HasSubstr("\"event\":\"admitted\""));
}

TEST_F(StuckProcessTest, ARendezvousThatIsStartedAgainLeavesItOutAsWell) {
  StickRank1("1:2");
  EXPECT_TRUE(job_.node(healthy_).WaitForOut("generation 1 of 1")) << job_.node(healthy_).err();
  daemon_.Kill();
  daemon_.Start();
  EXPECT_TRUE(daemon_.program().WaitForErr("is left out of the job until its processes are gone"));
  ExpectHeldBack();
  EXPECT_THAT(job_.node(healthy_).out(), Not(HasSubstr("generation 2")));
  disk_->Thaw();
  EndInGeneration("2");
}

TEST_F(StuckProcessTest, WhereTheNodeIsNeededTheJobWaitsAndSaysForWhom) {
  StickRank1("2");
  EXPECT_TRUE(job_.node(healthy_).WaitForErr("admitted when its processes are gone: "))
      << job_.node(healthy_).err();
  EXPECT_THAT(job_.node(healthy_).err(), AllOf(HasSubstr(Named() + " is still there "),
                                               HasSubstr("without enough nodes the job ends in ")));
  ExpectHeldBack();
  disk_->Thaw();
  EndInGeneration("1");
}

}  // namespace stuck_process_test
}  // namespace ddprun
