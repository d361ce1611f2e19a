#include "rendezvous/json/status_json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "rendezvous/json/event_json.h"

namespace ddprun {
namespace status_json_test {

using Json = nlohmann::json;
using std::chrono::seconds;

RootCause Killed() {
  RootCause cause;
  cause.failure.host = "n2";
  cause.failure.node_rank = NodeRank{1};
  cause.failure.generation = Generation{4};
  cause.failure.exit.rank = Rank{3};
  cause.failure.exit.status = ExitStatus{0, 9, false};
  cause.failure.exit.stderr_tail = {"bad \xff byte"};
  return cause;
}

JobStatus RunningJob() {
  JobStatus job;
  job.job = "train";
  job.generation = Generation{5};
  job.state = JobState::kRunning;
  job.since = seconds(90);
  job.spec.min_nodes = 2;
  job.spec.max_nodes = 4;
  job.spec.max_restarts = 3;
  job.restarts_used = 1;
  job.restarts_left = 2;
  job.world_size = 16;
  job.step = 120;
  job.last_cause = Killed();
  NodeStatus member{"n1", "10.0.0.1", "running", NodeRank{0}, Rank{0}, 8, seconds(1), 120};
  NodeStatus spare{"n3",       "10.0.0.3", "lost contact: spare", NodeRank{-1}, Rank{0}, 8,
                   seconds(2), {}};
  spare.spare = true;
  member.newest_state = SavedState{0, Generation{4}, 110, Tier::kMemory};
  job.restore = RestorePlan{SavedState{0, Generation{-1}, 90, Tier::kDurable}, Rank{8}, "n2"};
  member.still = std::chrono::milliseconds(250);
  member.usage.cpu = std::chrono::milliseconds(1500);
  member.usage.round_trip = std::chrono::microseconds(740);
  job.measured.steps_per_second = 2.5;
  job.measured.checkpoint_age = seconds(61);
  job.measured.stragglers = 2;
  job.measured.straggler_ranks = {Rank{3}, Rank{5}};
  job.measured.counters.restarts["node_lost"] = 2;
  job.nodes = {member, spare};
  return job;
}

TEST(StatusJsonTest, OneOfSeveralTellsItsTermWithAllDigits) {
  DaemonStatus daemon;
  EXPECT_TRUE(Json::parse(StatusToJson(daemon, {}, 0))["leadership"].is_null());
  daemon.leadership.emplace();
  daemon.leadership->leads = true;
  daemon.leadership->term = {18'446'744'073'709'551'615U, 9'007'199'254'740'993U};
  daemon.leadership->valid_for = seconds(4);
  daemon.leadership->trouble = "NOSPACE";
  const Json leadership = Json::parse(StatusToJson(daemon, {}, 0))["leadership"];
  EXPECT_EQ(leadership["role"], "leads");
  EXPECT_EQ(leadership["term"], "9007199254740993");
  EXPECT_EQ(leadership["cluster"], "18446744073709551615");
  EXPECT_EQ(leadership["valid_ms"], 4000);
  EXPECT_EQ(leadership["trouble"], "NOSPACE");
}

TEST(StatusJsonTest, AJobHasWhatAnOperatorAsksFor) {
  DaemonStatus daemon;
  daemon.version = "1.2";
  daemon.refused["wrong_proof"] = 7;
  const Json json = Json::parse(StatusToJson(daemon, {RunningJob()}, 1'700'000'090'000));
  EXPECT_EQ(json["version"], "1.2");
  EXPECT_EQ(json["refused"]["wrong_proof"], 7);
  ASSERT_EQ(json["jobs"].size(), 1u);
  const Json& job = json["jobs"][0];
  EXPECT_EQ(job["state"], "Running");
  EXPECT_EQ(job["since"], "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(job["generation"], 5);
  EXPECT_EQ(job["restarts"], 1);
  EXPECT_EQ(job["restarts_left"], 2);
  EXPECT_EQ(job["step"], 120);
  EXPECT_TRUE(job["checkpoint"].is_null());
  EXPECT_EQ(job["steps_per_s"], 2.5);
  EXPECT_EQ(job["checkpoint_ms_ago"], 61000);
  EXPECT_TRUE(job["snapshot_ms_ago"].is_null());
  EXPECT_EQ(job["stragglers"], 2);
  EXPECT_EQ(job["straggler_ranks"], Json({3, 5}));
  EXPECT_EQ(job["restarts_by_cause"], Json({{"node_lost", 2}}));
  EXPECT_EQ(job["nodes"][0]["still_ms"], 250);
  EXPECT_EQ(job["nodes"][0]["cpu_ms"], 1500);
  EXPECT_EQ(job["nodes"][0]["heartbeat_us"], 740);
  EXPECT_TRUE(job["outcome"].is_null());
  EXPECT_EQ(job["spares"], Json({"n3"}));
  EXPECT_EQ(job["nodes"][0]["first_rank"], 0);
  EXPECT_EQ(job["nodes"][0]["workers"], 8);
  EXPECT_TRUE(job["nodes"][1]["node_rank"].is_null());
  EXPECT_EQ(job["nodes"][1]["heard_ms_ago"], 2000);
  EXPECT_EQ(job["nodes"][0]["newest_state"],
            Json({{"step", 110}, {"epoch", 0}, {"generation", 4}, {"tier", "memory"}}));
  EXPECT_TRUE(job["nodes"][1]["newest_state"].is_null());
  EXPECT_EQ(job["restore"], Json({{"step", 90},
                                  {"epoch", 0},
                                  {"generation", nullptr},
                                  {"tier", "durable"},
                                  {"rank", 8},
                                  {"host", "n2"}}));
  const Json& cause = job["last_root_cause"];
  EXPECT_EQ(cause["kind"], "worker_failed");
  EXPECT_EQ(cause["signal"], "SIGKILL");
  EXPECT_EQ(cause["stderr_tail"][0], "bad \xEF\xBF\xBD byte");
}

TEST(StatusJsonTest, ANodeHasTheProcessesThatSigkillDidNotEnd) {
  JobStatus job = RunningJob();
  job.nodes[1].stuck = {{Rank{3}, 77, ProcessState::kDiskWait, "write(/data/log)", seconds(12)},
                        {std::nullopt, 78, ProcessState::kRunnable, "", seconds(1)}};
  const Json json = Json::parse(StatusToJson({}, {job}, 0))["jobs"][0];
  EXPECT_EQ(json["nodes"][0]["stuck"], Json::array());
  EXPECT_EQ(json["nodes"][1]["stuck"], Json::array({{{"rank", 3},
                                                     {"pid", 77},
                                                     {"state", "disk_wait"},
                                                     {"waits_for", "write(/data/log)"},
                                                     {"stuck_ms", 12'000}},
                                                    {{"rank", nullptr},
                                                     {"pid", 78},
                                                     {"state", "runnable"},
                                                     {"waits_for", ""},
                                                     {"stuck_ms", 1000}}}));
}

TEST(StatusJsonTest, WhoIsMissingInInitIsNamed) {
  JobStatus job = RunningJob();
  job.world_size = 64;
  EXPECT_TRUE(Json::parse(StatusToJson({}, {job}, 0))["jobs"][0]["init"].is_null());
  job.arrivals = JobStatus::Arrivals{61, {{Rank{17}, "n5"}, {Rank{18}, "n5"}, {Rank{40}, "n7"}}};
  EXPECT_EQ(Json::parse(StatusToJson({}, {job}, 0))["jobs"][0]["init"],
            Json({{"arrived", 61},
                  {"missing",
                   {{{"rank", 17}, {"host", "n5"}},
                    {{"rank", 18}, {"host", "n5"}},
                    {{"rank", 40}, {"host", "n7"}}}},
                  {"text", "61 of 64 ranks are in init(); missing 17, 18 on n5 and 40 on n7"}}));
  EXPECT_EQ(Describe({62, {{Rank{17}, "n5"}, {Rank{18}, "n5"}}}, 64),
            "62 of 64 ranks are in init(); missing 17 and 18 on n5");
  EXPECT_EQ(Describe({2, {{Rank{0}, "n5"}}}, 64),
            "2 of 64 ranks are in init(); missing 0 on n5 and 61 more");
  EXPECT_EQ(Describe({63, {}}, 64), "63 of 64 ranks are in init(); 1 is missing");
}

TEST(StatusJsonTest, FailedCheckpointsAreAlwaysANumber) {
  JobStatus job = RunningJob();
  Json json = Json::parse(StatusToJson({}, {job}, 0))["jobs"][0];
  EXPECT_EQ(json["failed_checkpoints"], 0);
  EXPECT_TRUE(json["last_failed_checkpoint"].is_null());
  job.failed_checkpoints = {3, 120, "disk full", "n1"};
  json = Json::parse(StatusToJson({}, {job}, 0))["jobs"][0];
  EXPECT_EQ(json["failed_checkpoints"], 3);
  EXPECT_EQ(json["last_failed_checkpoint"],
            Json({{"step", 120}, {"host", "n1"}, {"reason", "disk full"}}));
}

TEST(StatusJsonTest, AJobThatIsOverHasItsOutcome) {
  JobStatus job = RunningJob();
  job.state = JobState::kFailed;
  job.finished = Finished{Outcome::kPreempted, 75, "stopped by an operator", 1, {}, {}};
  const Json json = Json::parse(StatusToJson({}, {job}, 0));
  EXPECT_EQ(json["jobs"][0]["outcome"], "preempted");
  EXPECT_EQ(json["jobs"][0]["exit_code"], 75);
}

TEST(StatusJsonTest, AgentIdsAreShownToNobody) {
  const std::string text = StatusToJson({}, {RunningJob()}, 0);
  EXPECT_EQ(text.find("incarnation"), std::string::npos);
}

TEST(EventJsonTest, AFailureHasItsCauseWithTheNamesOfTheReport) {
  JobEvent event;
  event.kind = JobEvent::Kind::kFailed;
  event.generation = Generation{4};
  event.cause = Killed();
  const Json json = Json::parse(EventToJson(0, "train", "", 0, event));
  EXPECT_EQ(json["event"], "failed");
  EXPECT_EQ(json["cause"]["rank"], 3);
  EXPECT_EQ(json["cause"]["host"], "n2");
  EXPECT_FALSE(json.contains("owner"));
}

// `ddprun events` prints the line unchanged, and terminals treat U+009B like ESC [.
TEST(EventJsonTest, NoControlCharacterOfAWorkerIsLeftAsItIs) {
  const std::string said =
      "a\x1b[2Jb\x7f"
      "c\xC2\x9B"
      "2Jd\xC2\xA0é";
  JobEvent event;
  event.kind = JobEvent::Kind::kFailed;
  event.cause = Killed();
  event.cause->failure.exit.stderr_tail = {said};
  const std::string line = EventToJson(0, "j", "", 0, event);
  EXPECT_NE(line.find("a\\u001b[2Jb\\u007fc\\u009b2Jd\xC2\xA0é"), std::string::npos) << line;
  EXPECT_EQ(Json::parse(line)["cause"]["stderr_tail"][0], said);
}

TEST(EventJsonTest, AGenerationSaysWhatItBeginsWith) {
  JobEvent event;
  event.kind = JobEvent::Kind::kFormed;
  EXPECT_FALSE(Json::parse(EventToJson(0, "train", "", 0, event)).contains("restore"));
  event.restore = RestorePlan{SavedState{0, Generation{3}, 1200, Tier::kMemory}, Rank{2}, "b"};
  const Json json = Json::parse(EventToJson(0, "train", "", 0, event));
  EXPECT_EQ(json["restore"]["step"], 1200);
  EXPECT_EQ(json["restore"]["rank"], 2);
  EXPECT_EQ(json["restore"]["tier"], "memory");
  EXPECT_EQ(json["restore"]["host"], "b");
  event.restore = RestorePlan{};
  EXPECT_EQ(Json::parse(EventToJson(0, "train", "", 0, event))["restore"],
            Json({{"step", 0}, {"tier", "none"}}));
}

TEST(EventJsonTest, NodesAreToldApartByTheirAgents) {
  JobEvent event;
  event.kind = JobEvent::Kind::kFormed;
  event.placed = {{"n1", AgentId{10}, Rank{0}, 2}, {"n1", AgentId{11}, Rank{2}, 2}};
  const Json formed = Json::parse(EventToJson(0, "train", "", 0, event));
  EXPECT_FALSE(formed.contains("agent"));
  EXPECT_EQ(
      formed["placed"][1],
      Json({{"host", "n1"}, {"agent", "000000000000000b"}, {"first_rank", 2}, {"workers", 2}}));
  event = {.kind = JobEvent::Kind::kLost, .host = "n1", .agent_id = AgentId{11}};
  EXPECT_EQ(Json::parse(EventToJson(0, "train", "", 0, event))["agent"], "000000000000000b");
}

TEST(EventJsonTest, AFailedCheckpointHasTheSumOfTheJob) {
  JobEvent event;
  event.kind = JobEvent::Kind::kCheckpointFailed;
  event.host = "n1";
  event.step = 120;
  event.reason = "disk full";
  event.failed_checkpoints = 3;
  const Json json = Json::parse(EventToJson(0, "train", "", 0, event));
  EXPECT_EQ(json["event"], "checkpoint_failed");
  EXPECT_EQ(json["host"], "n1");
  EXPECT_EQ(json["step"], 120);
  EXPECT_EQ(json["reason"], "disk full");
  EXPECT_EQ(json["failed_checkpoints"], 3);
}

TEST(EventJsonTest, AFirstStepHasTheTimesOfTheRestart) {
  JobEvent event;
  event.kind = JobEvent::Kind::kResumed;
  event.times.emplace();
  event.times->warm_workers = 2;
  event.times->generation = Generation{7};
  const std::string text = EventToJson(0, "job", "", 0, event);
  EXPECT_EQ(text.find("\"generation\":7"), text.rfind("\"generation\"")) << text;
  const Json line = Json::parse(text);
  EXPECT_EQ(line.value("warm_workers", 0), 2);
  EXPECT_TRUE(line.contains("total_ms"));
  EXPECT_TRUE(line.contains("phases_ms"));
}

TEST(EventJsonTest, EveryTextIsReadBackAsItWas) {
  for (const std::string text :
       {"", "n1", "a \"quoted\" name", "back\\slash", "né 東京", "two\nlines\tand a tab", "\x7f"}) {
    JobEvent event;
    event.host = "h";
    event.reason = text;
    const Json line = Json::parse(EventToJson(0, "job", "", 0, event));
    EXPECT_EQ(line.value("reason", ""), text);
    EXPECT_EQ(line.value("host", ""), "h");
  }
  JobEvent broken;
  broken.reason = "bad \xff byte";
  EXPECT_EQ(Json::parse(EventToJson(0, "job", "", 0, broken)).value("reason", ""),
            "bad \xEF\xBF\xBD byte");
}

TEST(EventJsonTest, AnEndHasItsOutcomeAndALineIsOneLine) {
  JobEvent event;
  event.kind = JobEvent::Kind::kFinished;
  event.outcome = Outcome::kSucceeded;
  event.reason = "two\nlines";
  const std::string text = EventToJson(0, "train", "", 0, event);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["outcome"], "succeeded");
  EXPECT_EQ(json["exit_code"], 0);
}

}  // namespace status_json_test
}  // namespace ddprun
