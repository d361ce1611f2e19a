#include "launcher/text/top/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::top {
namespace screen_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ScreenTest, OnlyLinesThatChangedAreSent) {
  Screen screen;
  const Size size{3, 20};
  EXPECT_EQ(screen.Show({{"one"}, {"two"}}, size), "\x1b[2J\x1b[1;1H\x1b[Kone\x1b[2;1H\x1b[Ktwo");
  EXPECT_EQ(screen.Show({{"one"}, {"two"}}, size), "");
  EXPECT_EQ(screen.Show({{"one"}, {"2"}}, size), "\x1b[2;1H\x1b[K2");
  EXPECT_EQ(screen.Show({{"one"}}, size), "\x1b[2;1H\x1b[K") << "a line that is gone is erased";
}

TEST(ScreenTest, AnotherSizeDrawsAllAnew) {
  Screen screen;
  (void)screen.Show({{"one"}}, {3, 20});
  EXPECT_THAT(screen.Show({{"one"}}, {4, 20}), HasSubstr("one"));
}

TEST(ScreenTest, WhatDoesNotFitIsCut) {
  Screen screen;
  const std::string out = screen.Show({{"12345678"}, {"next"}, {"below"}}, {2, 5});
  EXPECT_THAT(out, HasSubstr("1234…"));
  EXPECT_THAT(out, Not(HasSubstr("below")));
}

TEST(ScreenTest, ASelectedLineIsABar) {
  Screen screen;
  EXPECT_THAT(screen.Show({{"ab", Style::kSelected}}, {1, 4}), HasSubstr("\x1b[7mab  \x1b[m"));
}

TEST(ScreenTest, CharactersOfSeveralBytesCountOnce) {
  EXPECT_EQ(Width("äöü"), 3u);
  EXPECT_EQ(Cut("äöü", 3), "äöü");
  EXPECT_EQ(Cut("äöüß", 3), "äö…");
  EXPECT_EQ(Fill("ä", 3), "ä  ");
  EXPECT_EQ(Cut("abc", 0), "");
}

}  // namespace screen_test
}  // namespace ddprun::top
