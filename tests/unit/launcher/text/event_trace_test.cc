#include "launcher/text/event_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

namespace ddprun {
namespace event_trace_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// An event line at 08:54 and `second` seconds. `more` begins with a comma or is empty.
std::string Line(int second, const std::string& kind, int generation,
                 const std::string& more = "") {
  return absl::StrCat(R"({"time":"2026-11-21T08:54:)", second < 10 ? "0" : "", second,
                      R"(.500Z","job":"train","epoch":0,"generation":)", generation,
                      R"(,"event":")", kind, "\"", more, "}");
}

absl::Time TimeAt(int second) {
  return absl::FromCivil(absl::CivilSecond(2026, 11, 21, 8, 54, second), absl::UTCTimeZone()) +
         absl::Milliseconds(500);
}

// "job train/generations: generation 0 2+3": the track, the name, the start and the length in
// seconds.
std::vector<std::string> Slices(const std::vector<std::string>& lines, int now = 0) {
  EventTrace trace;
  for (const std::string& line : lines) trace.Add(line);
  const Json json = Json::parse(trace.Finish(TimeAt(now)));
  std::map<std::pair<int, int>, std::string> names;
  std::vector<std::string> slices;
  for (const Json& event : json.at("traceEvents")) {
    const int process = event.at("pid");
    const int thread = event.at("tid");
    if (event.at("ph") == "M") {
      const bool is_process = event.at("name") == "process_name";
      names[{process, is_process ? 0 : thread}] = event.at("args").at("name");
      continue;
    }
    const std::int64_t start = event.at("ts").get<std::int64_t>() / 1'000'000 % 60;
    const bool is_slice = event.at("ph") == "X";
    slices.push_back(absl::StrCat(
        names[{process, 0}], "/", names[{process, thread}], ": ",
        event.at("name").get<std::string>(), is_slice ? " " : " at ", start,
        is_slice ? absl::StrCat("+", event.at("dur").get<std::int64_t>() / 1'000'000) : ""));
  }
  return slices;
}

TEST(EventTraceTest, GenerationsOfAJobFollowOneAnother) {
  EXPECT_THAT(
      Slices({Line(0, "joined", -1, R"(,"host":"n1","workers":2)"), Line(1, "formed", 0),
              Line(2, "started", 0), Line(5, "saving", 0, R"(,"reason":"drain")"),
              Line(7, "checkpointed", 0, R"(,"step":40)"), Line(8, "stopping", 0),
              Line(9, "restarted", 0), Line(10, "formed", 1), Line(12, "finished", 1)}),
      ElementsAre("job train/generations: forming generation 0 1+1", "job train/saves: saving 5+2",
                  "job train/saves: checkpoint of step 40 at 7",
                  "job train/generations: generation 0 2+6",
                  "job train/generations: stopping generation 0 8+1",
                  "job train/generations: restarted at 9",
                  "job train/generations: forming generation 1 10+2",
                  "job train/generations: finished at 12", "n1 (job train)/node: in the job 0+12"));
}

// Two agents on n1.
const char kPlaced[] = R"(,"placed":[{"host":"n1","agent":"a","first_rank":0,"workers":2},)"
                       R"({"host":"n1","agent":"b","first_rank":2,"workers":1}])";

TEST(EventTraceTest, WhatStillRunsLastsUntilNow) {
  const auto slices = Slices({Line(0, "joined", -1, R"(,"host":"n1","agent":"a")"),
                              Line(1, "formed", 0, kPlaced), Line(2, "started", 0)},
                             /*now=*/42);
  EXPECT_THAT(slices, Contains("job train/generations: generation 0 2+40"));
  EXPECT_THAT(slices, Contains("n1 (job train)/node: in the job 0+42"));
  EXPECT_THAT(slices, Contains("n1 (job train)/rank 1: generation 0 2+40"));
}

TEST(EventTraceTest, RanksAreThreadsOfTheirNodesUntilTheirGenerationEnds) {
  const auto slices = Slices(
      {Line(1, "formed", 0, kPlaced), Line(2, "started", 0),
       Line(6, "failed", 0, R"(,"cause":{"host":"n1","rank":2,"description":"rank 2: SIGKILL"})"),
       Line(8, "restarted", 0), Line(9, "formed", 1, kPlaced), Line(10, "started", 1),
       Line(12, "finished", 1)},
      /*now=*/42);
  EXPECT_THAT(slices, Contains("n1 (job train)/rank 0: generation 0 2+6"));
  EXPECT_THAT(slices, Contains("n1 (job train)/rank 1: generation 1 10+2"));
  EXPECT_THAT(slices, Contains("n1#2 (job train)/rank 2: generation 0 2+4"));
  EXPECT_THAT(slices, Contains("n1#2 (job train)/rank 2: failed at 6"));
  EXPECT_THAT(slices, Not(Contains(HasSubstr("+30")))) << "nothing lasts longer than the job";
}

TEST(EventTraceTest, TwoAgentsOnOneHostAreTwoProcesses) {
  EXPECT_THAT(
      Slices({Line(0, "joined", -1, R"(,"host":"n1","agent":"a")"),
              Line(1, "joined", -1, R"(,"host":"n1","agent":"b")"),
              Line(3, "lost", 0, R"(,"host":"n1","agent":"b")"),
              Line(4, "joined", 0, R"(,"host":"n1","agent":"c")"),
              Line(6, "left", 0, R"(,"host":"n1","agent":"a")"), Line(7, "finished", 0)},
             /*now=*/42),
      ElementsAre("n1#2 (job train)/node: in the job 1+2", "n1#2 (job train)/node: lost at 3",
                  "n1 (job train)/node: in the job 0+6", "n1 (job train)/node: left at 6",
                  "job train/generations: finished at 7", "n1#2 (job train)/node: in the job 4+3"));
}

TEST(EventTraceTest, TheRankThatFailedAndItsVictimsAreThreadsOfTheirNodes) {
  const std::string cause =
      R"(,"cause":{"host":"n1","rank":3,"description":"rank 3: SIGKILL","victims":)"
      R"([{"host":"n2","rank":5,"why":"after rank 3 had ended"}]})";
  const auto slices = Slices({Line(2, "started", 0), Line(6, "failed", 0, cause)});
  EXPECT_THAT(slices, Contains("n1 (job train)/rank 3: generation 0 2+4"));
  EXPECT_THAT(slices, Contains("n1 (job train)/rank 3: failed at 6"));
  EXPECT_THAT(slices, Contains("n2 (job train)/rank 5: victim at 6"));
}

TEST(EventTraceTest, PhasesOfARestartEndWithTheFirstStep) {
  EXPECT_THAT(
      Slices({Line(20, "resumed", 1, R"(,"host":"n1","phases_ms":{"stop":2000.0,"init":5000})")}),
      ElementsAre("n1 (job train)/restarts: init 15+5", "n1 (job train)/restarts: stop 13+2"));
}

TEST(EventTraceTest, ANodeThatIsCutOffIsSeen) {
  EXPECT_THAT(
      Slices({Line(1, "joined", 0, R"(,"host":"n1")"),
              Line(2, "disconnected", 0, R"(,"host":"n1")"),
              Line(5, "lost", 0, R"(,"host":"n1","reason":"not heard")")}),
      ElementsAre("n1 (job train)/node: in the job 1+1", "n1 (job train)/node: lost contact 2+3",
                  "n1 (job train)/node: lost at 5"));
}

TEST(EventTraceTest, WhatIsNoEventIsLeftOut) {
  EXPECT_THAT(Slices({"", "no JSON", "[]", R"({"event":"joined"})",
                      R"({"time":"soon","job":"train","event":"joined","host":"n1"})",
                      R"({"time":"2026-11-21T08:54:00Z","event":"dropped","lines":3})",
                      Line(1, "failed", 0, R"(,"cause":{"rank":"x","host":7,"victims":3})"),
                      Line(2, "resumed", 0, R"(,"host":"n1","phases_ms":[1])")}),
              ElementsAre("job train/generations: failed at 1"));
}

}  // namespace event_trace_test
}  // namespace ddprun
