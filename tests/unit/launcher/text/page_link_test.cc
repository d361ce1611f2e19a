#include "launcher/text/page_link.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace page_link_test {

TEST(PageLinkTest, TheCodeStandsInTheFragment) {
  EXPECT_EQ(PageUrl(true, "head:29480", "aB-_9", ""), "https://head:29480/#code=aB-_9");
  EXPECT_EQ(PageUrl(false, "[::1]:80", "c", "exp 7&x=\xc3\xa4"),
            "http://[::1]:80/#code=c&job=exp%207%26x%3D%C3%A4");
}

TEST(PageLinkTest, AFingerprintIsAsBrowsersShowIt) {
  EXPECT_EQ(Fingerprint("1f2e00"), "1F:2E:00");
  EXPECT_EQ(Fingerprint(""), "");
}

}  // namespace page_link_test
}  // namespace ddprun
