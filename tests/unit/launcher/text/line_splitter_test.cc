#include "launcher/text/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace line_splitter_test {

using ::testing::ElementsAre;

struct Collected {
  std::vector<std::string> parts;
  LineSplitter splitter{[this](std::string_view lines) { parts.emplace_back(lines); }};
};

TEST(LineSplitterTest, GivesWholeLinesTogetherAndKeepsTheHalfOne) {
  Collected c;
  c.splitter.Feed("one\ntwo\nthr");
  EXPECT_THAT(c.parts, ElementsAre("one\ntwo\n"));
  c.splitter.Feed("ee");
  c.splitter.Feed("\n\nfo");
  EXPECT_THAT(c.parts, ElementsAre("one\ntwo\n", "three\n", "\n"));
  c.splitter.Finish();
  EXPECT_THAT(c.parts, ElementsAre("one\ntwo\n", "three\n", "\n", "fo"));
  c.splitter.Finish();
  EXPECT_EQ(c.parts.size(), 4u);
}

struct CollectedBars {
  std::vector<std::string> lines;
  std::vector<std::string> bars;
  LineSplitter splitter{[this](std::string_view text) { lines.emplace_back(text); },
                        [this](std::string_view text) { bars.emplace_back(text); }};
};

TEST(LineSplitterTest, AnUnfinishedLineWithCarriageReturnsIsABarEachTimeItChanges) {
  CollectedBars c;
  c.splitter.Feed("hello\n\r  0%|");
  c.splitter.Feed("\r 50%|\r 51%|");
  c.splitter.Feed("#");  // the rest of the bar, in a second write
  c.splitter.Feed("\r100%|");
  EXPECT_THAT(c.bars, ElementsAre("  0%|", " 51%|", " 51%|#", "100%|"));
  EXPECT_THAT(c.lines, ElementsAre("hello\n"));
  c.splitter.Feed("\nbye\n");
  EXPECT_EQ(c.bars.size(), 4u);
  EXPECT_THAT(c.lines, ElementsAre("hello\n", "\r100%|\n", "bye\n"));
}

TEST(LineSplitterTest, ABarMayHaveItsCarriageReturnsBehind) {
  CollectedBars c;
  c.splitter.Feed("50%\r");
  c.splitter.Feed("51%");
  c.splitter.Feed("\r");
  c.splitter.Feed("   \r");  // the program clears its bar
  EXPECT_THAT(c.bars, ElementsAre("50%", "51%", "51%", "   "));
  c.splitter.Finish();
  EXPECT_EQ(c.lines.size(), 1u);
}

TEST(LineSplitterTest, AHalfLineWithoutCarriageReturnsIsNoBarAndLineEndsOfDosAreNone) {
  CollectedBars c;
  c.splitter.Feed("Loading...");
  c.splitter.Feed(" done\r\nx");
  EXPECT_TRUE(c.bars.empty());
  EXPECT_THAT(c.lines, ElementsAre("Loading... done\r\n"));
}

TEST(LineSplitterTest, ABarThatIsDrawnForEverTakesNoMemoryAndIsNeverCutIntoALine) {
  CollectedBars c;
  for (int i = 0; i < 20000; ++i) c.splitter.Feed("\r step " + std::to_string(i) + " of many");
  EXPECT_TRUE(c.lines.empty());
  EXPECT_EQ(c.bars.back(), " step 19999 of many");
}

TEST(LineSplitterTest, EveryCutOfTheStreamGivesTheSameLines) {
  const std::string text("a\n\nbc\r\n\0\xff\xfe x\nlast", 17);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Collected c;
    c.splitter.Feed(text.substr(0, cut));
    c.splitter.Feed(text.substr(cut));
    std::string before_finish;
    for (const std::string& part : c.parts) before_finish += part;
    EXPECT_EQ(before_finish, text.substr(0, text.rfind('\n') + 1)) << cut;
    c.splitter.Finish();
    EXPECT_EQ(c.parts.back(), "last") << cut;
  }
}

TEST(LineSplitterTest, AVeryLongLineComesInPiecesOfAtMost64KiB) {
  const std::string line(LineSplitter::kMaxLineBytes * 3 + 5, 'x');
  Collected c;
  for (std::size_t at = 0; at < line.size(); at += 1000) c.splitter.Feed(line.substr(at, 1000));
  c.splitter.Feed("\n");
  ASSERT_EQ(c.parts.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(c.parts[i].size(), LineSplitter::kMaxLineBytes);
  EXPECT_EQ(c.parts[3], "xxxxx\n");
}

TEST(LineSplitterTest, ALineOfExactlyTheLimitIsOnePiece) {
  Collected c;
  c.splitter.Feed("a");
  c.splitter.Feed(std::string(LineSplitter::kMaxLineBytes - 1, 'x') + "\n");
  EXPECT_EQ(c.parts.size(), 1u);
}

TEST(LineSplitterTest, PiecesAreCutBetweenCharactersButInvalidTextIsCutAnyway) {
  Collected c;
  c.splitter.Feed(std::string(LineSplitter::kMaxLineBytes - 1, 'x') + "\xe2\x82\xac" + "tail\n");
  // A line that comes whole in one Feed() is not cut. Only a line without its end is cut.
  c.parts.clear();
  c.splitter.Feed(std::string(LineSplitter::kMaxLineBytes - 1, 'x') + "\xe2\x82\xac" + "tail");
  ASSERT_EQ(c.parts.size(), 1u);
  EXPECT_EQ(c.parts[0].size(), LineSplitter::kMaxLineBytes - 1);
  c.splitter.Finish();
  EXPECT_EQ(c.parts[1], "\xe2\x82\xactail");

  Collected invalid;
  invalid.splitter.Feed(std::string(LineSplitter::kMaxLineBytes + 9, '\x80'));
  ASSERT_EQ(invalid.parts.size(), 1u);
  EXPECT_EQ(invalid.parts[0].size(), LineSplitter::kMaxLineBytes);
}

std::string Numbered(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(LineTailTest, KeepsOfAProgressBarWhatATerminalWould) {
  LineTail tail;
  tail.Add("\r  0%\r 50%\r100%\nfailed\r\n");
  EXPECT_THAT(tail.Lines(), ElementsAre("100%", "failed"));
}

TEST(LineTailTest, KeepsTheLastTwentyLinesWhateverTheChunks) {
  for (const int chunk : {1, 3, 19, 20, 21, 100}) {
    LineTail tail;
    for (int i = 0; i < 100; i += chunk) tail.Add(Numbered(i, std::min(i + chunk, 100)));
    const std::vector<std::string> lines = tail.Lines();
    ASSERT_EQ(lines.size(), LineTail::kMaxLines) << chunk;
    EXPECT_EQ(lines.front(), "80") << chunk;
    EXPECT_EQ(lines.back(), "99") << chunk;
  }
}

TEST(LineTailTest, KeepsEmptyLinesAndAHalfLine) {
  LineTail tail;
  tail.Add("\n");
  tail.Add("\n\na\n\n");
  tail.Add("half");
  EXPECT_THAT(tail.Lines(), ElementsAre("", "", "", "a", "", "half"));
}

TEST(LineTailTest, IsBoundedInBytes) {
  LineTail tail;
  tail.Add("first\n");
  for (int i = 0; i < 3; ++i) tail.Add(std::string(3000, 'x') + "\n");
  EXPECT_EQ(tail.Lines().size(), 2u);
  std::string huge(100000, 'y');
  huge[0] = 'E';
  tail.Add(huge);
  ASSERT_EQ(tail.Lines().size(), 1u);
  EXPECT_EQ(tail.Lines()[0].size(), LineTail::kMaxBytes);
  EXPECT_EQ(tail.Lines()[0][0], 'E');
}

}  // namespace line_splitter_test
}  // namespace ddprun
