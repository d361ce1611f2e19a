#include "launcher/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "rendezvous/stacks/stack_tree.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace report_test {

using testing::ElementsAre;
using testing::IsEmpty;

const ReportContext kContext{"exp7", "n1", "/logs/exp7_x"};

WorkerFailure Failure(int rank, ExitStatus status) {
  WorkerFailure failure;
  failure.host = "n2";
  failure.node_rank = NodeRank{1};
  failure.generation = Generation{3};
  failure.exit.rank = Rank{rank};
  failure.exit.local_rank = LocalRank{1};
  failure.exit.pid = 4242;
  failure.exit.status = status;
  return failure;
}

Verdict Failed() {
  Verdict verdict;
  verdict.outcome = Outcome::kFailed;
  verdict.exit_code = 139;
  verdict.reason = "no restart is left (3 of 3 used)";
  verdict.restarts_used = 3;
  RootCause cause;
  cause.failure = Failure(5, ExitStatus{0, SIGSEGV, true});
  cause.failure.exit.step = 120;
  cause.failure.exit.ended_at_ms = 1'700'000'000'123;
  cause.failure.exit.stderr_tail = {"first", "last"};
  cause.victims = {Failure(4, ExitStatus{1, 0, false})};
  verdict.restart_times = {{Generation{3}, 2, true, {{"stop", 2100}, {"round", 900}}}};
  cause.victims[0].exit.error_kind = "collective";
  verdict.root_cause = cause;
  return verdict;
}

Verdict Succeeded(int restarts) {
  Verdict verdict;
  verdict.outcome = Outcome::kSucceeded;
  verdict.restarts_used = restarts;
  for (int i = 0; i < restarts; ++i) {
    RootCause cause;
    cause.kind = RootCause::Kind::kNodeLost;
    cause.failure.host = "n7";
    cause.failure.generation = Generation{i};
    cause.reason = "its agent was killed";
    verdict.earlier.push_back(cause);
  }
  return verdict;
}

TEST(ReportTest, NamesTheRootCauseAndItsLastWords) {
  EXPECT_THAT(
      DescribeVerdict(Failed(), kContext),
      ElementsAre("root cause: rank 5 (local rank 1, pid 4242) on n2: SIGSEGV (core dumped) after "
                  "step 120 (generation 3, at 2023-11-14T22:13:20.123Z)",
                  "the last lines of its stderr:", "    first", "    last",
                  "victims, not the cause: rank 4 on n2 (exit code 1)",
                  "job exp7 failed: no restart is left (3 of 3 used)",
                  "exit code 139; logs of n1 in /logs/exp7_x"));
}

TEST(ReportTest, ShowsTheTracebackInTheErrorFileOfTheRootCause) {
  Verdict verdict = Failed();
  verdict.error_file = R"({"message": {"message": "ValueError: no",
      "extraInfo": {"py_callstack": "Traceback:\n  line 3\nValueError: no\n"}}})";
  EXPECT_THAT(DescribeVerdict(verdict, kContext),
              testing::IsSupersetOf({"what it left in its error file:", "    Traceback:",
                                     "      line 3", "    ValueError: no"}));
}

TEST(CopyErrorFileTest, WritesWhatTheRootCauseLeftWithItsExitCode) {
  TempDir folder;
  const std::string path = folder / "error.json";
  Verdict verdict = Failed();
  ASSERT_TRUE(CopyErrorFile(path, verdict).ok());
  EXPECT_FALSE(std::ifstream(path).good()) << "it left nothing";
  verdict.error_file = R"({"message": {"message": "ValueError: no"}})";
  ASSERT_TRUE(CopyErrorFile(path, verdict).ok());
  const auto json = nlohmann::json::parse(std::ifstream(path));
  EXPECT_EQ(json["message"]["message"], "ValueError: no");
  EXPECT_EQ(json["message"]["errorCode"], -SIGSEGV);
}

TEST(ReportTest, SaysNothingAboutAJobWithoutTrouble) {
  EXPECT_THAT(DescribeVerdict(Succeeded(0), kContext), IsEmpty());
  EXPECT_THAT(DescribeVerdict(Succeeded(1), kContext),
              ElementsAre("generation 0 ended: n7 was lost: its agent was killed",
                          "job exp7 succeeded after 1 restart"));
}

TEST(DescribeVerdictTest, AJobWithoutANameIsNotCalledNone) {
  ReportContext context = kContext;
  context.job = "none";
  const Verdict verdict = Verdict::OfAgent(Outcome::kLeft, 143, "SIGTERM");
  EXPECT_THAT(DescribeVerdict(verdict, context), testing::Contains("the job left: SIGTERM"));
  EXPECT_THAT(VerdictToJson(verdict, context), testing::HasSubstr("\"job\": \"none\""));
}

TEST(ReportTest, JsonHoldsWhatAScriptNeeds) {
  const auto json = nlohmann::json::parse(VerdictToJson(Failed(), kContext));
  EXPECT_EQ(json["outcome"], "failed");
  EXPECT_EQ(json["exit_code"], 139);
  EXPECT_EQ(json["restarts"], 3);
  EXPECT_EQ(json["restart_times"][0]["generation"], 3);
  EXPECT_EQ(json["restart_times"][0]["total_ms"], 3.0);
  EXPECT_EQ(json["restart_times"][0]["phases_ms"]["stop"], 2.1);
  EXPECT_EQ(json["root_cause"]["signal"], "SIGSEGV");
  EXPECT_TRUE(json["root_cause"]["exit_code"].is_null());
  EXPECT_EQ(json["root_cause"]["core_dumped"], true);
  EXPECT_EQ(json["root_cause"]["step"], 120);
  EXPECT_EQ(json["root_cause"]["kind"], "worker_failed");
  EXPECT_EQ(json["root_cause"]["time"], "2023-11-14T22:13:20.123Z");
  ASSERT_EQ(json["root_cause"]["victims"].size(), 1u);
  EXPECT_EQ(json["root_cause"]["victims"][0]["rank"], 4);
  EXPECT_EQ(json["root_cause"]["victims"][0]["why"],
            "its collective failed after rank 5 had ended");
}

TEST(ReportTest, JsonTellsWhatTheLastGenerationBeganWith) {
  Verdict verdict = Succeeded(0);
  const auto restore = [&] {
    return nlohmann::json::parse(VerdictToJson(verdict, kContext))["restore"];
  };
  EXPECT_TRUE(restore().is_null()) << "there was no plan";
  verdict.restore = RestorePlan{};
  EXPECT_EQ(restore(), nlohmann::json({{"step", 0}, {"tier", "none"}}));
  verdict.restore = RestorePlan{SavedState{1, Generation{3}, 1200, Tier::kMemory}, Rank{2}, "n2"};
  EXPECT_EQ(restore(), nlohmann::json({{"step", 1200},
                                       {"epoch", 1},
                                       {"generation", 3},
                                       {"tier", "memory"},
                                       {"rank", 2},
                                       {"host", "n2"}}));
}

TEST(ReportTest, JsonCountsTheCheckpointsThatFailed) {
  auto json = nlohmann::json::parse(VerdictToJson(Succeeded(0), kContext));
  EXPECT_EQ(json["failed_checkpoints"], 0);
  EXPECT_TRUE(json["last_failed_checkpoint"].is_null());
  Verdict verdict = Succeeded(0);
  verdict.failed_checkpoints = {3, 120, "disk full", "n2"};
  json = nlohmann::json::parse(VerdictToJson(verdict, kContext));
  EXPECT_EQ(json["failed_checkpoints"], 3);
  EXPECT_EQ(json["last_failed_checkpoint"]["step"], 120);
  EXPECT_EQ(json["last_failed_checkpoint"]["host"], "n2");
  EXPECT_EQ(json["last_failed_checkpoint"]["reason"], "disk full");
}

TEST(ReportTest, JsonTellsTheCausesOfEarlierGenerations) {
  const auto json = nlohmann::json::parse(VerdictToJson(Succeeded(2), kContext));
  EXPECT_TRUE(json["root_cause"].is_null());
  ASSERT_EQ(json["earlier_generations"].size(), 2u);
  EXPECT_EQ(json["earlier_generations"][1]["kind"], "node_lost");
  EXPECT_EQ(json["earlier_generations"][1]["host"], "n7");
  EXPECT_EQ(json["earlier_generations"][1]["generation"], 1);
}

TEST(ReportTest, JsonTellsWhereTheRanksOfAHangWere) {
  EXPECT_FALSE(nlohmann::json::parse(VerdictToJson(Failed(), kContext)).contains("hang"));
  Verdict verdict = Failed();
  verdict.root_cause->kind = RootCause::Kind::kHung;
  verdict.root_cause->frames = {{"Load", "data.cc", 88, "train"}, {"main", "", 0, "train"}};
  verdict.hang.emplace();
  verdict.hang->verdict = {"job exp7 hangs"};
  verdict.hang->missing = {"n3"};
  StackTree tree;
  tree.Add(5, ThreadKind::kMain, {{"main", "", 0, "train"}, {"Load", "data.cc", 88, "train"}});
  verdict.hang->tree = std::make_shared<EncodedStackTree>(tree.Encode());
  const auto json = nlohmann::json::parse(VerdictToJson(verdict, kContext));
  EXPECT_EQ(json["root_cause"]["frames"][0]["function"], "Load");
  EXPECT_EQ(json["root_cause"]["frames"][0]["line"], 88);
  EXPECT_TRUE(json["root_cause"]["frames"][1]["file"].is_null());
  EXPECT_EQ(json["hang"]["verdict"][0], "job exp7 hangs");
  EXPECT_EQ(json["hang"]["missing"][0], "n3");
  EXPECT_EQ(json["hang"]["stacks"]["main"][0]["frames"][0]["function"], "Load");
}

TEST(ReportTest, JsonIsValidWhateverTheWorkerPrinted) {
  Verdict verdict = Failed();
  verdict.root_cause->failure.exit.stderr_tail = {std::string("\xff\x00\"x", 4)};
  const auto json = nlohmann::json::parse(VerdictToJson(verdict, kContext));
  EXPECT_EQ(json["root_cause"]["stderr_tail"].size(), 1u);
}

// ---- one file for all nodes of a Slurm job ----

class SharedReportTest : public testing::Test {
 protected:
  void Write(const Verdict& verdict, std::uint32_t requeue_number = 0, bool once = true) {
    ReportContext context = kContext;
    context.requeue_number = requeue_number;
    context.once = once;
    EXPECT_TRUE(WriteReport(path_, verdict, context).ok());
  }
  static Verdict OfTheJob(Outcome outcome) {
    Verdict verdict;
    verdict.outcome = outcome;
    return verdict;
  }
  std::string Word() const {
    std::ifstream file(path_);
    return nlohmann::json::parse(file)["outcome"];
  }

  const TempDir folder_;
  const std::string path_ = folder_ / "report.json";
};

TEST_F(SharedReportTest, WhatOnlyOneNodeCameToDoesNotReplaceTheJobsEnd) {
  std::uint32_t requeue_number = 0;
  for (const Outcome of_the_job : {Outcome::kSucceeded, Outcome::kFailed, Outcome::kPreempted}) {
    for (const Outcome own : {Outcome::kLeft, Outcome::kRefused, Outcome::kUnreachable,
                              Outcome::kPreempted, Outcome::kFailed}) {
      Write(OfTheJob(of_the_job), ++requeue_number);
      Write(Verdict::OfAgent(own, 1, ""), requeue_number);
      EXPECT_EQ(Word(), ToString(of_the_job)) << ToString(own);
    }
  }
}

TEST_F(SharedReportTest, TheJobsEndReplacesWhatANodeCameTo) {
  Write(Verdict::OfAgent(Outcome::kLeft, 143, ""));
  Write(OfTheJob(Outcome::kPreempted));
  EXPECT_EQ(Word(), "preempted");
  Write(OfTheJob(Outcome::kSucceeded));
  EXPECT_EQ(Word(), "succeeded");
}

// A node that was drained or left out may end later than the nodes that have finished the job.
TEST_F(SharedReportTest, WhoWentBeforeTheEndDoesNotReplaceIt) {
  Write(OfTheJob(Outcome::kSucceeded));
  Write(OfTheJob(Outcome::kLeft));
  Write(OfTheJob(Outcome::kPreempted));
  EXPECT_EQ(Word(), "succeeded");
}

TEST_F(SharedReportTest, OfNodesByThemselvesPreemptedCountsMost) {
  Write(Verdict::OfAgent(Outcome::kLeft, 143, ""));
  Write(Verdict::OfAgent(Outcome::kUnreachable, 69, ""));
  EXPECT_EQ(Word(), "left");
  Write(Verdict::OfAgent(Outcome::kPreempted, 75, ""));
  Write(Verdict::OfAgent(Outcome::kRefused, 77, ""));
  EXPECT_EQ(Word(), "preempted");
}

TEST_F(SharedReportTest, AnotherLifeOrAnotherFileIsReplaced) {
  Write(OfTheJob(Outcome::kSucceeded), 0);
  Write(Verdict::OfAgent(Outcome::kLeft, 143, ""), 1);
  EXPECT_EQ(Word(), "left");
  std::ofstream(path_) << "no JSON";
  Write(Verdict::OfAgent(Outcome::kRefused, 77, ""), 1);
  EXPECT_EQ(Word(), "refused");
}

TEST_F(SharedReportTest, WhereTheNameOfAJobMayBeUsedAgainTheLastOneIsThere) {
  Write(OfTheJob(Outcome::kSucceeded), 0, false);
  Write(Verdict::OfAgent(Outcome::kUnreachable, 69, ""), 0, false);
  EXPECT_EQ(Word(), "unreachable");
}

}  // namespace report_test
}  // namespace ddprun
