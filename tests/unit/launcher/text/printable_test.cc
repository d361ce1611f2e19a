#include "launcher/text/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace printable_test {

TEST(PrintableTest, LeavesTextAsItIs) {
  const std::string text = "n1: loss ↓ 0.5, naïve, \xC2\xA0no-break; \xFF is no character";
  EXPECT_EQ(Printable(text), text);
}

TEST(PrintableTest, NoControlCharacterIsLeft) {
  EXPECT_EQ(Printable("a\x1b[2Jb\x07\x7f"), "a?[2Jb??");
  EXPECT_EQ(Printable("a\nddprun 03:00:00 I forged\r"), "a?ddprun 03:00:00 I forged?");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(Printable("a\tb"), "a?b");
  EXPECT_EQ(Printable("a\xC2\x9B"
                      "2Jb"),
            "a?2Jb")
      << "CSI as one character";
  EXPECT_EQ(Printable("\xC2"), "\xC2");
}

TEST(PrintableTest, LinesStayLinesAndLoseEveryOtherControlCharacter) {
  EXPECT_EQ(PrintableLines("a\tb\n\x1b[2Jc\r\n\xC2\x9B"
                           "d\x7f\n"),
            "a\tb\n?[2Jc?\n?d?\n");
}

}  // namespace printable_test
}  // namespace ddprun
