#include "rendezvous/metrics/daemon_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <sstream>
#include <string>

#include "rendezvous/core/measures/refusal_reasons.h"
#include "tests/support/golden.h"

namespace ddprun::metrics {
namespace daemon_metrics_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

NodeStatus NodeOf(const std::string& host, const char* activity) {
  NodeStatus node;
  node.host = host;
  node.state = std::string(activity) + ": a reason that names n17";
  node.activity = activity;
  node.still = milliseconds(250);
  node.usage = {milliseconds(93'500), 3'221'225'472, std::chrono::microseconds(740)};
  return node;
}

JobStatus JobOf(const std::string& name, int nodes) {
  JobStatus job;
  job.job = name;
  job.generation = Generation{5};
  job.state = JobState::kRunning;
  job.since = seconds(90);
  job.spec.min_nodes = 2;
  job.world_size = 16;
  job.restarts_left = 2;
  job.step = 120;
  job.checkpoint = 100;
  job.progress = JobStatus::Progress{milliseconds(250), seconds(30), ""};
  job.failed_checkpoints.count = 1;
  job.measured.steps_per_second = 2.5;
  job.measured.checkpoint_age = seconds(61);
  job.measured.snapshot_age = milliseconds(1500);
  job.measured.without_checkpoint = seconds(61);
  job.measured.stragglers = 2;
  job.measured.straggler_ranks = {Rank{9}, Rank{15}};
  job.measured.counters.restarts = {{"worker_failed", 1}, {"node_lost", 1}};
  job.measured.counters.nodes_lost = 1;
  job.measured.counters.failed_snapshots = 3;
  job.measured.counters.AddRecovery({Generation{4}, 0, true, {{"stop", 2100}, {"round", 800}}});
  for (int i = 0; i < nodes; ++i) {
    job.nodes.push_back(NodeOf("n" + std::to_string(i + 1), i == 2 ? "spare" : "running"));
    if (i == 2) continue;
    job.nodes.back().rank = NodeRank{i};
    job.nodes.back().first_rank = Rank{8 * i};
    job.nodes.back().workers = 8;
  }
  return job;
}

DaemonStatus Daemon() {
  DaemonStatus daemon;
  daemon.version = "1.2";
  daemon.uptime = seconds(100);
  daemon.sessions = 3;
  daemon.jobs_begun = 2;
  daemon.descriptors = 40;
  daemon.descriptor_limit = 1000;
  daemon.refused = {{"wrong_proof", 7}};
  daemon.leadership = LeadershipStatus{true, {5, 123}, "h1:29400", milliseconds(4500), 2, true, ""};
  return daemon;
}

DaemonMeasures Measures() {
  DaemonMeasures measures;
  measures.started_unix_ms = 1'700'000'000'500;
  measures.messages_received = 1000;
  measures.messages_sent = 900;
  measures.commits.emplace().Add(milliseconds(2));
  measures.state_disk = DiskSpace{1'000'000, 4'000'000};
  measures.certificates_expire_unix_s = {{"grpc", 1'800'000'000}, {"http", 1'700'100'000}};
  measures.cpu = milliseconds(1250);
  measures.resident_bytes = 25'000'000;
  return measures;
}

// promtool reads the same file in tests/metrics.
TEST(DaemonMetricsTest, HasWhatAScraperAsksFor) {
  ExpectGolden("tests/data/metrics/daemon.prom",
               DaemonMetrics(Daemon(), Measures(), {JobOf("train", 3)}, Hosts::kNamed));
}

TEST(DaemonMetricsTest, WithoutACredentialNoHostIsNamed) {
  const std::string text =
      DaemonMetrics(Daemon(), Measures(), {JobOf("train", 3)}, Hosts::kNumbered);
  EXPECT_THAT(text,
              HasSubstr("ddprun_node_state{job=\"train\",host=\"node 3\",state=\"spare\"} 1"));
  EXPECT_THAT(text, Not(HasSubstr("n17")));
  EXPECT_THAT(text, Not(HasSubstr("\"n1\"")));
}

TEST(DaemonMetricsTest, WhatIsNotKnownHasNoSeries) {
  JobStatus job;
  job.job = "new";
  const std::string text = DaemonMetrics({}, {}, {job}, Hosts::kNamed);
  EXPECT_THAT(text, Not(HasSubstr("checkpoint_age")));
  EXPECT_THAT(text, Not(HasSubstr("without_checkpoint")));
  EXPECT_THAT(text, Not(HasSubstr("straggl"))) << "nobody compares the ranks";
  EXPECT_THAT(text, Not(HasSubstr("progress_age")));
  EXPECT_THAT(text, Not(HasSubstr("ddprun_store_commit_seconds")));
  EXPECT_THAT(text, Not(HasSubstr("ddprun_leader")));
  EXPECT_THAT(text, Not(HasSubstr("ddprun_job_outcome")));
  EXPECT_THAT(text, HasSubstr("ddprun_job_hung{job=\"new\"} 0"));
}

std::string Line(const std::string& text, const std::string& begin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(begin, 0) == 0) return line;
  }
  return "";
}

// The state Failed is the same for a job that was stopped and for a job that has failed.
TEST(DaemonMetricsTest, AJobThatHasEndedHasItsOutcome) {
  JobStatus job;
  job.job = "over";
  job.state = JobState::kFailed;
  job.finished.emplace().outcome = Outcome::kLeft;
  const std::string text = DaemonMetrics({}, {}, {job}, Hosts::kNamed);
  EXPECT_THAT(text, HasSubstr("ddprun_job_state{job=\"over\",state=\"Failed\"} 1"));
  EXPECT_THAT(text, HasSubstr("ddprun_job_outcome{job=\"over\",outcome=\"left\"} 1"));
}

TEST(DaemonMetricsTest, EachReasonOfARefusalIsThereFromTheStart) {
  const std::string text = DaemonMetrics({}, {}, {}, Hosts::kNamed);
  std::set<std::string> reasons;
  for (const char* reason : kRefusalReasons) {
    EXPECT_TRUE(reasons.insert(reason).second) << reason << " is there twice";
    EXPECT_THAT(text,
                HasSubstr(std::string("ddprun_refusals_total{reason=\"") + reason + "\"} 0\n"));
  }
  DaemonStatus daemon;
  daemon.refused[refusal::kHttpForeignHost] = 3;
  EXPECT_THAT(DaemonMetrics(daemon, {}, {}, Hosts::kNamed),
              HasSubstr("ddprun_refusals_total{reason=\"http_foreign_host\"} 3\n"));
}

// increase() of Prometheus does not count the first value of a series.
TEST(DaemonMetricsTest, ARestartOfAnyCauseIsCountedFromZero) {
  JobStatus job;
  job.job = "new";
  const std::string text = DaemonMetrics({}, {}, {job}, Hosts::kNamed);
  for (const char* cause :
       {"worker_failed", "worker_left_early", "node_lost", "node_left", "hung", "planned"}) {
    const std::string series =
        std::string("ddprun_job_restarts_total{job=\"new\",cause=\"") + cause + "\"}";
    EXPECT_EQ(Line(text, series), series + " 0");
  }
}

TEST(DaemonMetricsTest, AHangIsSeen) {
  JobStatus job = JobOf("train", 1);
  job.progress->hang = "rank 3 waits in a collective on n17";
  const std::string text = DaemonMetrics({}, {}, {job}, Hosts::kNamed);
  EXPECT_EQ(Line(text, "ddprun_job_hung{"), "ddprun_job_hung{job=\"train\"} 1");
  EXPECT_THAT(text, Not(HasSubstr("n17")));
}

// Two agents of a job may run on one host; a scraper refuses a duplicate series.
TEST(DaemonMetricsTest, NoSeriesIsThereTwice) {
  JobStatus job = JobOf("train", 0);
  for (int i = 0; i < 3; ++i) job.nodes.push_back(NodeOf("n1", "running"));
  std::set<std::string> series;
  std::istringstream lines(DaemonMetrics(Daemon(), Measures(), {job}, Hosts::kNamed));
  for (std::string line; std::getline(lines, line);) {
    if (line[0] == '#') continue;
    EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  EXPECT_TRUE(series.count("ddprun_node_cpu_seconds_total{job=\"train\",host=\"n1#3\"}"));
}

TEST(DaemonMetricsTest, ALargeRendezvousIsWrittenInAMomentAndInTwoMiB) {
  std::vector<JobStatus> jobs;
  for (int job = 0; job < 64; ++job) jobs.push_back(JobOf("job" + std::to_string(job), 64));
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = DaemonMetrics(Daemon(), Measures(), jobs, Hosts::kNamed);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(text.size(), std::size_t{2} << 20);
  EXPECT_LT(took, milliseconds(500)) << "100 ms on an idle machine, and without a sanitizer";
}

}  // namespace daemon_metrics_test
}  // namespace ddprun::metrics
