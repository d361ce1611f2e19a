// Workers report failed checkpoints: where users see the reports. With real agents, and a daemon
// that is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/job.h"

namespace ddprun {
namespace failed_checkpoints_test {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kFaultWorker[] = DDPRUN_BIN_DIR "/fault_worker";

class FailedCheckpointsTest : public testing::Test {
 protected:
  Program Ask(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DdprunPath());
    arguments.insert(arguments.end(), {"--rdzv-endpoint", daemon_.endpoint()});
    return Program(arguments);
  }
  json Status() {
    Program status = Ask({"status", "job", "--json"});
    EXPECT_EQ(status.ExitCode(), 0) << status.err();
    return json::parse(status.out())["jobs"][0];
  }
  // Waits until `status` counts this many. The number arrives with heartbeats.
  json StatusWith(int failed) {
    const auto limit = std::chrono::steady_clock::now() + kHang;
    json status = Status();
    while (status["failed_checkpoints"] < failed && std::chrono::steady_clock::now() < limit) {
      status = Status();
    }
    return status;
  }
  json Report() { return json::parse(ReadFile(folder_ / "report.json")); }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  Job job_{folder_.path()};
};

TEST_F(FailedCheckpointsTest, AreCountedOnceOverGenerationsAndRestartsOfTheDaemon) {
  Program& node =
      job_.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "job", "--nproc-per-node",
                    "2", "--max-restarts", "1", "--store", "worker", "--report",
                    folder_ / "report.json", "--", kFaultWorker, "unsaved", "0"});
  ASSERT_TRUE(node.WaitForOut("unsaved")) << node.err();
  json status = StatusWith(2);
  EXPECT_EQ(status["failed_checkpoints"], 2);
  EXPECT_EQ(status["last_failed_checkpoint"]["step"], 3);
  EXPECT_EQ(status["last_failed_checkpoint"]["reason"], "read-only?[31m");
  EXPECT_EQ(status["last_failed_checkpoint"]["host"], status["nodes"][0]["host"]);

  daemon_.Kill();
  daemon_.Start();
  ASSERT_TRUE(daemon_.program().WaitForErr("is back within its lease"));
  EXPECT_EQ(StatusWith(2)["failed_checkpoints"], 2);

  kill(job_.Worker(1), SIGKILL);
  status = StatusWith(4);
  EXPECT_EQ(status["generation"], 1);
  EXPECT_EQ(status["failed_checkpoints"], 4);

  Program table = Ask({"status", "job"});
  EXPECT_EQ(table.ExitCode(), 0) << table.err();
  EXPECT_THAT(table.out(), HasSubstr("4 checkpoints failed, the last one at step 3 on "));

  Program events = Ask({"events", "job"});
  EXPECT_EQ(events.ExitCode(), 0) << events.err();
  json last;
  std::istringstream lines(events.out());
  for (std::string line; std::getline(lines, line);) {
    if (json event = json::parse(line); event["event"] == "checkpoint_failed") last = event;
  }
  EXPECT_EQ(last["failed_checkpoints"], 4) << events.out();
  EXPECT_EQ(last["generation"], 1);
  EXPECT_EQ(last["step"], 3);

  Program stop = Ask({"stop", "job"});
  EXPECT_EQ(stop.ExitCode(), 0) << stop.err();
  EXPECT_EQ(node.ExitCode(), 143) << node.err();
  EXPECT_EQ(Report()["failed_checkpoints"], 4);
  EXPECT_EQ(Report()["last_failed_checkpoint"]["step"], 3);
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

// A standalone job has no heartbeats otherwise: the count arrives with the agent's last message.
TEST_F(FailedCheckpointsTest, OfAStandaloneJobThatEndsWithThemAreInItsReport) {
  Program& node = job_.AddNode({"--store", "worker", "--report", folder_ / "report.json", "--",
                                kFaultWorker, "unsaved-exit0", "0"});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_EQ(Report()["outcome"], "succeeded");
  EXPECT_EQ(Report()["failed_checkpoints"], 2);
  EXPECT_EQ(Report()["last_failed_checkpoint"]["reason"], "read-only?[31m");
}

}  // namespace failed_checkpoints_test
}  // namespace ddprun
