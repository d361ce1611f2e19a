#include "rendezvous/http/page/generation_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "rendezvous/stacks/stack_text.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun::http {
namespace generation_history_test {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

class GenerationHistoryTest : public testing::Test {
 protected:
  void On(std::int64_t at, int generation, const std::string& event, Json more = Json::object()) {
    Json line = {{"epoch", 0}, {"generation", generation}, {"event", event}};
    line.update(more);
    history_.OnLine(line, at);
  }
  Json Shown(bool redacted = false) { return history_.ToJson(10'000, redacted); }

  GenerationHistory history_;
};

TEST_F(GenerationHistoryTest, AGenerationIsToldFromItsFormingToItsEnd) {
  On(1000, 0, "formed");
  On(2000, 0, "started");
  On(5000, 0, "failed", {{"cause", {{"description", "rank 1 on n2: SIGKILL"}}}});
  On(5100, 0, "stopping", {{"reason", "a worker failed"}});
  On(6000, 0, "restarted", {{"reason", "restart 1 of 3"}});
  On(6100, 1, "formed");
  const Json shown = Shown();
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0]["formed_ms_ago"], 9000);
  EXPECT_EQ(shown[0]["started_ms_ago"], 8000);
  EXPECT_EQ(shown[0]["stopping_ms_ago"], 4900);
  EXPECT_EQ(shown[0]["ended_ms_ago"], 4000);
  EXPECT_EQ(shown[0]["why"], "rank 1 on n2: SIGKILL");
  EXPECT_EQ(shown[1]["generation"], 1);
  EXPECT_TRUE(shown[1]["started_ms_ago"].is_null());
  EXPECT_EQ(Shown(/*redacted=*/true)[0]["why"], "");
}

TEST_F(GenerationHistoryTest, ThePhasesAreThoseOfTheSlowestNode) {
  On(1000, 1, "formed");
  On(2000, 1, "resumed", {{"total_ms", 300.0}, {"phases_ms", {{"restore", 300.0}}}});
  On(2100, 1, "resumed", {{"total_ms", 200.0}, {"phases_ms", {{"restore", 200.0}}}});
  EXPECT_EQ(Shown()[0]["phases_ms"]["restore"], 300.0);
}

TEST_F(GenerationHistoryTest, AJobThatBeginsAnewUnderItsNameForgetsTheOldOne) {
  On(1000, 0, "formed");
  On(2000, 0, "finished", {{"reason", "done"}});
  On(3000, 0, "formed");
  const Json shown = Shown();
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0]["formed_ms_ago"], 7000);
  EXPECT_EQ(shown[0]["why"], "");
}

TEST_F(GenerationHistoryTest, SoManyAreKept) {
  for (int generation = 0; generation < 200; ++generation) On(generation, generation, "formed");
  EXPECT_EQ(Shown().size(), GenerationHistory::kKept);
  EXPECT_EQ(Shown().back()["generation"], 199);
}

// Most hangs end with a restart, and people look at the stacks after it.
TEST_F(GenerationHistoryTest, TheStacksOfAHangStayUntilTheNextOne) {
  const auto stacks_of = [](const char* function) {
    StackTree tree;
    tree.Add(0, ThreadKind::kMain, {{function, "train.py", 3, "python"}});
    return Json{{"stacks", ToJson(tree, "rank")}};
  };
  On(1000, 0, "formed");
  On(2000, 0, "hung", stacks_of("first"));
  On(3000, 0, "restarted");
  On(4000, 1, "formed");
  On(5000, 1, "moved_again");
  ASSERT_TRUE(history_.last_hang());
  EXPECT_EQ(history_.last_hang()->generation, 0);
  EXPECT_THAT(history_.last_hang()->stacks, HasSubstr("first train.py:3"));
  On(6000, 1, "hung", stacks_of("second"));
  EXPECT_EQ(history_.last_hang()->generation, 1);
  EXPECT_THAT(history_.last_hang()->stacks, HasSubstr("second train.py:3"));
  On(7000, 0, "formed");  // the job begins anew under its name
  On(8000, 0, "formed");
  EXPECT_FALSE(history_.last_hang());
}

// "Take the stacks now" on the page, `ddprun stacks` and the history all look the same.
TEST_F(GenerationHistoryTest, TheStacksOfAHangAreWrittenAsStacksThatWereAskedFor) {
  StackTree tree;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const bool late = rank == 3;
    tree.Add(rank, ThreadKind::kMain,
             {{"main", "train.py", 3, "python"},
              {late ? "load" : "all_reduce", late ? "data.py" : "dist.py", 7, "python"},
              {late ? "" : "poll", "", 0, late ? "libx.so" : "libc.so"}});
    tree.Add(rank, ThreadKind::kOther, {{"run", "pool.cc", 9, "libtorch.so"}});
  }
  tree.Add(RankNote{3, RankTrouble::kStopped, "stopped by a signal"});
  On(1000, 0, "formed");
  On(2000, 0, "hung", {{"stacks", ToJson(tree, "rank")}});
  ASSERT_TRUE(history_.last_hang());
  EXPECT_EQ(history_.last_hang()->stacks, ToText(tree, {}));
  EXPECT_THAT(history_.last_hang()->stacks, HasSubstr("3 [0-2] all_reduce dist.py:7"));
}

TEST_F(GenerationHistoryTest, LinesOfAnOddShapeAreNoHarm) {
  history_.OnLine(Json::parse("[1]"), 0);
  history_.OnLine(Json::parse("null"), 0);
  history_.OnLine(Json::parse("{\"event\":7}"), 0);
  On(0, 0, "started", {{"epoch", "x"}, {"generation", 1.5}});
  On(1, 0, "formed");
  On(2, 0, "hung", {{"stacks", {{"main", {1, {{"ranks", {1, {2}}}, {"frames", 7}}}}}}});
  On(3, 0, "resumed", {{"total_ms", "x"}, {"phases_ms", 7}});
  On(4, 0, "failed", {{"cause", "odd"}});
  EXPECT_EQ(Shown().size(), 1u);
}

}  // namespace generation_history_test
}  // namespace ddprun::http
