#include "worker/src/agent/control_client.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/agent/send_descriptor.h"
#include "worker/contract/control.h"
#include "worker/contract/progress_page.h"
#include "worker/contract/unique_fd.h"

namespace ddp::internal {
namespace control_client_test {

// The agent's end of the control socket, for one worker.
class Agent {
 public:
  explicit Agent(const std::string& path)
      : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) abort();
    if (listen(listener_, 8) != 0) abort();
  }
  ~Agent() {
    Hangup();
    close(listener_);
  }

  std::string Receive() {
    if (connection_ < 0) connection_ = accept(listener_, nullptr, nullptr);
    std::vector<char> packet(2 * ddprun::control::kMaxPacketBytes);
    const ssize_t size = recv(connection_, packet.data(), packet.size(), 0);
    return std::string(packet.data(), static_cast<std::size_t>(size < 0 ? 0 : size));
  }

  // Sends a progress page; the file has no content.
  void SendPage() {
    const ddprun::UniqueFd page(memfd_create("page", MFD_CLOEXEC));
    ddprun::SendDescriptor(
        connection_,
        std::string(ddprun::control::kProgress) + "=" + std::to_string(ddprun::kProgressVersion),
        page.get());
  }

  void Hangup() {
    if (connection_ >= 0) close(connection_);
    connection_ = -1;
  }

 private:
  const int listener_;
  int connection_ = -1;
};

TEST(ControlClientTest, SendsOnePacketForEachMessage) {
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  ControlClient client(folder / "s");
  client.Send("READY", "1");
  client.Send("STEP", "17");
  EXPECT_EQ(agent.Receive(), "READY=1");
  EXPECT_EQ(agent.Receive(), "STEP=17");
}

TEST(ControlClientTest, KeepsAMessageInOneLineAndOnePacket) {
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  ControlClient client(folder / "s");
  client.Send("ERROR", "user first\nsecond" + std::string(20000, 'x'));
  const std::string packet = agent.Receive();
  EXPECT_EQ(packet.size(), ddprun::control::kMaxPacketBytes);
  EXPECT_TRUE(packet.starts_with("ERROR=user first secondxxx"));
}

TEST(ControlClientTest, DoesNothingWithoutAnAgent) {
  ControlClient unset("");
  unset.Send("STEP", "1");
  ControlClient gone("/nonexistent/socket");
  gone.Send("STEP", "1");
  ControlClient too_long(std::string(500, 'x'));
  too_long.Send("STEP", "1");
}

TEST(ControlClientTest, NeverBlocksWhenTheAgentDoesNotRead) {
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  ControlClient client(folder / "s");
  for (int i = 0; i < 100000; ++i) client.Send("STEP", std::to_string(i));
  EXPECT_EQ(agent.Receive(), "STEP=0");
}

TEST(ControlClientTest, SurvivesTheAgentsDeathAndFindsItsSuccessor) {
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  ControlClient client(folder / "s");
  client.Send("STEP", "1");
  EXPECT_EQ(agent.Receive(), "STEP=1");
  agent.Hangup();
  client.Send("STEP", "2");  // no SIGPIPE; lost
  client.Send("STEP", "3");
  EXPECT_EQ(agent.Receive(), "STEP=3");
}

// The page of the last generation came after the program had stopped waiting for it.
TEST(ControlClientTest, ALatePageIsNotThatOfTheNextGeneration) {
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  ControlClient client(folder / "s");
  client.Send("READY", "1");
  EXPECT_EQ(agent.Receive(), "READY=1");
  agent.SendPage();
  client.Read();
  client.BeginGeneration();
  EXPECT_FALSE(client.TakeProgressPage(std::chrono::milliseconds(0)).valid());
  agent.SendPage();
  EXPECT_TRUE(client.TakeProgressPage(std::chrono::milliseconds(0)).valid());
}

}  // namespace control_client_test
}  // namespace ddp::internal
