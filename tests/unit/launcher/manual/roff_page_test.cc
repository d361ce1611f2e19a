#include "launcher/manual/roff_page.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ddprun::manual {
namespace roff_page_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

RoffPage MakePage() {
  return RoffPage({"a-b", 5, "what it is", "File Formats"}, {"2026-01-31", "1.2.3"});
}

TEST(RoffPageTest, BeginsWithTitleAndName) {
  const std::string text = MakePage().text();
  EXPECT_THAT(text, HasSubstr("\n.TH A-B 5 2026-01-31 \"ddprun 1.2.3\" \"File Formats\"\n"));
  EXPECT_THAT(text, EndsWith("\n.SH \"NAME\"\na\\-b \\- what it is\n"));
}

TEST(RoffPageTest, TextIsNoRequestAndNoEscape) {
  RoffPage page = MakePage();
  page.Section("S");
  page.Paragraph(".so /etc/passwd");
  page.Lines({".sp", "'br \\n"});
  page.Item("--x", " 'Y'", ".z");
  EXPECT_THAT(page.text(), HasSubstr("\n\\&.so /etc/passwd\n"));
  EXPECT_THAT(page.text(), HasSubstr("\n.nf\n\\&.sp\n\\(aqbr \\en\n.fi\n"));
  EXPECT_THAT(page.text(), EndsWith(".TP\n\\fB\\-\\-x\\fR\\fI \\(aqY\\(aq\\fR\n\\&.z\n"));
}

TEST(RoffPageTest, ParagraphsAreApartAndNoneFollowsAHeadingByAMacro) {
  RoffPage page = MakePage();
  page.Section("S");
  page.Paragraph("One `--two`.");
  page.Paragraph("Three.");
  EXPECT_THAT(page.text(), EndsWith(".SH \"S\"\nOne \\fB\\-\\-two\\fR.\n.PP\nThree.\n"));
}

TEST(RoffPageTest, LongTextIsBrokenBetweenWords) {
  RoffPage page = MakePage();
  page.Section("S");
  const std::string word(30, 'w');
  page.Paragraph(word + " " + word + " " + word);
  EXPECT_THAT(page.text(), EndsWith("\n" + word + " " + word + "\n" + word + "\n"));
}

TEST(RoffPageTest, SeeAlsoSetsNamesInBold) {
  RoffPage page = MakePage();
  page.SeeAlso({"ddprun(1)", "ddprun.yaml(5)"});
  EXPECT_THAT(page.text(), EndsWith("\n\\fBddprun\\fR(1), \\fBddprun.yaml\\fR(5)\n"));
}

}  // namespace roff_page_test
}  // namespace ddprun::manual
