// A state of the training exists, but a worker cannot read it. The job ends on every node with its
// own exit code and outcome, and is not started again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/job.h"

namespace ddprun {
namespace state_unreadable_test {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kFaultWorker[] = DDPRUN_BIN_DIR "/fault_worker";

// Seen red without IsUnreadableState() in OnGenerationEnded(): outcome "failed".
TEST(StateUnreadableTest, EndsTheJobOnEveryNodeWith66AndWithoutARestart) {
  const TempDir folder;
  Daemon daemon(folder.path());
  Job job(folder.path());
  for (int node = 0; node < 2; ++node) {
    job.AddNode({"--rdzv-endpoint", daemon.endpoint(), "--rdzv-id", "job", "--nnodes", "2",
                 "--nproc-per-node", "2", "--max-restarts", "3", "--store", "worker", "--report",
                 folder / ("report" + std::to_string(node)), "--", kFaultWorker, "state", "1"});
  }
  for (std::size_t node = 0; node < job.size(); ++node) {
    EXPECT_EQ(job.node(node).ExitCode(), 66) << job.node(node).err();
    EXPECT_THAT(job.node(node).err(), HasSubstr("the state of the training cannot be read"));
    EXPECT_THAT(job.node(node).err(), HasSubstr("/c/step-7.safetensors: Permission denied"));
    EXPECT_THAT(job.node(node).err(), Not(HasSubstr("restart 1 of 3")));
    const json report = json::parse(ReadFile(folder / ("report" + std::to_string(node))));
    EXPECT_EQ(report["outcome"], "state_unreadable");
    EXPECT_EQ(report["exit_code"], 66);
    EXPECT_EQ(report["restarts"], 0);
    EXPECT_EQ(report["root_cause"]["error_kind"], "state");
  }
  EXPECT_THAT(job.Survivors(), IsEmpty());
}

}  // namespace state_unreadable_test
}  // namespace ddprun
