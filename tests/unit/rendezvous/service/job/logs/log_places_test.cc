#include "rendezvous/service/job/logs/log_places.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace log_places_test {

// Nodes of two workers each, by rank; their agents have these numbers.
std::vector<NodeRecord> Members(const std::vector<std::uint64_t>& agents) {
  std::vector<NodeRecord> members;
  for (const std::uint64_t agent : agents) {
    NodeRecord member;
    member.agent_id = AgentId{agent};
    member.spec.host = "n" + std::to_string(agent);
    member.spec.worker_count = 2;
    member.first_rank = Rank{static_cast<int>(2 * members.size())};
    members.push_back(member);
  }
  return members;
}

TEST(LogPlacesTest, ARankIsWhereItsGenerationPutIt) {
  LogPlaces places;
  places.OnJoin(AgentId{1}, "/logs/a");
  places.OnJoin(AgentId{2}, "/logs/b");
  places.OnFormed(Generation{0}, Members({1, 2}));
  places.OnStarted(Generation{0});
  places.OnFormed(Generation{1}, Members({2}));
  const auto place = places.Find(Generation{0}, Rank{3});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->agent_id, AgentId{2});
  EXPECT_EQ(place->host, "n2");
  EXPECT_EQ(place->folder, "/logs/b");
  EXPECT_EQ(place->local_rank, LocalRank{1});
  EXPECT_EQ(places.Find(Generation{1}, Rank{1})->agent_id, AgentId{2});
  EXPECT_EQ(places.Find(Generation{1}, Rank{2}), std::nullopt);
  EXPECT_EQ(places.Find(Generation{2}, Rank{0}), std::nullopt);
  EXPECT_EQ(places.Find(Generation{0}, Rank{-1}), std::nullopt);
  EXPECT_EQ(WhereText(*place, {Generation{0}, Rank{3}, LogStream::kStderr}),
            "n2:/logs/b/attempt_0/1/stderr.log");
}

TEST(LogPlacesTest, AGenerationThatHasNotStartedHasNoRanksYet) {
  LogPlaces places;
  EXPECT_EQ(places.newest_started(), std::nullopt);
  places.OnFormed(Generation{0}, Members({1, 2}));
  EXPECT_EQ(places.WorldSize(Generation{0}), std::nullopt);
  places.OnStarted(Generation{0});
  EXPECT_EQ(places.WorldSize(Generation{0}), 4);
  EXPECT_EQ(places.newest_started(), Generation{0});
}

TEST(LogPlacesTest, OldGenerationsAreForgottenAndAgentsThatWereOnlyInThese) {
  LogPlaces places;
  places.OnJoin(AgentId{1}, "/logs/a");
  places.OnJoin(AgentId{2}, "/logs/b");
  places.OnFormed(Generation{0}, Members({1, 2}));
  places.OnGone(AgentId{1});
  EXPECT_EQ(places.Find(Generation{0}, Rank{0})->folder, "/logs/a") << "its files are still there";
  const int more = static_cast<int>(LogPlaces::kMaxGenerations);
  for (int i = 1; i <= more; ++i) places.OnFormed(Generation{i}, Members({2}));
  places.OnStarted(Generation{more});
  EXPECT_EQ(places.Find(Generation{0}, Rank{0}), std::nullopt);
  EXPECT_EQ(places.oldest(), Generation{1});
  // The folder of agent 1 is forgotten, also for a later generation with this agent.
  places.OnFormed(Generation{more + 1}, Members({1}));
  EXPECT_EQ(places.Find(Generation{more + 1}, Rank{0})->folder, "");
}

}  // namespace log_places_test
}  // namespace ddprun
