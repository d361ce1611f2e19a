// Which TCP peers of a process do not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/stacks/process_facts.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::stacks {
namespace unanswered_peers_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kTable[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0200000A:7148 0700000A:A112 01 000000B5:00000000 01:00000010 0000000B     0        0 77 "
    "1 ffff 20 4 30 10 -1\n"
    "   1: 0200000A:7148 0800000A:A112 01 000000B5:00000000 01:00000010 00000000     0        0 78 "
    "1 ffff 20 4 30 10 -1\n"
    "   2: 0200000A:7148 0900000A:A112 01 00000000:00000000 02:00000010 00000000     0        3 79 "
    "1 ffff 20 4 30 10 -1\n";

TEST(UnansweredPeersTest, WhatWasSentAgainOrAskedAgainHasNoAnswer) {
  EXPECT_THAT(
      UnansweredInTable(kTable, {"77", "78", "79"}),
      ElementsAre(UnansweredPeer{"10.0.0.7:41234", 11}, UnansweredPeer{"10.0.0.9:41234", 3}))
      << "data of 10.0.0.8 is on its way";
}

TEST(UnansweredPeersTest, SocketsOfOtherProcessesDoNotCount) {
  EXPECT_THAT(UnansweredInTable(kTable, {"78"}), IsEmpty());
  EXPECT_THAT(UnansweredInTable("0: x y 01 a b zz d e 77\n", {"77"}), IsEmpty());
  EXPECT_THAT(UnansweredInTable("", {"77"}), IsEmpty());
}

// If the queue of a listener is full, the kernel drops a SYN. The kernel of the caller repeats it
// after 1 s.
TEST(UnansweredPeersTest, HangingRealConnectionsAreFound) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), plain, size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(::getsockname(listener.get(), plain, &size), 0);
  EXPECT_THAT(UnansweredPeersOf(::getpid(), 4), IsEmpty());
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ::connect(callers.back().get(), plain, size);
  }
  std::vector<UnansweredPeer> found;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (found.size() < 2 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    found = UnansweredPeersOf(::getpid(), 2);
  }
  ASSERT_THAT(found, SizeIs(2)) << "of the 8, as many as were asked for";
  EXPECT_EQ(found[0].address, absl::StrCat("127.0.0.1:", ntohs(address.sin_port)));
  EXPECT_GE(found[0].tries, 1);
}

}  // namespace unanswered_peers_test
}  // namespace ddprun::stacks
