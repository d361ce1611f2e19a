#include "launcher/os/local_address.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace ddprun {
namespace {

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

TEST(HostNameTest, IsTheKernels) {
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof(name) - 1), 0);
  EXPECT_EQ(HostName(), name);
}

}  // namespace
}  // namespace ddprun
