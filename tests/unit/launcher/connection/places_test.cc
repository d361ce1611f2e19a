// The places where an agent looks for its rendezvous, and the credentials that it shows there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/connection/connection.h"
#include "launcher/connection/credentials.h"

namespace ddprun {
namespace places_test {

using testing::ElementsAre;

TEST(PlacesTest, OneEndpointHasItsSparePorts) {
  RendezvousConfig config;
  config.endpoint = "[::1]:100";
  EXPECT_THAT(PlacesOf(config), ElementsAre("[::1]:100"));
  config.spare_ports = 2;
  EXPECT_THAT(PlacesOf(config), ElementsAre("[::1]:100", "[::1]:101", "[::1]:102"));
}

TEST(PlacesTest, SeveralEndpointsAreThePlaces) {
  RendezvousConfig config;
  config.endpoint = "h1:1,h2:2";
  config.spare_ports = 3;
  EXPECT_THAT(PlacesOf(config), ElementsAre("h1:1", "h2:2"));
}

TEST(PlacesTest, TheNodesAddressIsTheOneTowardsTheFirstThatIsKnown) {
  JobConfig config;
  config.rendezvous.endpoint = "no.such.host.invalid:1,127.0.0.1:2";
  const auto address = NodeAddress(config);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, "127.0.0.1");
}

TEST(PlacesTest, CredentialsAreSharedWhereTheyAreTheSame) {
  const auto none = LoadCredentialsOfAll({}, {"h1:1", "h2:2"}, /*insecure=*/true);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ((*none)[0], (*none)[1]);
  // On loopback, each rendezvous makes its own token.
  const auto own = LoadCredentialsOfAll({}, {"127.0.0.1:1", "127.0.0.1:2"}, /*insecure=*/false);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_NE((*own)[0], (*own)[1]);
}

}  // namespace places_test
}  // namespace ddprun
