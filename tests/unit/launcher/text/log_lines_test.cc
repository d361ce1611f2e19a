#include "launcher/text/log_lines.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace log_lines_test {

const LogSource kOut3{Generation{0}, Rank{3}, LogStream::kStdout};
const LogSource kErr12{Generation{0}, Rank{12}, LogStream::kStderr};

TEST(LogLinesTest, OneFileIsShownAsItIs) {
  LogLines lines({});
  EXPECT_EQ(lines.Add(kOut3, "half a"), "half a");
  EXPECT_EQ(lines.Add(kOut3, " line\nand \r"), " line\nand \r");
  EXPECT_EQ(lines.End(kOut3), "");
}

TEST(LogLinesTest, LinesOfSeveralFilesSayWhoseTheyAre) {
  LogLines lines({.prefixed = true});
  EXPECT_EQ(lines.Add(kOut3, "step 1\nste"), "[3]:step 1\n");
  EXPECT_EQ(lines.Add(kErr12, "\noops\n"), "[12 stderr]:\n[12 stderr]:oops\n");
  EXPECT_EQ(lines.Add(kOut3, "p 2"), "");
  EXPECT_EQ(lines.End(kOut3), "[3]:step 2\n");
  EXPECT_EQ(lines.End(kErr12), "");
}

TEST(LogLinesTest, OnlyWantedLinesAreShown) {
  LogLines lines({.wanted = [](std::string_view line) { return line.find("loss") != line.npos; }});
  EXPECT_EQ(lines.Add(kOut3, "step 1\nlo"), "");
  EXPECT_EQ(lines.Add(kOut3, "ss 2\nstep 2\nthe loss"), "loss 2\n");
  EXPECT_EQ(lines.End(kOut3), "the loss\n");
}

TEST(LogLinesTest, ALineWithoutAnEndIsBounded) {
  LogLines lines({.prefixed = true});
  const std::string shown = lines.Add(kOut3, std::string(LogLines::kMaxLineBytes, 'x'));
  EXPECT_EQ(shown.size(), LogLines::kMaxLineBytes + 5);
  EXPECT_EQ(lines.End(kOut3), "");
}

}  // namespace log_lines_test
}  // namespace ddprun
