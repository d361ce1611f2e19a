#include "launcher/text/log_format.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace log_format_test {

TEST(LogFormatTest, ATerminalHasColoursUnlessNoColorIsSetAndIsAPipeWhenItIsDumb) {
  const auto expect = [](const ConsoleStyle& style, bool terminal, bool colour) {
    EXPECT_EQ(style.terminal, terminal);
    EXPECT_EQ(style.colour, colour);
  };
  expect(StyleFor(true, "xterm-256color", ""), true, true);
  expect(StyleFor(true, "xterm", "1"), true, false);
  expect(StyleFor(true, "dumb", ""), false, false);
  expect(StyleFor(true, "", ""), false, false);
  expect(StyleFor(false, "xterm", ""), false, false);
}

TEST(LogFormatTest, RanksAreWrittenAsRanges) {
  EXPECT_EQ(FormatRanks({}), "");
  EXPECT_EQ(FormatRanks({3}), "3");
  EXPECT_EQ(FormatRanks({0, 1}), "0-1");
  EXPECT_EQ(FormatRanks({0, 1, 2, 5, 7, 8, 9, 10}), "0-2,5,7-10");
  EXPECT_EQ(FormatRanks({0, 2, 4}), "0,2,4");
}

TEST(LogFormatTest, TheDefaultPrefixIsTorchrunsWithTheGlobalRank) {
  EXPECT_EQ(ExpandPrefix(kDefaultPrefixTemplate, {"trainer", "11", "3"}), "[trainer11]:");
  EXPECT_EQ(ExpandPrefix(kDefaultPrefixTemplate, {"default", "8-15", "0-7"}), "[default8-15]:");
}

TEST(LogFormatTest, PrefixesAreExpandedByTheRulesOfPythonsTemplate) {
  const PrefixValues values{"default", "5", "1"};
  EXPECT_EQ(ExpandPrefix("[rank${rank}]: ", values), "[rank5]: ");
  EXPECT_EQ(ExpandPrefix("$role_name:$rank/${local_rank}|", values), "default:5/1|");
  EXPECT_EQ(ExpandPrefix("$$rank $$$rank", values), "$rank $5");
  EXPECT_EQ(ExpandPrefix("${ranks} $rank_ ${rank $ ${} $9 ${}$", values),
            "${ranks} $rank_ ${rank $ ${} $9 ${}$");
  EXPECT_EQ(ExpandPrefix("", values), "");
  EXPECT_EQ(ExpandPrefix("plain", values), "plain");
  // Values that contain variables are not expanded again.
  EXPECT_EQ(ExpandPrefix("${role_name}", {"${rank}", "5", "1"}), "${rank}");
}

TEST(LogFormatTest, NeighbouringRanksHaveDifferentColours) {
  EXPECT_EQ(ColourPrefix("[default0]:", 0), "\x1b[36m[default0]:\x1b[0m");
  EXPECT_EQ(ColourPrefix("[default1]:", 1), "\x1b[32m[default1]:\x1b[0m");
  EXPECT_EQ(ColourPrefix("p", 6), ColourPrefix("p", 0));
  EXPECT_EQ(ColourPrefix("", 3), "");
}

TEST(LogFormatTest, WhatACarriageReturnOverwritesIsGone) {
  EXPECT_EQ(AfterCarriageReturn("plain"), "plain");
  EXPECT_EQ(AfterCarriageReturn("dos\r"), "dos");
  EXPECT_EQ(AfterCarriageReturn("\r 10%\r 20%"), " 20%");
  EXPECT_EQ(AfterCarriageReturn(" 10%\r 20%\r"), " 20%");
  EXPECT_EQ(AfterCarriageReturn("\r     \r"), "     ");
  EXPECT_EQ(AfterCarriageReturn("\r"), "");
  EXPECT_EQ(AfterCarriageReturn(""), "");
}

}  // namespace log_format_test
}  // namespace ddprun
