#include "launcher/os/local_address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace local_address_test {

TEST(LocalAddressTest, TowardsThisHostItIsTheLoopbackAddress) {
  const auto address = LocalAddressTowards("127.0.0.1", 29400);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, "127.0.0.1");
}

TEST(LocalAddressTest, TakesANameAndGivesANumber) {
  const auto address = LocalAddressTowards("localhost", 1);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_TRUE(*address == "127.0.0.1" || *address == "::1") << *address;
}

TEST(LocalAddressTest, AnUnknownHostIsNamed) {
  const std::string host(300, 'x');  // no name can be this long, so no server is asked
  const auto address = LocalAddressTowards(host, 1);
  EXPECT_EQ(address.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::string(address.status().message()).find("cannot resolve host " + host + ": "), 0u);
}

TEST(OwnAddressTest, LoopbackIsThisHosts) {
  EXPECT_EQ(*OwnAddress("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*OwnAddress("127.9.9.9"), "127.9.9.9");
}

TEST(OwnAddressTest, AnInterfacesAddressIsThisHosts) {
  const auto outside = OutsideAddress();
  if (outside.has_value()) {  // a host may have no network
    EXPECT_EQ(*OwnAddress(*outside), *outside);
    EXPECT_FALSE(IsLoopback(*outside));
  }
}

TEST(OwnAddressTest, AnotherHostsAddressIsNot) {
  EXPECT_EQ(*OwnAddress("192.0.2.1"), std::nullopt);  // reserved for documentation
}

TEST(IsLoopbackTest, IsAboutWhatTheNameSays) {
  for (const char* const host : {"localhost", "127.0.0.1", "127.0.1.1", "::1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* const host : {"node1", "10.0.0.1", "0.0.0.0", "::", "localhost.example"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(SomebodyListensTest, TellsAListenerFromAFreePort) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_FALSE(SomebodyListens("127.0.0.1", ntohs(address.sin_port)));
  ASSERT_EQ(::listen(fd.get(), 1), 0);
  EXPECT_TRUE(SomebodyListens("127.0.0.1", ntohs(address.sin_port)));
}

TEST(HostNameTest, IsTheKernels) {
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof(name) - 1), 0);
  EXPECT_EQ(HostName(), name);
}

}  // namespace local_address_test
}  // namespace ddprun
