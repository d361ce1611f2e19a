// The peer that a process waits for in a system call on a socket.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "launcher/stacks/process_facts.h"
#include "launcher/stacks/system_calls.h"

namespace ddprun::stacks {
namespace socket_peer_test {

constexpr char kTable[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 "
    "1\n"
    "   1: 0100007F:9C40 0100000A:7148 01 00000000:00000000 00:00000000 00000000     0        0 78 "
    "1\n";
constexpr char kTable6[] =
    "  sl  local_address                         remote_address                        st ...\n"
    "   0: 00000000000000000000000001000000:9C40 000080FE000000000000000001000000:7148 01 "
    "00000000:00000000 00:00000000 00000000     0        0 79 1\n"
    "   1: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100000A:7148 01 "
    "00000000:00000000 00:00000000 00000000     0        0 80 1\n";

TEST(SocketPeerTest, IsTheRemoteAddressOfTheTable) {
  EXPECT_EQ(PeerInTable(kTable, "78"), "10.0.0.1:29000");
  EXPECT_EQ(PeerInTable(kTable, "77"), "") << "it listens";
  EXPECT_EQ(PeerInTable(kTable, "7"), "");
  EXPECT_EQ(PeerInTable(kTable6, "79"), "[fe80::1]:29000");
  EXPECT_EQ(PeerInTable(kTable6, "80"), "10.0.0.1:29000");
  EXPECT_EQ(PeerInTable("1: x y 01 a b c d e 78\n", "78"), "");
}

TEST(SocketPeerTest, OfARealConnection) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, plain, size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, plain, &size), 0);
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::connect(client, plain, size), 0);
  const auto link = [](int fd) { return ReadLink("/proc/self/fd/" + std::to_string(fd)); };
  EXPECT_EQ(DescribeSocket(::getpid(), link(client)),
            "socket to 127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  EXPECT_EQ(DescribeSocket(::getpid(), link(listener)), "");
  EXPECT_EQ(DescribeSocket(::getpid(), "/dev/null"), "");
  ::close(client);
  ::close(listener);
}

}  // namespace socket_peer_test
}  // namespace ddprun::stacks
