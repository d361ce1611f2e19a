#include "launcher/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const ReportContext kContext{"exp7", "n1", "/logs/exp7_x"};

Verdict Failed() {
  WorkerFailure failure;
  failure.host = "n2";
  failure.node_rank = NodeRank{1};
  failure.generation = Generation{3};
  failure.exit.rank = Rank{5};
  failure.exit.local_rank = LocalRank{1};
  failure.exit.pid = 4242;
  failure.exit.status = ExitStatus{0, SIGSEGV, true};
  failure.exit.step = 120;
  failure.exit.stderr_tail = {"first", "last"};
  return {"failed", 139, "no restart is left (3 of 3 used)", 3, failure};
}

TEST(ReportTest, NamesTheRootCauseAndItsLastWords) {
  EXPECT_THAT(
      DescribeVerdict(Failed(), kContext),
      ElementsAre("root cause: rank 5 (local rank 1, pid 4242) on n2: SIGSEGV (core dumped) after "
                  "step 120 (generation 3)",
                  "the last lines of its stderr:", "    first", "    last",
                  "job exp7 failed: no restart is left (3 of 3 used)",
                  "exit code 139; logs of n1 in /logs/exp7_x"));
}

TEST(ReportTest, SaysNothingAboutAJobWithoutTrouble) {
  EXPECT_THAT(DescribeVerdict({"succeeded", 0, "", 0, {}}, kContext), IsEmpty());
  EXPECT_THAT(DescribeVerdict({"succeeded", 0, "", 2, {}}, kContext),
              ElementsAre("job exp7 succeeded after 2 restarts"));
}

TEST(ReportTest, JsonHoldsWhatAScriptNeeds) {
  const auto json = nlohmann::json::parse(VerdictToJson(Failed(), kContext));
  EXPECT_EQ(json["outcome"], "failed");
  EXPECT_EQ(json["exit_code"], 139);
  EXPECT_EQ(json["restarts"], 3);
  EXPECT_EQ(json["root_cause"]["signal"], "SIGSEGV");
  EXPECT_TRUE(json["root_cause"]["exit_code"].is_null());
  EXPECT_EQ(json["root_cause"]["core_dumped"], true);
  EXPECT_EQ(json["root_cause"]["step"], 120);
}

TEST(ReportTest, JsonIsValidWhateverTheWorkerPrinted) {
  Verdict verdict = Failed();
  verdict.root_cause->exit.stderr_tail = {std::string("\xff\x00\"x", 4)};
  const auto json = nlohmann::json::parse(VerdictToJson(verdict, kContext));
  EXPECT_EQ(json["root_cause"]["stderr_tail"].size(), 1u);
}

}  // namespace
}  // namespace ddprun
