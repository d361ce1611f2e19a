#include "launcher/text/top/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "launcher/text/top/story.h"
#include "rendezvous/json/status_json.h"
#include "tests/unit/launcher/text/running_job.h"

namespace ddprun::top {
namespace model_test {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Name = Key::Name;

JobStatus HungJob() {
  JobStatus job = RunningJob("llama", 2);
  job.progress =
      JobStatus::Progress{seconds(61), seconds(30), "hangs: rank 5 on n1 is in download"};
  return job;
}

class TopModelTest : public testing::Test {
 protected:
  void Take(const std::vector<JobStatus>& jobs) {
    auto snapshot = ParseSnapshot(StatusToJson({}, jobs, 0));
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    model_.TakeSnapshot(*std::move(snapshot));
  }
  std::optional<Request> Press(Name name) { return model_.TakeKey({name}); }
  std::optional<Request> Type(const std::string& text) {
    std::optional<Request> request;
    for (const char letter : text) request = model_.TakeKey({Name::kText, letter});
    return request;
  }
  std::string Screen() const {
    std::string all;
    for (const Line& line : model_.Lines()) absl::StrAppend(&all, line.text, "\n");
    return all;
  }
  std::string Selected() const {
    for (const Line& line : model_.Lines()) {
      if (line.style == Style::kSelected) return line.text;
    }
    return "";
  }

  Model model_{"head:29400", ""};
};

TEST_F(TopModelTest, JobsThatNeedSomebodyComeFirst) {
  Take({RunningJob("a", 2), HungJob()});
  const std::string screen = Screen();
  EXPECT_LT(screen.find("llama"), screen.find(" a "));
  EXPECT_THAT(screen, AllOf(HasSubstr("rendezvous head:29400"), HasSubstr("Hung"),
                            HasSubstr("rank 5 on n1 is in download")));
  Type("s");
  EXPECT_LT(Screen().find(" a "), Screen().find("llama")) << "by name";
}

TEST_F(TopModelTest, TheSelectedJobStaysSelectedWhenOthersComeBeforeIt) {
  Take({RunningJob("a", 2)});
  EXPECT_THAT(Selected(), HasSubstr(">a"));
  Take({RunningJob("a", 2), HungJob()});
  EXPECT_THAT(Selected(), HasSubstr(">a"));
  Take({HungJob()});
  EXPECT_THAT(Selected(), HasSubstr(">llama"));
}

TEST_F(TopModelTest, AJobShowsStateCauseAndWhatHappensNext) {
  Take({HungJob()});
  Press(Name::kEnter);
  EXPECT_THAT(Screen(),
              AllOf(HasSubstr("job llama: Hung"), HasSubstr("  now         for 1 h 1 min"),
                    HasSubstr("  root cause  the job hangs: rank 5 on n1 is in download"),
                    HasSubstr("  next        it goes on by itself if a rank moves"),
                    HasSubstr("1 of 3 restarts used, 2 left"), HasSubstr("n1")));
  Press(Name::kEscape);
  EXPECT_THAT(Screen(), HasSubstr("STEPS/S"));
}

TEST_F(TopModelTest, TheNodeThatIsBehindComesFirst) {
  JobStatus job = RunningJob("a", 30);
  job.nodes[17].step = 100;
  Take({job});
  Press(Name::kEnter);
  EXPECT_THAT(Selected(), AllOf(HasSubstr(">n17"), HasSubstr("20 steps behind")));
  Press(Name::kEnter);
  EXPECT_THAT(Selected(), AllOf(HasSubstr(">136"), HasSubstr("n17")));
  EXPECT_THAT(Screen(), HasSubstr("of 8, by rank"));
}

TEST_F(TopModelTest, ARankThatOthersWaitForIsNamedAndMarked) {
  JobStatus job = RunningJob("a", 30);
  job.measured.straggler_ranks = {Rank{137}};
  Take({job});
  Press(Name::kEnter);
  EXPECT_THAT(Screen(), HasSubstr("straggler: rank 137 keeps the others waiting"));
  EXPECT_THAT(Selected(), AllOf(HasSubstr(">n17"), HasSubstr("straggler")));
  Press(Name::kEnter);
  Press(Name::kDown);
  EXPECT_THAT(Selected(), AllOf(HasSubstr(">137"), HasSubstr("straggler")));
  Press(Name::kUp);
  EXPECT_THAT(Selected(), AllOf(HasSubstr(">136"), Not(HasSubstr("straggler"))));
}

TEST_F(TopModelTest, SparesAreCountedApart) {
  JobStatus job = RunningJob("a", 2);
  for (const char* const host : {"n1", "n8"}) {  // n1 has two agents
    job.nodes.push_back({host, "10.0.1.9", "spare", NodeRank{-1}, Rank{0}, 8, seconds(0), {}});
    job.nodes.back().spare = true;
  }
  Take({job});
  EXPECT_THAT(Selected(), ContainsRegex("Running +1 h 1 min +2 +16 .* 1 of 3 used"));
  Press(Name::kEnter);
  EXPECT_THAT(Screen(), HasSubstr("  2 of 2 nodes and 2 spares; 16 workers"));
  job.nodes.pop_back();
  Take({job});
  EXPECT_THAT(Screen(), HasSubstr("  2 of 2 nodes and 1 spare; 16 workers"));
}

TEST_F(TopModelTest, WhyAHangWouldNotBeNoticedIsSaid) {
  JobStatus job = RunningJob("a", 2);
  Take({job});
  Press(Name::kEnter);
  EXPECT_THAT(Screen(), Not(HasSubstr("hangs are not noticed")));
  job.not_judged = JobStatus::NotJudged{"no worker tells its steps", {}};
  Take({job});
  EXPECT_THAT(Screen(), HasSubstr("hangs are not noticed: no worker tells its steps"));
}

TEST_F(TopModelTest, OrdersAreSentOnlyAfterYes) {
  Take({RunningJob("a", 2)});
  EXPECT_EQ(Type("x"), std::nullopt);
  EXPECT_THAT(Selected(), HasSubstr(">a"));
  EXPECT_THAT(Screen(), HasSubstr("Stop job a now?"));
  EXPECT_EQ(Press(Name::kEnter), std::nullopt) << "Enter is no yes";
  EXPECT_EQ(Type("y"), std::nullopt) << "nothing is asked any more";
  EXPECT_EQ(Type("xy"), (Request{Request::Kind::kStop, "a"}));
  EXPECT_EQ(Type("wy"), (Request{Request::Kind::kSaveAndStop, "a"}));
  EXPECT_EQ(Type("dy"), std::nullopt) << "a job cannot be drained";
  Press(Name::kEnter);
  Press(Name::kDown);
  Type("d");
  EXPECT_THAT(Screen(), HasSubstr("Drain n1? job a saves where it can, and goes on without it."));
  EXPECT_EQ(Type("y"), (Request{Request::Kind::kDrain, "a", "n1"}));
  EXPECT_EQ(Type("t"), (Request{Request::Kind::kStacks, "a"}));
}

TEST_F(TopModelTest, OneOfTwoNodesOnAHostIsDrainedByItsAddress) {
  JobStatus job = RunningJob("a", 2);
  job.nodes[1].host = job.nodes[0].host;
  job.nodes[1].address = "10.0.0.77";
  Take({job});
  Press(Name::kEnter);
  Press(Name::kDown);
  EXPECT_EQ(Type("dy"), (Request{Request::Kind::kDrain, "a", "10.0.0.77"}));
}

TEST_F(TopModelTest, AnOrderNeverGoesToAJobThatTheFilterHides) {
  Take({RunningJob("a", 2)});
  Press(Name::kEnter);
  Press(Name::kEscape);
  Type("/zzz");
  Press(Name::kEnter);
  EXPECT_EQ(Type("xy"), std::nullopt);
}

TEST_F(TopModelTest, AJobThatIsOverTakesNoOrders) {
  JobStatus job = RunningJob("a", 2);
  job.state = JobState::kFailed;
  job.finished = Finished{Outcome::kFailed, 137, "no restart is left", 1, {}, {}};
  Take({job});
  EXPECT_EQ(Type("xy"), std::nullopt);
  Press(Name::kEnter);
  EXPECT_THAT(Screen(), AllOf(HasSubstr("job a: failed"), HasSubstr("exit code 137"),
                              HasSubstr("it does not restart by itself")));
  job.finished->outcome = Outcome::kStateUnreadable;
  Take({job});
  EXPECT_THAT(Screen(), HasSubstr("job a: state unreadable"));
}

TEST_F(TopModelTest, AFilterLeavesRowsOut) {
  Take({RunningJob("alpha", 2), RunningJob("beta", 2)});
  Type("/BE");
  EXPECT_THAT(Screen(), AllOf(HasSubstr("beta"), Not(HasSubstr("alpha")), HasSubstr("filter: BE")));
  Press(Name::kErase);
  Press(Name::kErase);
  EXPECT_THAT(Screen(), HasSubstr("alpha"));
  Type("be");
  Press(Name::kEnter);
  EXPECT_THAT(Screen(), Not(HasSubstr("alpha")));
  Press(Name::kEscape);
  EXPECT_THAT(Screen(), HasSubstr("alpha"));
}

TEST_F(TopModelTest, StepsPerSecondAreThoseOfTheStatus) {
  JobStatus slow = RunningJob("a", 2);
  JobStatus fast = RunningJob("b", 2);
  Take({slow, fast});
  EXPECT_THAT(Screen(), Not(HasSubstr("2.53"))) << "not known yet";
  slow.measured.steps_per_second = 2.53;
  fast.measured.steps_per_second = 40.1;
  Take({slow, fast});
  EXPECT_THAT(Screen(), AllOf(HasSubstr("2.53"), HasSubstr("40.1")));
  Type("ss");
  EXPECT_THAT(Screen(), HasSubstr("by steps/s"));
  EXPECT_LT(Screen().find("40.1"), Screen().find("2.53"));
  Press(Name::kHome);
  Press(Name::kEnter);
  EXPECT_THAT(Screen(), HasSubstr("step 120 (40.1 steps/s)"));
}

TEST_F(TopModelTest, LostContactKeepsWhatWasThere) {
  Take({RunningJob("a", 2)});
  model_.LoseContact("head:29400 cannot be reached");
  EXPECT_THAT(Screen(),
              AllOf(HasSubstr("no contact: head:29400 cannot be reached"), HasSubstr(">a")));
  Take({RunningJob("a", 2)});
  EXPECT_THAT(Screen(), Not(HasSubstr("no contact")));
}

TEST_F(TopModelTest, ManyNodesAreShownByScreens) {
  Take({RunningJob("a", 2000)});
  Press(Name::kEnter);
  EXPECT_THAT(Screen(),
              AllOf(HasSubstr("rows 1 to 15 of 2000"), HasSubstr("n14 "), Not(HasSubstr("n15 "))));
  Press(Name::kEnd);
  EXPECT_THAT(Selected(), HasSubstr(">n1999"));
  Press(Name::kHome);
  Press(Name::kPageDown);
  EXPECT_THAT(Selected(), HasSubstr(">n14 "));
}

TEST_F(TopModelTest, StacksFillTheScreenUntilTheyAreLeft) {
  Take({RunningJob("a", 2)});
  model_.TakeText({Request::Kind::kStacks, "a"}, "2 main train.py:1\nl2\nl3");
  EXPECT_THAT(Screen(), AllOf(HasSubstr("stacks of job a"), HasSubstr("2 main train.py:1")));
  Press(Name::kDown);
  EXPECT_THAT(Screen(), AllOf(Not(HasSubstr("train.py:1")), HasSubstr("l2")));
  EXPECT_EQ(Type("xy"), std::nullopt) << "no row is in sight";
  Press(Name::kEscape);
  EXPECT_THAT(Selected(), HasSubstr(">a"));
}

TEST_F(TopModelTest, TheLogOfTheSelectedRankIsShownFromItsEnd) {
  Take({RunningJob("a", 2)});
  EXPECT_EQ(Type("l"), std::nullopt) << "a job has no log of its own";
  Press(Name::kEnter);
  EXPECT_EQ(Type("l"), std::nullopt) << "nor has a node";
  Type("r");
  Press(Name::kDown);
  const Request log{Request::Kind::kLog, "a", "", 1};
  EXPECT_EQ(Type("l"), log);
  std::string text;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, "line ", i, i < 99 ? "\n" : "");
  model_.TakeText(log, text);
  EXPECT_THAT(Screen(), AllOf(HasSubstr("log of rank 1 of job a"), HasSubstr("line 99"),
                              HasSubstr("line 79"), Not(HasSubstr("line 78"))));
  Press(Name::kHome);
  EXPECT_THAT(Screen(), AllOf(HasSubstr("line 0"), Not(HasSubstr("line 99"))));
  Press(Name::kEnd);
  EXPECT_THAT(Screen(), AllOf(HasSubstr("line 99"), HasSubstr("line 79")));
  EXPECT_EQ(Type("t"), std::nullopt);
  EXPECT_EQ(Type("l"), log) << "its newest lines";
  Press(Name::kEscape);
  EXPECT_THAT(Selected(), HasSubstr(">1 "));
}

TEST_F(TopModelTest, TheLogOfAJobThatIsOverIsShown) {
  JobStatus job = RunningJob("a", 2);
  job.finished = Finished{Outcome::kFailed, 137, "no restart is left", 1, {}, {}};
  Take({job});
  Press(Name::kEnter);
  Type("r");
  EXPECT_EQ(Type("l"), (Request{Request::Kind::kLog, "a", "", 0}));
}

TEST_F(TopModelTest, TextFromElsewhereHasNoControlCharacters) {
  JobStatus job = RunningJob("a\x1b]0;owned\x07", 2);
  Take({job});
  EXPECT_EQ(Screen().find('\x1b'), std::string::npos);
  model_.TakeAnswer("no\x1b[2J");
  EXPECT_EQ(Screen().find('\x1b'), std::string::npos);
  model_.TakeText({Request::Kind::kLog, "a\x1b[2J", "", 0}, "step 1\x1b[2J");
  EXPECT_EQ(Screen().find('\x1b'), std::string::npos);
}

TEST_F(TopModelTest, PlainTextHasAllRowsAndNoKeys) {
  Model one("head:29400", "a");
  auto snapshot = ParseSnapshot(StatusToJson({}, {RunningJob("a", 200)}, 0));
  one.TakeSnapshot(*std::move(snapshot));
  const std::string text = one.PlainText();
  EXPECT_THAT(text, AllOf(HasSubstr("n199"), HasSubstr("  next   "), Not(HasSubstr(">n")),
                          Not(HasSubstr("q quit"))));
}

TEST(TopStoryTest, WhatIsNoStatusIsRefused) {
  EXPECT_FALSE(ParseSnapshot("{}").ok());
  EXPECT_FALSE(ParseSnapshot("nothing").ok());
}

TEST(TopStoryTest, AJobThatIsStillSaysWhenItCountsAsHung) {
  JobStatus job = RunningJob("a", 2);
  job.progress = JobStatus::Progress{seconds(20), seconds(30), ""};
  const auto snapshot = ParseSnapshot(StatusToJson({}, {job}, 0));
  ASSERT_TRUE(snapshot.ok());
  const JobRow& row = snapshot->jobs.front();
  EXPECT_THAT(NextText(row), HasSubstr("it counts as a hang in 10 s"));
  EXPECT_EQ(MoodOf(row), Style::kBusy);
  EXPECT_THAT(NowText(row), HasSubstr("a rank moved 20 s ago (limit 30 s)"));
}

}  // namespace model_test
}  // namespace ddprun::top
