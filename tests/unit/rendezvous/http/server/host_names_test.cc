#include "rendezvous/http/server/host_names.h"

#include <gtest/gtest.h>

namespace ddprun::http {
namespace host_names_test {

TEST(HostNamesTest, OurNamesAddressesAndLocalhostAreAccepted) {
  const HostNames names({"Head", "page.example:443"});
  for (const char* header : {"head", "HEAD:29480", "head.", "page.example", "localhost:1",
                             "127.0.0.1:8080", "10.0.0.1", "[::1]:80", "[fe80::1]"}) {
    EXPECT_TRUE(names.Accepts(header)) << header;
  }
}

TEST(HostNamesTest, ANameOfSomebodyElseIsNot) {
  const HostNames names({"head", ""});
  for (const char* header : {"", "evil.example", "head.evil.example", "evil.example:29480",
                             "head:x", "[::1", "[::1]x", "127.0.0.1.evil.example", ":80"}) {
    EXPECT_FALSE(names.Accepts(header)) << header;
  }
}

TEST(HostNamesTest, LoopbackNames) {
  EXPECT_TRUE(IsLoopbackName("localhost"));
  EXPECT_TRUE(IsLoopbackName("127.3.4.5"));
  EXPECT_TRUE(IsLoopbackName("::1"));
  EXPECT_FALSE(IsLoopbackName("127.evil.example"));
  EXPECT_FALSE(IsLoopbackName("10.0.0.1"));
}

}  // namespace host_names_test
}  // namespace ddprun::http
