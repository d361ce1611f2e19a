// The bytes that TCP has carried over the sockets of this host.
#include "launcher/os/tcp_bytes.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <chrono>
#include <string>
#include <thread>

#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace tcp_bytes_test {

// Two ends of a connection over the loopback interface.
struct Connection {
  UniqueFd sender;
  UniqueFd receiver;
};

Connection Connect(int family) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
  }
  socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  const UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Connection connection{UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), UniqueFd()};
  if (::bind(listener.get(), plain, size) == 0 && ::listen(listener.get(), 1) == 0 &&
      ::getsockname(listener.get(), plain, &size) == 0 &&
      ::connect(connection.sender.get(), plain, size) == 0) {
    connection.receiver = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  return connection;
}

// The sum of the counters of both ends.
std::int64_t CarriedBy(const Connection& connection) {
  const TcpBytes bytes = ReadTcpBytes();
  std::int64_t sum = 0;
  for (const UniqueFd* const end : {&connection.sender, &connection.receiver}) {
    struct stat info;
    if (::fstat(end->get(), &info) != 0) continue;
    if (const auto found = bytes.find(info.st_ino); found != bytes.end()) sum += found->second;
  }
  return sum;
}

// The kernel acknowledges within tens of milliseconds.
std::int64_t WaitUntilCarried(const Connection& connection, std::int64_t at_least) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::int64_t carried = CarriedBy(connection);
  while (carried < at_least && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    carried = CarriedBy(connection);
  }
  return carried;
}

class TcpBytesTest : public testing::TestWithParam<int> {};

// Seen red without sock_diag: /proc/PID/io does not count the bytes of sockets.
TEST_P(TcpBytesTest, WhatIsSentAndReceivedCounts) {
  const Connection connection = Connect(GetParam());
  if (!connection.receiver.valid()) GTEST_SKIP() << "no such loopback address";
  constexpr std::int64_t kBytes = 30'000;
  const std::int64_t before = CarriedBy(connection);
  const std::string data(kBytes, 'x');
  ASSERT_EQ(::send(connection.sender.get(), data.data(), kBytes, 0), kBytes);
  const std::int64_t sent = WaitUntilCarried(connection, before + kBytes);
  EXPECT_GE(sent, before + kBytes) << "acknowledged";
  EXPECT_LT(sent, before + 2 * kBytes) << "this process has not taken them out";
  std::string taken(kBytes, ' ');
  ASSERT_EQ(::recv(connection.receiver.get(), taken.data(), kBytes, MSG_WAITALL), kBytes);
  EXPECT_GE(WaitUntilCarried(connection, before + 2 * kBytes), before + 2 * kBytes);
}

INSTANTIATE_TEST_SUITE_P(Families, TcpBytesTest, testing::Values(AF_INET, AF_INET6),
                         [](const testing::TestParamInfo<int>& family) {
                           return std::string(family.param == AF_INET ? "Ip4" : "Ip6");
                         });

}  // namespace tcp_bytes_test
}  // namespace ddprun
