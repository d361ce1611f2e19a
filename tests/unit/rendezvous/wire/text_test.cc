#include "rendezvous/wire/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun::wire {
namespace text_test {

TEST(CleanTextTest, LeavesWellFormedTextAsItIs) {
  const std::string text = "loss ↓ 0.5, naïve, 𝛼 = 1";
  EXPECT_EQ(CleanText(text, 4096), text);
  EXPECT_EQ(CleanText("", 4096), "");
}

TEST(CleanTextTest, ReplacesEachByteThatIsNotPartOfACharacter) {
  EXPECT_EQ(CleanText("a\xFF"
                      "b",
                      99),
            "a\uFFFDb");
  EXPECT_EQ(CleanText("\xC3", 99), "\uFFFD");                                // cut short
  EXPECT_EQ(CleanText("\xC0\xAF", 99), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(CleanText("\xED\xA0\x80", 99), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(CleanText("\xF4\x90\x80\x80", 99), "\uFFFD\uFFFD\uFFFD\uFFFD");  // past U+10FFFF
}

TEST(CleanTextTest, CutsBetweenTwoCharactersAndSaysSo) {
  EXPECT_EQ(CleanText("abcdef", 6), "abcdef");
  EXPECT_EQ(CleanText("abcdefg", 6), "abc…");
  EXPECT_EQ(CleanText("aéééé", 7), "aé…");
}

}  // namespace text_test
}  // namespace ddprun::wire
