#include "launcher/metrics/agent_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/golden.h"

namespace ddprun {
namespace agent_metrics_test {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

AgentMeasures Full() {
  AgentMeasures measures;
  measures.facts.generation = Generation{2};
  measures.facts.workers = {{Rank{8}, 4242}, {Rank{9}, 4243}};
  measures.facts.logs = {1000, 200, 3, 0, 50};
  measures.facts.round_trip = std::chrono::microseconds(740);
  measures.facts.heartbeat_at = TimePoint{} + std::chrono::seconds(10);
  measures.facts.checkpoints.Add(milliseconds(1830));
  measures.facts.snapshots.Add(milliseconds(41));
  measures.facts.snapshots.Add(milliseconds(39));
  measures.now = TimePoint{} + milliseconds(10'400);
  measures.use.all = {milliseconds(90'500), 5000, 6000, 7000};
  measures.use.ranks = {{Rank{8}, {milliseconds(50'500), 3000, 2000, 4000}},
                        {Rank{9}, {milliseconds(40'000), 2000, 4000, 3000}}};
  measures.per_rank = true;
  measures.cgroup = {1048576, 4194304, std::chrono::microseconds(250'000)};
  measures.folders = {{"checkpoints", 1'000'000, 4'000'000}, {"logs", 2'000'000, 4'000'000}};
  GpuReading gpu{0};
  gpu.utilization = 0.87;
  gpu.memory_used = 60'000'000'000;
  gpu.memory_size = 80'000'000'000;
  gpu.celsius = 71;
  gpu.ecc_corrected = 12;
  gpu.ecc_uncorrected = 1;
  gpu.xid_errors = 2;
  gpu.last_xid = 79;
  measures.gpus = {gpu, GpuReading{1}};
  return measures;
}

// promtool reads the same file in tests/metrics.
TEST(AgentMetricsTest, HasWhatAScraperAsksFor) {
  ExpectGolden("tests/data/metrics/agent.prom", AgentMetrics({"train", "n1", "1.2"}, Full()));
}

TEST(AgentMetricsTest, RanksHaveSeriesOnlyWhereTheyAreWanted) {
  AgentMeasures measures = Full();
  measures.per_rank = false;
  const std::string text = AgentMetrics({"train", "n1", "1.2"}, measures);
  EXPECT_THAT(text, Not(HasSubstr("rank=")));
  EXPECT_THAT(text, HasSubstr("ddprun_workers_cpu_seconds_total 90.5\n"));
}

TEST(AgentMetricsTest, BeforeAnythingRunsLittleIsTold) {
  const std::string text = AgentMetrics({"train", "n1", "1.2"}, {});
  EXPECT_THAT(text, HasSubstr("ddprun_agent_generation -1\n"));
  EXPECT_THAT(text, HasSubstr("ddprun_agent_workers 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("heartbeat")));
  EXPECT_THAT(text, Not(HasSubstr("gpu")));
}

}  // namespace agent_metrics_test
}  // namespace ddprun
