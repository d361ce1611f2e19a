#include "launcher/os/port_holder.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51  // Linux 6.3
#endif

namespace ddprun {
namespace port_holder_test {

// A socket that was bound, as by a TCPStore or any other program. `error`: 0, or errno.
struct Bound {
  UniqueFd fd;
  int error = 0;
  std::uint16_t port = 0;
};

enum class Family { kIpv4, kIpv6DualStack };

UniqueFd MakeSocket(Family family, bool reuse) {
  UniqueFd fd(
      ::socket(family == Family::kIpv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  if (reuse) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (family == Family::kIpv6DualStack) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  return fd;
}

Bound BindAny(UniqueFd fd, Family family, std::uint16_t port) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(port);
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(port);
  auto* const address = family == Family::kIpv4 ? reinterpret_cast<sockaddr*>(&ipv4)
                                                : reinterpret_cast<sockaddr*>(&ipv6);
  socklen_t size = family == Family::kIpv4 ? sizeof(ipv4) : sizeof(ipv6);
  Bound bound;
  if (::bind(fd.get(), address, size) != 0) bound.error = errno;
  ::getsockname(fd.get(), address, &size);
  bound.port = ntohs(family == Family::kIpv4 ? ipv4.sin_port : ipv6.sin6_port);
  bound.fd = std::move(fd);
  return bound;
}

std::vector<Family> Families() {
  std::vector<Family> families = {Family::kIpv4};
  // On a host without IPv6, the store does not use it either.
  if (BindAny(MakeSocket(Family::kIpv6DualStack, true), Family::kIpv6DualStack, 0).error == 0) {
    families.push_back(Family::kIpv6DualStack);
  }
  return families;
}

class PortHolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<PortHolder> holder = PortHolder::Bind();
    ASSERT_TRUE(holder.ok()) << holder.status();
    holders_.push_back(*std::move(holder));
    ASSERT_NE(holder_().port(), 0);
  }

  PortHolder& holder_() { return holders_.front(); }

  std::vector<PortHolder> holders_;
};

TEST_F(PortHolderTest, AStoreCanListenOnTheHeldPortOnEveryAddress) {
  for (const Family family : Families()) {
    const Bound store = BindAny(MakeSocket(family, true), family, holder_().port());
    EXPECT_EQ(store.error, 0) << std::strerror(store.error);
    EXPECT_EQ(::listen(store.fd.get(), 16), 0) << std::strerror(errno);
    // The store can be reached while the port is still held.
    const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(holder_().port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0)
        << std::strerror(errno);
    // Closed with a reset, so that no TIME_WAIT is left for the next family.
    const linger reset{1, 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
}

TEST_F(PortHolderTest, AProgramThatDoesNotAskForReuseCannotTakeTheHeldPort) {
  EXPECT_EQ(BindAny(MakeSocket(Family::kIpv4, false), Family::kIpv4, holder_().port()).error,
            EADDRINUSE);
}

// Asks for any port of a range with only the held port. Older kernels do not know this option and
// give any port: then the test asks a thousand times.
TEST_F(PortHolderTest, TheKernelGivesTheHeldPortToNobodyWhoAsksForAnyPort) {
  for (const Family family : Families()) {
    for (const bool reuse : {false, true}) {
      const std::uint32_t range = (std::uint32_t{holder_().port()} << 16) | holder_().port();
      UniqueFd fd = MakeSocket(family, reuse);
      if (::setsockopt(fd.get(), IPPROTO_IP, IP_LOCAL_PORT_RANGE, &range, sizeof(range)) == 0) {
        EXPECT_EQ(BindAny(std::move(fd), family, 0).error, EADDRINUSE);
        continue;
      }
      for (int i = 0; i < 1000; ++i) {
        EXPECT_NE(BindAny(MakeSocket(family, reuse), family, 0).port, holder_().port());
      }
    }
  }
}

TEST_F(PortHolderTest, EveryHolderHasAPortOfItsOwn) {
  std::set<std::uint16_t> ports = {holder_().port()};
  for (int i = 0; i < 100; ++i) {
    absl::StatusOr<PortHolder> holder = PortHolder::Bind();
    ASSERT_TRUE(holder.ok()) << holder.status();
    EXPECT_TRUE(ports.insert(holder->port()).second);
    holders_.push_back(*std::move(holder));
  }
}

TEST_F(PortHolderTest, AReleasedPortIsFreeForAnyone) {
  const std::uint16_t port = holder_().port();
  holder_().Release();
  EXPECT_EQ(holder_().port(), port);
  EXPECT_EQ(BindAny(MakeSocket(Family::kIpv4, false), Family::kIpv4, port).error, 0);
}

TEST(PortHolderAddressTest, TakesANumericAddressAndRefusesANameWithAReason) {
  EXPECT_TRUE(PortHolder::Bind("127.0.0.1").ok());
  EXPECT_EQ(PortHolder::Bind("node1").status().message(),
            "\"node1\" is not a numeric IPv4 or IPv6 address");
}

}  // namespace port_holder_test
}  // namespace ddprun
