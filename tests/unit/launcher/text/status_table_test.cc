#include "launcher/text/status_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/measures/daemon_status.h"
#include "rendezvous/json/status_json.h"
#include "tests/unit/launcher/text/running_job.h"

namespace ddprun {
namespace status_table_test {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string TableOf(const JobStatus& job, bool all_nodes = false) {
  DaemonStatus daemon;
  daemon.version = "1.2";
  const auto table = StatusTable(StatusToJson(daemon, {job}, 0), {"head:29400", all_nodes});
  EXPECT_TRUE(table.ok()) << table.status();
  return table.value_or("");
}

TEST(StatusTableTest, AJobIsABlock) {
  JobStatus job = RunningJob("train", 2);
  job.nodes.push_back({"n9", "10.0.0.9", "spare", NodeRank{-1}, Rank{0}, 8, seconds(2), {}});
  job.nodes.back().spare = true;
  EXPECT_EQ(TableOf(job),
            "rendezvous head:29400: version 1.2, up 0.0 s, 0 sessions, 1 job\n"
            "\n"
            "job train: Running, for 1 h 1 min; generation 2\n"
            "  2 nodes of 2 and 1 spare; 16 workers; step 120, checkpoint -; 1 of 3 restarts used, "
            "2 left\n"
            "  NODE  ADDRESS   STATE    NODE RANK  RANKS  STEP  HEARD\n"
            "  n0    10.0.0.0  running  0          0-7    120   0.0 s ago\n"
            "  n1    10.0.0.1  running  1          8-15   120   0.0 s ago\n"
            "  n9    10.0.0.9  spare    -          -      -     2.0 s ago\n");
}

TEST(StatusTableTest, OneOfSeveralSaysWhoLeadsAndHowLongItGoesOnWithoutEtcd) {
  DaemonStatus daemon;
  daemon.leadership.emplace();
  daemon.leadership->leads = true;
  daemon.leadership->term = {7, 123};
  daemon.leadership->leader = "h1:29400";
  daemon.leadership->valid_for = std::chrono::milliseconds(4600);
  const auto table = [&daemon] {
    return StatusTable(StatusToJson(daemon, {}, 0), {"h1:29400", false}).value_or("");
  };
  EXPECT_THAT(table(),
              HasSubstr("it leads at h1:29400, term 123; without etcd it leads for another 4.6 s"));
  EXPECT_THAT(table(), Not(HasSubstr("etcd takes no change")));
  daemon.leadership->trouble = "h2:2379: NOSPACE";
  EXPECT_THAT(table(),
              HasSubstr("etcd takes no change: h2:2379: NOSPACE; running workers train on"));
  daemon.leadership->valid_for = {};
  EXPECT_THAT(table(), HasSubstr("it acknowledges nothing, and workers end by their leases"));
  daemon.leadership->leads = false;
  EXPECT_THAT(table(), HasSubstr("it waits; the leader is at h1:29400"));
}

TEST(StatusTableTest, OfManyNodesThoseAreShownThatAreNotLikeMost) {
  JobStatus job = RunningJob("train", 500);
  job.nodes[77].state = "lost contact: running";
  const std::string text = TableOf(job);
  EXPECT_THAT(text, HasSubstr("  n77   10.0.0.77  lost contact: running  77"));
  EXPECT_THAT(text, Not(HasSubstr("  n76 ")));
  EXPECT_THAT(text, HasSubstr("and 499 nodes more (of all: 1 lost contact: running, 499 running)"));
  EXPECT_THAT(TableOf(job, true), HasSubstr("  n76 "));
}

TEST(StatusTableTest, AJobThatIsOverSaysHow) {
  JobStatus job = RunningJob("train", 2);
  job.state = JobState::kFailed;
  job.reason = "stopped by an operator";
  job.finished = Finished{Outcome::kLeft, 143, job.reason, 1, {}, {}};
  const std::string text = TableOf(job);
  EXPECT_THAT(text, HasSubstr("job train: left (exit code 143), 1 h 1 min ago; generation 2\n"
                              "  stopped by an operator\n"));
  EXPECT_THAT(text, Not(HasSubstr("NODE")));
  job.finished->outcome = Outcome::kStateUnreadable;
  EXPECT_THAT(TableOf(job), HasSubstr("job train: state unreadable (exit code 143), "));
}

TEST(StatusTableTest, AJobWithoutAnIdIsNotCalledNone) {
  JobStatus job = RunningJob("train", 2);
  job.job = "none";
  job.requeue_number = 1;
  EXPECT_THAT(TableOf(job),
              HasSubstr("\nthe job: Running, for 1 h 1 min; generation 2, requeue number 1\n"));
}

TEST(StatusTableTest, WhoIsMissingInInitIsSaid) {
  JobStatus job = RunningJob("train", 2);
  EXPECT_THAT(TableOf(job), Not(HasSubstr("init()")));
  job.arrivals = JobStatus::Arrivals{15, {{Rank{9}, "n1"}}};
  EXPECT_THAT(TableOf(job), HasSubstr("\n  15 of 16 ranks are in init(); missing 9 on n1\n"));
}

TEST(StatusTableTest, WhyHangsAreNotNoticedIsSaidAndTheAgeByTheClock) {
  JobStatus job = RunningJob("train", 2);
  job.progress = JobStatus::Progress{std::chrono::seconds(3), std::chrono::seconds(30), "",
                                     std::chrono::milliseconds(3400)};
  EXPECT_THAT(TableOf(job), AllOf(HasSubstr("\n  a rank moved 3.0 s ago (limit 30 s)\n"),
                                  Not(HasSubstr("not noticed"))));
  job.progress->wall = std::chrono::minutes(10);
  job.not_judged = JobStatus::NotJudged{"rank 5 on n1 (pid 42) is held by gdb (pid 77) since 9 s"};
  EXPECT_THAT(TableOf(job),
              HasSubstr("\n  a rank moved 3.0 s ago (10 min 0 s by the clock) (limit 30 s)\n"
                        "  hangs are not noticed: rank 5 on n1 (pid 42) is held by gdb (pid 77) "
                        "since 9 s\n"));
}

TEST(StatusTableTest, AHangAStragglerAndTheRootCauseHaveTheWordsOfTopAndOfThePage) {
  JobStatus job = RunningJob("train", 2);
  job.progress = JobStatus::Progress{std::chrono::seconds(41), std::chrono::seconds(30),
                                     "hangs: rank 5 on n0 is in download"};
  job.measured.straggler_ranks = {Rank{9}};
  job.last_cause.emplace();
  job.last_cause->failure.generation = Generation{1};
  job.last_cause->failure.host = "n1";
  EXPECT_THAT(TableOf(job),
              AllOf(HasSubstr("\njob train: Hung, for 1 h 1 min; generation 2\n"),
                    HasSubstr("\n  a rank moved 41 s ago (limit 30 s)\n"),
                    HasSubstr("\n  straggler: rank 9 keeps the others waiting\n"),
                    HasSubstr("\n  root cause: the job hangs: rank 5 on n0 is in download\n"),
                    Not(HasSubstr("in generation 1"))));
  job.measured.straggler_ranks = {Rank{9}, Rank{12}};
  EXPECT_THAT(TableOf(job), HasSubstr("\n  stragglers: ranks 9, 12 keep the others waiting\n"));
  JobStatus over = job;
  over.finished = Finished{Outcome::kFailed, 137, "no restart is left", 3, {}, {}};
  job.progress->hang.clear();
  for (const JobStatus& unhung : {job, over}) {
    EXPECT_THAT(TableOf(unhung), AllOf(HasSubstr("\n  root cause in generation 1: rank 0"),
                                       Not(HasSubstr("the job hangs"))));
  }
}

TEST(StatusTableTest, FailedCheckpointsAreSaidWhereThereAreAny) {
  JobStatus job = RunningJob("train", 2);
  EXPECT_THAT(TableOf(job), Not(HasSubstr("failed")));
  job.failed_checkpoints = {1, 120, "disk full", "n1"};
  EXPECT_THAT(TableOf(job),
              HasSubstr("\n  1 checkpoint failed, the last one at step 120 on n1: disk full\n"));
  job.failed_checkpoints = {12, 120, "disk\x1b[2J full", "n1"};
  EXPECT_THAT(TableOf(job), HasSubstr("12 checkpoints failed, the last one at step 120 on n1: "
                                      "disk?[2J full\n"));
}

TEST(StatusTableTest, ANameCannotWriteToTheTerminal) {
  JobStatus job = RunningJob("train", 1);
  job.nodes[0].host = "n\x1b[2J";
  EXPECT_THAT(TableOf(job), HasSubstr("n?[2J"));
}

TEST(StatusTableTest, WhatIsNoStatusIsAnError) {
  EXPECT_EQ(StatusTable("[]", {"h:1"}).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(StatusTable("{", {"h:1"}).status().code(), absl::StatusCode::kInternal);
}

TEST(AgeTest, HasTheTwoLargestUnits) {
  EXPECT_EQ(Age(400), "0.4 s");
  EXPECT_EQ(Age(45'000), "45 s");
  EXPECT_EQ(Age(150'000), "2 min 30 s");
  EXPECT_EQ(Age(2 * 3'600'000.0 + 780'000), "2 h 13 min");
  EXPECT_EQ(Age(76 * 3'600'000.0), "3 d 4 h");
}

}  // namespace status_table_test
}  // namespace ddprun
