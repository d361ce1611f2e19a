#include "rendezvous/service/listen_address.h"

#include <gtest/gtest.h>

#include <string>

#include "rendezvous/service/acceptor.h"

namespace ddprun {
namespace listen_address_test {

TEST(ListenAddressTest, ParsesHostAndPort) {
  const auto address = ParseListenAddress("node1:29400");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "node1");
  EXPECT_EQ(address->port, 29400);
  EXPECT_FALSE(address->is_unix());
}

TEST(ListenAddressTest, ParsesAnIpv6AddressInBrackets) {
  const auto address = ParseListenAddress("[::1]:0");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->port, 0);
}

TEST(ListenAddressTest, ParsesAUnixPath) {
  const auto address = ParseListenAddress("unix:/run/a:b");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->path, "/run/a:b");
  EXPECT_TRUE(address->is_unix());
}

TEST(ListenAddressTest, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "node1", ":29400", "node1:", "node1:x", "node1:-1", "node1:65536",
                           "::1:29400", "[::1:29400", "[]:29400", "unix:"}) {
    const auto address = ParseListenAddress(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ListenAddressTest, AnAddressOfAnotherHostCannotBeListenedOn) {
  // 192.0.2.0/24 is for documentation: no host has it.
  const auto acceptor = Acceptor::Bind({.host = "192.0.2.1", .port = 29400, .path = ""});
  EXPECT_EQ(std::string(acceptor.status().message()), "cannot assign requested address");
}

TEST(ListenAddressTest, APathThatIsTooLongIsExplained) {
  const auto acceptor =
      Acceptor::Bind({.host = "", .port = 0, .path = "/tmp/" + std::string(200, 'x')});
  EXPECT_EQ(std::string(acceptor.status().message()),
            "the path has 205 bytes, at most 107 are possible");
}

TEST(ListenAddressTest, AFolderThatIsMissingIsExplained) {
  const auto acceptor =
      Acceptor::Bind({.host = "", .port = 0, .path = "/nonexistent-folder/socket"});
  EXPECT_EQ(std::string(acceptor.status().message()), "no such file or directory");
}

}  // namespace listen_address_test
}  // namespace ddprun
