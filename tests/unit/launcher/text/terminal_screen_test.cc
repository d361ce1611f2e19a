// The exact bytes sent to a terminal, and the resulting screen of a small model of a terminal.
#include "launcher/text/terminal_screen.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ddprun {
namespace terminal_screen_test {

const char kBar[] = "\r\x1b[?7l";           // opens every bar
const char kEndOfBar[] = "\x1b[K\x1b[?7h";  // closes it
const char kErase[] = "\r\x1b[K";

class TerminalScreenTest : public testing::Test {
 protected:
  std::string Lines(std::string_view prefix, std::string_view lines) {
    std::string out;
    screen_.Lines(prefix, lines, &out);
    return out;
  }
  std::string Bar(int id, std::string_view prefix, std::string_view text) {
    std::string out;
    screen_.Bar(id, prefix, text, &out);
    return out;
  }
  static std::string Drawn(const std::string& bar) { return kBar + bar + kEndOfBar; }

  TerminalScreen screen_;
};

TEST_F(TerminalScreenTest, LinesAloneAreAsInAPipe) {
  EXPECT_EQ(Lines("[r0]:", "one\n\ntwo"), "[r0]:one\n[r0]:\n[r0]:two\n");
  EXPECT_EQ(Lines("[r0]:", ""), "");
}

TEST_F(TerminalScreenTest, ABarIsDrawnWithItsPrefixOncePerRedraw) {
  EXPECT_EQ(Bar(0, "[default0]:", " 45%|███"), "\r\x1b[?7l[default0]: 45%|███\x1b[K\x1b[?7h");
  EXPECT_EQ(Bar(0, "[default0]:", " 46%|███"), "\r\x1b[?7l[default0]: 46%|███\x1b[K\x1b[?7h");
}

TEST_F(TerminalScreenTest, LinesTakeTheRowOfTheBarWhichIsDrawnAnewBelow) {
  Bar(0, "[r0]:", "45%");
  EXPECT_EQ(Lines("[r1]:", "hello\nworld\n"),
            kErase + std::string("[r1]:hello\n[r1]:world\n") + Drawn("[r0]:45%"));
}

TEST_F(TerminalScreenTest, ABarThatIsTakenAwayLeavesItsRowEmpty) {
  Bar(0, "[r0]:", "45%");
  EXPECT_EQ(Bar(0, "[r0]:", "     "), kErase);
  EXPECT_EQ(Lines("[r0]:", "done\n"), "[r0]:done\n");
  EXPECT_EQ(Bar(0, "[r0]:", ""), "") << "there was none any more";
}

TEST_F(TerminalScreenTest, TheLowestOfSeveralBarsIsShown) {
  EXPECT_EQ(Bar(2, "[r1]:", "a"), Drawn("[r1]:a"));
  EXPECT_EQ(Bar(4, "[r2]:", "b"), "");
  EXPECT_EQ(Bar(0, "[r0]:", "c"), Drawn("[r0]:c")) << "it takes the row over";
  EXPECT_EQ(Bar(2, "[r1]:", "d"), "");
  EXPECT_EQ(Bar(2, "[r1]:", ""), "") << "not the one that is shown";
  EXPECT_EQ(Bar(0, "[r0]:", ""), kErase);
  EXPECT_EQ(Bar(4, "[r2]:", "e"), Drawn("[r2]:e"));
}

TEST_F(TerminalScreenTest, OfALineWithCarriageReturnsTheEndIsShown) {
  EXPECT_EQ(Lines("[r0]:", "\r 99%\r100%\ndos\r\n"), "[r0]:100%\n[r0]:dos\n");
}

TEST_F(TerminalScreenTest, ABarKeepsItsColoursAndLosesWhatMovesTheCursor) {
  EXPECT_EQ(Bar(0, "p", "\x1b[32m50%\x1b[0m\x1b[A\x1b[2Kx"), Drawn("p\x1b[32m50%\x1b[0mx"));
  EXPECT_EQ(Bar(0, "p", "50%\x1b["), Drawn("p50%")) << "cut within a sequence";
}

TEST_F(TerminalScreenTest, ABarIsBoundedAndNotCutWithinACharacter) {
  std::string text = "x";
  while (text.size() < TerminalScreen::kMaxBarBytes + 100) text += "█";
  const std::string drawn = Bar(0, "", text);
  const std::string bar =
      drawn.substr(sizeof kBar - 1, drawn.size() - sizeof kBar - sizeof kEndOfBar + 2);
  EXPECT_LE(bar.size(), TerminalScreen::kMaxBarBytes);
  EXPECT_GT(bar.size(), TerminalScreen::kMaxBarBytes - 3);
  EXPECT_EQ((bar.size() - 1) % 3, 0u);
}

// The parts of a terminal that are used: rows, a cursor, wrapping, erasing to the end of the row.
class Model {
 public:
  explicit Model(std::size_t width) : width_(width) {}

  void Write(std::string_view text) {
    while (!text.empty()) {
      std::size_t size = 1;
      if (text.starts_with("\x1b[K")) {
        rows_.back().resize(column_);
        size = 3;
      } else if (text.starts_with("\x1b[?7l") || text.starts_with("\x1b[?7h")) {
        wrap_ = text[4] == 'h';
        size = 5;
      } else if (text[0] == '\r') {
        column_ = 0;
      } else if (text[0] == '\n') {
        rows_.emplace_back();
        column_ = 0;  // a tty in cooked mode
      } else {
        Put(text[0]);
      }
      text.remove_prefix(size);
    }
  }

  const std::vector<std::string>& rows() const { return rows_; }

 private:
  void Put(char c) {
    if (column_ == width_) {
      if (wrap_) {
        rows_.emplace_back();
        column_ = 0;
      } else {
        column_ = width_ - 1;
      }
    }
    rows_.back().resize(std::max(rows_.back().size(), column_ + 1), ' ');
    rows_.back()[column_++] = c;
  }

  const std::size_t width_;
  std::vector<std::string> rows_{""};
  std::size_t column_ = 0;
  bool wrap_ = true;
};

// Proved to fail: when wrapping stays on, or when the row is not erased before lines.
TEST_F(TerminalScreenTest, WhateverComesEveryLineStandsWholeAndOnlyTheBarIsBelow) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    TerminalScreen screen;
    Model terminal(40);
    std::vector<std::string> expected;
    std::string bar;
    for (int i = 0; i < 300; ++i) {
      std::string out;
      const std::string text(1 + random() % 60, static_cast<char>('a' + random() % 26));
      if (random() % 2 == 0) {
        const bool gone = random() % 8 == 0;
        screen.Bar(0, "[r0]:", gone ? "" : text, &out);
        bar = gone ? "" : "[r0]:" + text;
      } else {
        const std::string line = text.substr(0, 30);
        screen.Lines("[r1]:", line + "\n", &out);
        expected.push_back("[r1]:" + line);
      }
      terminal.Write(out);
    }
    std::vector<std::string> rows = terminal.rows();
    const std::string last = rows.back();
    rows.pop_back();
    EXPECT_EQ(rows, expected);
    // The last column of a bar that is too long is not compared: terminals differ there.
    EXPECT_EQ(last.substr(0, 39), bar.substr(0, 39));
  }
}

}  // namespace terminal_screen_test
}  // namespace ddprun
