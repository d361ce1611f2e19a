#include "rendezvous/http/page/page_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/json/dump.h"

namespace ddprun::http {
namespace page_json_test {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

const PageTime kTime{TimePoint() + 1h, 1'700'000'000'000};

JobStatus JobOf(int nodes) {
  JobStatus job;
  job.job = "exp7";
  job.state = JobState::kRunning;
  job.world_size = nodes * 8;
  for (int i = 0; i < nodes; ++i) {
    NodeStatus node;
    node.host = absl::StrCat("gpu-node-", 10000 + i);
    node.state = i % 100 == 0 ? "lost contact: running" : "running";
    node.rank = NodeRank{i};
    node.first_rank = Rank{i * 8};
    node.workers = 8;
    node.step = 1'234'567;
    node.heard_ago = 950ms;
    job.nodes.push_back(node);
  }
  return job;
}

TEST(PageJsonTest, TheNodesAreColumns) {
  JobStatus job = JobOf(2);
  job.nodes[1].rank = NodeRank{-1};
  job.nodes[1].spare = true;
  job.nodes[1].step.reset();
  const Json json = WholeJob(job, {}, kTime, false);
  EXPECT_EQ(json["job"], "exp7");
  EXPECT_EQ(json["state"], "Running");
  EXPECT_EQ(json["spares"].dump(), R"(["gpu-node-10001"])");
  const Json& nodes = json["nodes"];
  EXPECT_EQ(nodes["hosts"].dump(), R"(["gpu-node-10000","gpu-node-10001"])");
  EXPECT_EQ(nodes["states"].dump(), "[0,1]");
  EXPECT_EQ(nodes["state_names"].dump(), R"(["lost contact: running","running"])");
  EXPECT_EQ(nodes["first_ranks"].dump(), "[0,null]");
  EXPECT_EQ(nodes["workers"].dump(), "[8,8]");
  EXPECT_EQ(nodes["steps"].dump(), "[1234567,null]");
  EXPECT_EQ(nodes["heard_ms_ago"].dump(), "[950,950]");
}

TEST(PageJsonTest, SixteenThousandNodesTakeLessThanAMebibyte) {
  EXPECT_LT(Dump(WholeJob(JobOf(16'384), {}, kTime, false), -1).size(), 1u << 20);
}

TEST(PageJsonTest, TheListHasAsManyPointsAsASparklineNeeds) {
  JobPast past;
  for (int i = 0; i <= 100; ++i) past.rates.Add(i / 8.0, kTime.now + i * 5s);
  JobStatus job = JobOf(3);
  job.measured.steps_per_second = 2.5004;
  job.spares = 1;
  const Json json = ListedJob(job, 3, past);
  EXPECT_EQ(json["spark"].size(), 60u);
  EXPECT_EQ(json["spark"].front(), 5.125);
  EXPECT_EQ(json["spark"].back(), 12.5);
  EXPECT_EQ(json["steps_per_s"], 2.5) << "that of the status, with three places";
  EXPECT_TRUE(json["not_judged"].is_null());
  job.not_judged = JobStatus::NotJudged{"no worker tells steps", {}};
  EXPECT_EQ(ListedJob(job, 3, past)["not_judged"]["why"], "no worker tells steps");
  EXPECT_EQ(json["nodes"], 3);
  EXPECT_EQ(json["spares"], 1);
}

TEST(PageJsonTest, TimeAloneChangesNothingThatLasts) {
  JobStatus job = JobOf(2);
  job.progress.emplace(JobStatus::Progress{});
  job.measured = {2.5, 3s, 3s, 4s};
  PageTime later = kTime;
  later.unix_ms += 1000;
  later.now += 1s;
  const Json before = WholeJob(job, {}, kTime, false);
  for (NodeStatus& node : job.nodes) node.heard_ago += 10ms;
  job.progress->still += 1s;
  job.since += 1s;
  job.measured = {2.4, 4s, 4s, 5s};
  const Json after = WholeJob(job, {}, later, false);
  EXPECT_NE(before, after);
  EXPECT_EQ(WithoutAges(before), WithoutAges(after));
  job.step = 7;
  EXPECT_NE(WithoutAges(before), WithoutAges(WholeJob(job, {}, later, false)));
}

}  // namespace page_json_test
}  // namespace ddprun::http
