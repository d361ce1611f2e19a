// The listing of a checkpoint folder takes long. The restore plan still has the newest state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/job.h"

namespace ddprun {
namespace slow_listing_test {

using testing::HasSubstr;
using testing::IsEmpty;

class SlowListingTest : public testing::Test {
 protected:
  // Node 0 holds step 10, node 1 holds step 20, each on a disk of its own.
  void SetUp() override {
    WriteCheckpoint(0, 10);
    WriteCheckpoint(1, 20);
  }
  std::string Disk(int node) const { return folder_ / ("disk" + std::to_string(node)); }
  void WriteCheckpoint(int node, int step) {
    std::filesystem::create_directories(Disk(node));
    const std::string header =
        R"({"__metadata__":{},"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
    const std::uint64_t length = header.size();
    std::ofstream file(Disk(node) + "/step-0000000000" + std::to_string(step) + ".safetensors");
    file.write(reinterpret_cast<const char*>(&length), sizeof length) << header << "1234";
  }
  Program& AddNode(int node, const std::string& join_timeout) {
    return job_.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "job", "--nnodes", "2",
                         "--node-rank", std::to_string(node), "--nproc-per-node", "1",
                         "--rdzv-conf", "join_timeout=" + join_timeout, "--checkpoint-dir",
                         Disk(node), "--", "/usr/bin/python3",
                         SourceDir() + "/tests/programs/restore_worker.py", "0", "0"});
  }
  void Hang(int node) { std::ofstream(Disk(node) + ".hangs").put('1'); }
  void Answer(int node) { std::filesystem::remove(Disk(node) + ".hangs"); }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  Job job_{folder_.path(),
           {{"LD_PRELOAD", HANG_LISTING_LIBRARY}, {"ASAN_OPTIONS", "verify_asan_link_order=0"}}};
};

// Seen red with a limit of 0.5 s for the listing: the job resumed at step 10.
TEST_F(SlowListingTest, IsWaitedForWhereItMayHoldTheNewestState) {
  Hang(1);
  Program& first = AddNode(0, "60");
  Program& slow = AddNode(1, "60");
  ASSERT_TRUE(first.WaitForErr("which has not answered yet and may hold the newest state"))
      << first.err();
  ASSERT_TRUE(slow.WaitForErr("the folder of checkpoints has not answered for 1 s: " + Disk(1)))
      << slow.err();
  Answer(1);
  EXPECT_EQ(first.ExitCode(), 0) << first.err();
  EXPECT_EQ(slow.ExitCode(), 0) << slow.err();
  EXPECT_THAT(first.out(), HasSubstr("restore 20 1 durable 0 -1"));
  EXPECT_THAT(slow.out(), HasSubstr("source has it: True"));
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_F(SlowListingTest, HoldsTheJobForTheJoinTimeoutAtMost) {
  Hang(1);
  Program& first = AddNode(0, "2");
  Program& slow = AddNode(1, "2");
  EXPECT_EQ(first.ExitCode(), 0) << first.err();
  EXPECT_EQ(slow.ExitCode(), 0) << slow.err();
  EXPECT_THAT(slow.out(), HasSubstr("restore 10 0 durable 0 -1"));
  EXPECT_THAT(daemon_.program().err(), HasSubstr("without the states of"));
}

}  // namespace slow_listing_test
}  // namespace ddprun
