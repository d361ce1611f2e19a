#include "launcher/text/hang_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {
namespace hang_text_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two ranks that wait, and `others` ranks that each do something else.
HangStacks Hang(int others) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1}) {
    tree.Add(rank, ThreadKind::kMain, {{"main", "m.cc", 1, "m"}, {"Wait", "", 0, "m"}});
    tree.Add(rank, ThreadKind::kOther, {{"Loop", "", 0, "m"}});
  }
  for (int i = 0; i < others; ++i) {
    tree.Add(2 + i, ThreadKind::kMain,
             {{"main", "m.cc", 1, "m"}, {absl::StrCat("Load", i), "d\xFF.cc", 88, "m"}});
  }
  HangStacks hang;
  hang.verdict = {"job j hangs", "rank 2 is in Load0"};
  hang.missing = {"n3"};
  hang.tree = std::make_shared<EncodedStackTree>(tree.Encode());
  return hang;
}

TEST(HangTextTest, TheConsoleHasTheMainThreads) {
  EXPECT_THAT(HangTreeLines(Hang(1), 40),
              ElementsAre("3 main m.cc:1", "├ 2 [0-1] Wait", "└ 1 [2] Load0 d\xFF.cc:88"));
}

TEST(HangTextTest, TheConsoleHasNoMoreThanSoManyLines) {
  const auto lines = HangTreeLines(Hang(100), 10);
  ASSERT_EQ(lines.size(), 10u);
  EXPECT_EQ(lines.back(), "...");
}

TEST(HangTextTest, TheFilesHaveTheVerdictAndAllThreads) {
  const std::string text = HangFileText(Hang(1));
  EXPECT_THAT(text, HasSubstr("job j hangs\nrank 2 is in Load0\n\n3 main"));
  EXPECT_THAT(text, HasSubstr("other threads:\n2 [0-1] Loop"));
  const auto json = nlohmann::json::parse(HangFileJson(Hang(1), "j", Generation{4}));
  EXPECT_EQ(json["job"], "j");
  EXPECT_EQ(json["generation"], 4);
  EXPECT_EQ(json["verdict"].size(), 2u);
  EXPECT_EQ(json["missing"].dump(), "[\"n3\"]");
  EXPECT_EQ(json["stacks"]["ranks"].dump(), "[[0,2]]");
  EXPECT_EQ(json["stacks"]["other"][0]["function"], "Loop");
}

TEST(HangTextTest, ATreeThatIsNotWellFormedIsNotShown) {
  HangStacks hang = Hang(1);
  EncodedStackTree bad = *hang.tree;
  bad.nodes[0].frame = 77;
  hang.tree = std::make_shared<EncodedStackTree>(bad);
  EXPECT_THAT(HangTreeLines(hang, 40), IsEmpty());
  EXPECT_TRUE(nlohmann::json::parse(HangFileJson(hang, "j", Generation{0}))["stacks"].is_null());
}

}  // namespace hang_text_test
}  // namespace ddprun
