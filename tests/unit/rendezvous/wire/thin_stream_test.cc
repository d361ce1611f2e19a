// Tests that both ends of a session ask for steady retransmission: see
// rendezvous/wire/thin_stream.h. tests/integration/partition_test.cc tests the effect.
#include "rendezvous/wire/thin_stream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <future>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/service/acceptor.h"
#include "rendezvous/service/descriptor_guard.h"
#include "rendezvous/service/rendezvous_server.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace thin_stream_test {

bool SendsAgainSteadily(int fd) {
  int on = 0;
  socklen_t size = sizeof on;
  if (getsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, &size) != 0 || on == 0) {
    return false;
  }
  char control[16] = {};
  size = sizeof control;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &size) == 0 &&
         std::string(control) == "reno";
}

// The port of the other end; 0: `fd` is no connection.
int PeerPort(int fd) {
  sockaddr_in6 peer{};  // gRPC's sockets are of this family; the port has the same place in both
  socklen_t size = sizeof peer;
  const bool connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
  const bool ip = peer.sin6_family == AF_INET6 || peer.sin6_family == AF_INET;
  return connected && ip ? ntohs(peer.sin6_port) : 0;
}

TEST(ThinStreamTest, WhatARendezvousAcceptsSendsAgainSteadily) {
  const DescriptorGuard guard;
  const auto acceptor = Acceptor::Bind({.host = "127.0.0.1", .port = 0, .path = ""});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  std::promise<bool> steadily;
  (*acceptor)->Start(
      &guard,
      [&](int, const UniqueFd& connection) {
        steadily.set_value(SendsAgainSteadily(connection.get()));
      },
      [](const std::string&) {});
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(static_cast<std::uint16_t>((*acceptor)->port()));
  ASSERT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  EXPECT_FALSE(SendsAgainSteadily(client)) << "every connection of this machine does";
  EXPECT_TRUE(steadily.get_future().get());
  close(client);
  (*acceptor)->Stop();
}

TEST(ThinStreamTest, AnAgentsConnectionSendsAgainSteadily) {
  const auto server = RendezvousServer::Start({.listen = "127.0.0.1:0",
                                               .machine = {.leases = false},
                                               .log = [](std::string_view, std::string_view) {}});
  ASSERT_TRUE(server.ok()) << server.status();
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = absl::StrCat("127.0.0.1:", (*server)->port())});
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
  inbox.Expect<Assignment>();
  int connections = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    if (PeerPort(fd) != (*server)->port()) continue;
    ++connections;
    EXPECT_TRUE(SendsAgainSteadily(fd));
  }
  EXPECT_EQ(connections, 1);
  client.Close();
}

}  // namespace thin_stream_test
}  // namespace ddprun
