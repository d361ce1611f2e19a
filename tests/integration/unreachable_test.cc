// Jobs whose ranks cannot reach each other end within a time limit. Every rank reports which rank
// does not reach which other rank. Each rank is on a node of its own, in a network namespace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/capabilities.h"
#include "tests/support/network.h"
#include "tests/support/program.h"

namespace ddprun {
namespace unreachable_test {

using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr char kMaster[] = "10.77.1.2:29500";  // node 0's address
constexpr char kLong[] = "120000";             // ms; a test that needs it has failed
constexpr seconds kBound(20);

// An interface whose packets are lost without an error: they go to a neighbour that does not exist.
constexpr char kBlackHole[] =
    "set -e; ip link add hole type veth peer name sink; ip addr add 10.99.$RANK.1/16 dev hole; "
    "ip link set sink up; ip link set hole up; "
    "ip neigh add 10.99.$((1 - RANK)).1 lladdr 02:00:00:00:00:07 dev hole; "
    "GLOO_SOCKET_IFNAME=hole exec \"$0\" \"$@\"";

class UnreachableTest : public testing::Test {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForNetworks());
    std::string why_not;
    network_ = std::make_unique<Network>(2, &why_not);
    ASSERT_EQ(why_not, "");
    start_ = steady_clock::now();
  }

  // Rank r on node r.
  Program& Start(int rank, const std::string& init_timeout_ms,
                 std::vector<std::string> before = {}) {
    const std::vector<std::string> worker = {JOIN_WORKER, init_timeout_ms, "1800000"};
    before.insert(before.end(), worker.begin(), worker.end());
    ranks_.push_back(
        std::make_unique<Program>(network_->OnNode(rank, before),
                                  std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                                     {"LOCAL_RANK", "0"},
                                                                     {"WORLD_SIZE", "2"},
                                                                     {"MASTER_ADDR", "10.77.1.2"},
                                                                     {"MASTER_PORT", "29500"}}));
    return *ranks_.back();
  }

  void ExpectAllFail() {
    for (const auto& rank : ranks_) EXPECT_EQ(rank->ExitCode(), 1) << rank->err();
    EXPECT_LT(steady_clock::now() - start_, kBound);
  }

  std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<Program>> ranks_;
  steady_clock::time_point start_;
};

TEST_F(UnreachableTest, RanksThatCanReachEachOtherJoin) {
  Start(0, kLong);
  Start(1, kLong);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->ExitCode(), 0) << rank->err();
}

TEST_F(UnreachableTest, AMasterThatDoesNotAnswerIsNamed) {
  network_->Cut(0, Network::Direction::kBoth);
  Start(1, "700");
  ExpectAllFail();
  EXPECT_THAT(
      ranks_[0]->err(),
      AllOf(HasSubstr("rank 0 did not listen at MASTER_ADDR:MASTER_PORT = "), HasSubstr(kMaster),
            HasSubstr("within 0.7 s (last error: Connection timed out)")));
}

// Seen red when only the last error was kept: a firewall answers only the first attempts.
TEST_F(UnreachableTest, AMasterBehindAFirewallIsNamedWithWhatThatSaid) {
  network_->Cut(0, Network::Direction::kBoth, Network::Verdict::kReject);
  Start(1, "700");
  ExpectAllFail();
  EXPECT_THAT(ranks_[0]->err(),
              AllOf(HasSubstr(kMaster), HasSubstr("No route to host). Did rank 0")));
}

// On some hosts, the host's own name means its loopback address. Gloo then lets one of two ranks
// connect, and the other rank waits for as long as a collective may take. Such a pair was seen to
// hang before ConnectGloo() told the other ranks.
TEST_F(UnreachableTest, AnAddressOfGlooThatRefusesEndsBothRanksAtOnceAndIsNamed) {
  for (int rank : {0, 1}) Start(rank, kLong, {"env", "GLOO_SOCKET_IFNAME=lo"});
  ExpectAllFail();
  const std::string both = ranks_[0]->err() + ranks_[1]->err();
  // Without "refused": the Gloo of libtorch 2.6 says "no error". That of 2.14 adds the port.
  EXPECT_THAT(both, ContainsRegex("(Connection refused|no error)(, remote=[^;]*)?; "
                                  "\\[127\\.0\\.0\\.1\\] is where rank "));
  for (const auto& rank : ranks_) {
    EXPECT_THAT(rank->err(), HasSubstr("connecting the ranks failed on rank "));
    EXPECT_THAT(rank->err(), AnyOf(HasSubstr("is where rank 0 waits for the others. It must be"),
                                   HasSubstr("is where rank 1 waits for the others. It must be")));
    EXPECT_THAT(rank->err(), HasSubstr("GLOO_SOCKET_IFNAME on rank "));
  }
}

TEST_F(UnreachableTest, AnAddressOfGlooThatIsSilentEndsBothRanksAfterTheInitTimeout) {
  for (int rank : {0, 1}) Start(rank, "3000", {"sh", "-c", kBlackHole});
  ExpectAllFail();
  // The rank that fails first tells the other one, which may be about to report the same of itself.
  for (const std::string rank : {"0", "1"}) {
    EXPECT_THAT(ranks_[std::stoul(rank)]->err(),
                AllOf(HasSubstr("connecting the ranks failed on rank " + rank + " of 2: "),
                      HasSubstr("not connected to all within 3 s, waiting for others at [10.99.")));
  }
}

}  // namespace unreachable_test
}  // namespace ddprun
