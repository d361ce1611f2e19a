#include "launcher/connection/own_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "launcher/connection/in_process_client.h"
#include "launcher/os/event_loop.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace own_rendezvous_test {

using testing::HasSubstr;

int Threads() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "Threads:") {
      int count = 0;
      status >> count;
      return count;
    }
  }
  return 0;
}

class OwnRendezvousTest : public testing::Test {
 protected:
  OwnRendezvousTest() {
    auto started = OwnRendezvous::Start(endpoint_, "1", &loop_);
    EXPECT_TRUE(started.ok()) << started.status();
    if (started.ok()) own_ = *std::move(started);
  }

  const TempDir folder_;
  const std::string endpoint_ = "unix:" + folder_.path() + "/rendezvous.sock";
  EventLoop loop_;
  std::unique_ptr<OwnRendezvous> own_;
};

TEST_F(OwnRendezvousTest, TheAgentGetsItsAssignmentWithoutThreadsOfGrpc) {
  const int before = Threads();
  EventInbox inbox;
  const auto client = own_->MakeClient();
  client->Open(inbox.Handler());
  client->Send(HeaderOf("job", 1, -1), JoinOf("n1", 1, 2));
  const auto assignment = inbox.Expect<Assignment>();
  EXPECT_EQ(assignment.world_size, 2);
  EXPECT_EQ(Threads(), before);
  client->Close();
}

// Seen red when nobody watched the socket: no answer came within the deadline.
TEST_F(OwnRendezvousTest, WhoComesOverTheSocketIsServedFromTheFirstConnectionOn) {
  std::thread loop([this] { loop_.Run(); });
  for (int i = 1; i <= 2; ++i) {
    EventInbox inbox;
    GrpcRendezvousClient client({.endpoint = endpoint_});
    client.Open(inbox.Handler());
    client.Send(HeaderOf("job" + std::to_string(i), 1, -1), JoinOf("n1", 1));
    EXPECT_EQ(inbox.Expect<Assignment>().world_size, 1);
    client.Close();
  }
  loop_.Post([this] { loop_.Quit(); });
  loop.join();
}

TEST_F(OwnRendezvousTest, ItsSocketGoesWithIt) {
  own_.reset();
  EXPECT_NE(access((folder_.path() + "/rendezvous.sock").c_str(), F_OK), 0);
}

TEST(InProcessClientTest, ASessionThatTheRendezvousEndsIsLostOnceAndSaysWhy) {
  JobLoop loop(JobLoopOptions{.log = [](auto, auto) {}});
  EventInbox inbox;
  InProcessClient client(&loop);
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 2));
  loop.Shutdown();
  EXPECT_THAT(inbox.ExpectLost(), HasSubstr("the rendezvous in this process"));
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 2));
  client.Close();
  EXPECT_TRUE(inbox.empty());
}

TEST(InProcessClientTest, NothingIsSaidAfterClose) {
  JobLoop loop(JobLoopOptions{.log = [](auto, auto) {}});
  EventInbox inbox;
  InProcessClient client(&loop);
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 2));
  client.Close();
  loop.Shutdown();
  EXPECT_TRUE(inbox.empty());
}

}  // namespace own_rendezvous_test
}  // namespace ddprun
