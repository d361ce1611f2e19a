#include "rendezvous/stacks/stack_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace stack_text_test {

const StackFrame kMain = {"main", "/src/trainer.cc", 210, "train"};
StackFrame Step(std::uint32_t line) {
  return {"void Trainer::Step(int)", "/src/trainer.cc", line, "train"};
}
StackFrame Named(const std::string& function) { return {function, "", 0, "lib.so"}; }

StackTree SixteenRanks() {
  StackTree tree;
  for (std::uint32_t rank = 0; rank < 16; ++rank) {
    if (rank == 5) continue;
    tree.Add(rank, ThreadKind::kMain,
             {kMain, Step(151), Named("Reducer::wait"), Named("ProcessGroupGloo::work::wait")});
  }
  tree.Add(5, ThreadKind::kMain,
           {kMain,
            Step(140),
            {"Dataset::Get(unsigned long)", "/src/dataset.cc", 88, "train"},
            Named("read")});
  return tree;
}

std::string TextOf(const StackTree& tree, std::size_t most_in_line = 8) {
  StackTextOptions options;
  options.most_in_line = most_in_line;
  return ToText(tree, options);
}

TEST(StackTextTest, OneOfSixteenRanksIsElsewhere) {
  StackTree tree = SixteenRanks();
  tree.Add(RankNote{5, RankTrouble::kDiskWait, "main thread: D (disk wait), in read(/data/7)"});
  EXPECT_EQ(TextOf(tree),
            "rank 5: main thread: D (disk wait), in read(/data/7)\n"
            "16 main trainer.cc:210 → Trainer::Step\n"
            "├ 15 [0-4,6-15] trainer.cc:151 → Reducer::wait → ProcessGroupGloo::work::wait\n"
            "└  1 [5] trainer.cc:140 → Dataset::Get dataset.cc:88 → read\n");
}

TEST(StackTextTest, OfALongLineTheMiddleIsLeftOut) {
  EXPECT_EQ(TextOf(SixteenRanks(), 3),
            "16 main trainer.cc:210 → Trainer::Step\n"
            "├ 15 [0-4,6-15] trainer.cc:151 → Reducer::wait → ProcessGroupGloo::work::wait\n"
            "└  1 [5] trainer.cc:140 → Dataset::Get dataset.cc:88 → read\n");
  StackTree tree;
  tree.Add(3, ThreadKind::kMain,
           {Named("a"), Named("b"), Named("c"), Named("d"), Named("e"), Named("f")});
  EXPECT_EQ(TextOf(tree, 5), "1 a → … → d → e → f\n");
  EXPECT_EQ(TextOf(tree, 6), "1 a → b → c → d → e → f\n");
  EXPECT_EQ(TextOf(tree, 0), "1 a → b → c → d → e → f\n");
}

TEST(StackTextTest, BranchesInBranchesAndRanksThatGoNoFurther) {
  StackTree tree;
  tree.Add(0, ThreadKind::kMain, {Named("main"), Named("a"), Named("x")});
  tree.Add(1, ThreadKind::kMain, {Named("main"), Named("a"), Named("y")});
  tree.Add(2, ThreadKind::kMain, {Named("main"), Named("b")});
  tree.Add(3, ThreadKind::kMain, {Named("main")});
  tree.Add(4, ThreadKind::kMain, {{"", "", 0, "libc.so.6"}});
  tree.Add(0, ThreadKind::kOther, {Named("loop")});
  EXPECT_EQ(TextOf(tree),
            "4 [0-3] main\n"
            "├ 2 [0-1] a\n"
            "│ ├ 1 [0] x\n"
            "│ └ 1 [1] y\n"
            "├ 1 [2] b\n"
            "└ 1 [3] (here)\n"
            "1 [4] ?? in libc.so.6\n"
            "other threads:\n"
            "1 [0] loop\n");
}

TEST(StackTextTest, NothingInANameMovesTheCursor) {
  StackTree tree;
  tree.Add(0, ThreadKind::kMain, {{"a\x1b[2J\nb", "/x/c\r.cc", 1, ""}});
  EXPECT_EQ(TextOf(tree), "1 a?[2J?b c?.cc:1\n");
  EXPECT_EQ(TextOf(StackTree()), "");
}

TEST(StackTextTest, JsonHasAllFramesWithTheirRanks) {
  StackTree tree = SixteenRanks();
  tree.Add(RankNote{5, RankTrouble::kStopped, "stopped by a signal"});
  const auto json = ToJson(tree, "rank");
  EXPECT_EQ(json["ranks"].dump(), "[[0,15]]");
  EXPECT_EQ(json["notes"].dump(),
            R"([{"rank":5,"trouble":"stopped","text":"stopped by a signal"}])");
  const auto& step = json["main"][0]["frames"][1];
  EXPECT_EQ(json["main"][0]["count"], 16);
  EXPECT_EQ(step["function"], "void Trainer::Step(int)");
  EXPECT_EQ(step["file"], "/src/trainer.cc");
  EXPECT_EQ(step["line"], 140);
  EXPECT_EQ(step["ranks"].dump(), "[[5,5]]");
  EXPECT_TRUE(step["frames"][0]["frames"][0]["file"].is_null());
  EXPECT_EQ(json["other"].dump(), "[]");
  EXPECT_TRUE(ToJson(tree, "pid").contains("pids"));
}

TEST(StackTextTest, FunctionsAreShortened) {
  EXPECT_EQ(ShortFunction("main"), "main");
  EXPECT_EQ(ShortFunction("void ddp::Trainer<float, int>::Step(std::vector<int>) const"),
            "ddp::Trainer::Step");
  EXPECT_EQ(ShortFunction("(anonymous namespace)::Wait(int)"), "Wait");
  EXPECT_EQ(ShortFunction("ddp::(anonymous namespace)::Wait(int)"), "ddp::Wait");
  EXPECT_EQ(ShortFunction("Run(int)::{lambda(int)#1}::operator()(int) const"),
            "Run::lambda::operator()");
  EXPECT_EQ(ShortFunction("std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)()> > "
                          ">::_M_run()"),
            "std::thread::_State_impl::_M_run");
  EXPECT_EQ(ShortFunction("Foo::operator<(Foo const&)"), "Foo::operator<");
  EXPECT_EQ(ShortFunction("copy(int) [clone .cold]"), "copy");
  EXPECT_EQ(ShortFunction("<module>"), "<module>");
  EXPECT_EQ(ShortFunction("a(b"), "a");
}

}  // namespace stack_text_test
}  // namespace ddprun
