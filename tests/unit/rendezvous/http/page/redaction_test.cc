#include "rendezvous/http/page/redaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rendezvous/json/dump.h"
#include "rendezvous/json/status_json.h"

namespace ddprun::http {
namespace redaction_test {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

// Every text that may contain a host, a command or a line of a worker is "secret".
JobStatus FullStatus() {
  JobStatus job;
  job.job = "exp7";
  job.reason = "secret";
  job.last_cause.emplace();
  job.last_cause->reason = "secret";
  job.last_cause->failure.host = "secret";
  job.last_cause->failure.exit.stderr_tail = {"secret"};
  job.finished.emplace();
  job.finished->reason = "secret";
  job.finished->root_cause = job.last_cause;
  job.failed_checkpoints = {1, 7, "secret", "secret"};
  job.restore = RestorePlan{SavedState{}, Rank{0}, "secret"};
  job.progress.emplace(JobStatus::Progress{});
  job.progress->hang = "secret";
  job.not_judged =
      JobStatus::NotJudged{"secret", JobStatus::NotJudged::Excuse{{}, "secret", 0, "secret", {}}};
  job.arrivals.emplace(JobStatus::Arrivals{});
  job.arrivals->arrived = 1;
  job.arrivals->missing = {{Rank{1}, "secret"}};
  NodeStatus node;
  node.host = "secret";
  node.address = "secret";
  node.state = "lost contact: held back: secret";
  node.spare = true;
  node.stuck.push_back({});
  job.nodes = {node, node};
  job.nodes[1].state = "waiting: its folder of checkpoints on secret";
  return job;
}

TEST(RedactionTest, NoTextThatNamesAnythingIsLeft) {
  JobStatus job = FullStatus();
  EXPECT_THAT(Dump(ToJson(job, 0), -1), HasSubstr("secret"));
  Redact(&job);
  const Json json = ToJson(job, 0);
  EXPECT_THAT(Dump(json, -1), Not(HasSubstr("secret")));
  EXPECT_EQ(json["nodes"][0]["host"], "node 1");
  EXPECT_EQ(json["nodes"][0]["state"], "lost contact: held back");
  EXPECT_EQ(json["not_judged"].dump(), R"({"why":"","excuse":null})")
      << "that it is so, and not why";
  EXPECT_EQ(json["nodes"][1]["host"], "node 2");
  EXPECT_EQ(json["nodes"][1]["state"], "waiting");
}

TEST(RedactionTest, OfALineOnlyHarmlessMembersAreLeft) {
  const Json line = {{"time", "t"},
                     {"job", "exp7"},
                     {"owner", "secret"},
                     {"event", "failed"},
                     {"host", "secret"},
                     {"reason", "secret"},
                     {"step", 7},
                     {"cause", {{"host", "secret"}}},
                     {"anything_new", "secret"}};
  EXPECT_EQ(RedactedLine(line).dump(), R"({"time":"t","job":"exp7","event":"failed","step":7})");
}

// A program chooses the names of its own phases.
TEST(RedactionTest, PhasesThatOnlyAProgramNamesAreOne) {
  const Json line = {{"event", "resumed"},
                     {"phases_ms", {{"stop", 2.5}, {"secret", 1}, {"<b>secret", 2}, {"odd", "x"}}}};
  EXPECT_EQ(RedactedLine(line).dump(),
            R"({"event":"resumed","phases_ms":{"stop":2.5,"other":3.0}})");
}

}  // namespace redaction_test
}  // namespace ddprun::http
