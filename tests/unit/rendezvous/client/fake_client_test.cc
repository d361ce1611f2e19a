#include <gtest/gtest.h>

#include <memory>

#include "tests/support/fake_rendezvous_client.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace fake_client_test {

TEST(FakeRendezvousClientTest, RecordsWhatIsSentAndDeliversWhatTheTestSays) {
  EventInbox inbox;
  FakeRendezvousClient fake;
  RendezvousClient& client = fake;
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1), Heartbeat{});
  ASSERT_EQ(fake.sent().size(), 1u);
  EXPECT_EQ(fake.sent()[0].header, HeaderOf("job", 1));
  EXPECT_EQ(fake.sent()[0].message, AgentMessage(Heartbeat{}));
  fake.Deliver(HeaderOf("job", 1), Stop{"why"});
  EXPECT_EQ(inbox.Expect<Stop>().reason, "why");
}

TEST(FakeRendezvousClientTest, RecordsNothingAfterItWasLost) {
  EventInbox inbox;
  FakeRendezvousClient fake;
  fake.Open(inbox.Handler());
  fake.Lose("connection refused");
  EXPECT_EQ(inbox.ExpectLost(), "connection refused");
  fake.Send(HeaderOf("job", 1), Heartbeat{});
  EXPECT_TRUE(fake.sent().empty());
  fake.Close();
  EXPECT_TRUE(fake.closed());
}

}  // namespace fake_client_test
}  // namespace ddprun
