// BarrierPolls, as seen by clients of libtorch 1.13, which poll the key of a barrier.
#include "launcher/torch_store/barrier_polls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/torch_store/store_clients.h"
#include "tests/unit/launcher/torch_store/requests.h"

namespace ddprun::torch_store {
namespace barrier_polls_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr char kKey[] = "/worker/attempt_0/store_based_barrier_key:1";

std::string Sum(std::int64_t sum) { return Raw<std::int64_t>(sum); }

// A job of three ranks.
class BarrierPollsTest : public ::testing::Test {
 protected:
  using Sent = std::vector<std::pair<ClientId, std::string>>;

  Sent Say(ClientId client, const std::string& bytes) {
    Replies replies;
    const absl::Status status = clients_.Receive(client, bytes, &replies);
    EXPECT_TRUE(status.ok()) << status;
    return In(std::move(replies));
  }
  Sent Tick() {
    Replies replies;
    clients_.AnswerPolls(&replies);
    return In(std::move(replies));
  }
  // The client comes to the barrier: it adds 1. The answer must be `sum`.
  void Come(ClientId client, std::int64_t sum) {
    EXPECT_THAT(Say(client, kOld.Add(kKey, 1)), ElementsAre(Pair(client, Sum(sum))));
  }
  StoreClients clients_{{}, /*world_size=*/3};

 private:
  static Sent In(Replies replies) {
    Sent sent;
    for (Reply& reply : replies) sent.emplace_back(reply.client, std::move(reply.bytes));
    return sent;
  }
};

// Break: answer at once. Then torch sleeps 10 ms in each rank except the last one.
TEST_F(BarrierPollsTest, WhoPollsIsAnsweredWhenTheLastOneComes) {
  Come(1, 1);
  EXPECT_THAT(Say(1, kOld.Add(kKey, 0)), IsEmpty());
  Come(2, 2);
  EXPECT_THAT(Say(2, kOld.Add(kKey, 0)), IsEmpty());
  EXPECT_TRUE(clients_.any_polls());
  EXPECT_THAT(Say(3, kOld.Add(kKey, 1)),
              UnorderedElementsAre(Pair(3, Sum(3)), Pair(1, Sum(3)), Pair(2, Sum(3))));
  EXPECT_FALSE(clients_.any_polls());
  EXPECT_THAT(Say(3, kOld.Add(kKey, 0)), ElementsAre(Pair(3, Sum(3))));
}

TEST_F(BarrierPollsTest, AfterAWhileThePollIsAnsweredWithTheSumOfThatTime) {
  Come(1, 1);
  Say(1, kOld.Add(kKey, 0));
  Come(2, 2);
  EXPECT_THAT(Tick(), ElementsAre(Pair(1, Sum(2))));
  EXPECT_THAT(Tick(), IsEmpty()) << "once";
  EXPECT_THAT(Say(1, kOld.Add(kKey, 0)), IsEmpty());
}

TEST_F(BarrierPollsTest, OnlyABarrierIsWaitedFor) {
  EXPECT_THAT(Say(1, kOld.Add("counter", 0)), ElementsAre(Pair(1, Sum(0))));
  EXPECT_THAT(Say(2, Validation() + kNew.Add(kKey, 0)), ElementsAre(Pair(2, Sum(0))))
      << "torch 2.1 does not poll";
}

TEST_F(BarrierPollsTest, TwoBarriersAreApart) {
  const std::string other = std::string(kKey) + "2";
  Come(1, 1);
  Say(1, kOld.Add(kKey, 0));
  for (const ClientId client : {2, 3, 4}) Say(client, kOld.Add(other, 1));
  EXPECT_THAT(Say(2, kOld.Add(other, 0)), ElementsAre(Pair(2, Sum(3))));
  EXPECT_THAT(Tick(), ElementsAre(Pair(1, Sum(1))));
}

// Break: leave out Answer(). Then the client takes the answer to its second request for the answer
// to its first.
TEST_F(BarrierPollsTest, AnswersKeepTheOrderOfAClientsRequests) {
  Come(1, 1);
  EXPECT_THAT(Say(1, kOld.Add(kKey, 0) + kOld.Add("n", 7)),
              ElementsAre(Pair(1, Sum(1)), Pair(1, Sum(7))));
}

TEST_F(BarrierPollsTest, WhoIsGoneIsNotAnswered) {
  Come(1, 1);
  Say(1, kOld.Add(kKey, 0));
  clients_.Close(1);
  EXPECT_FALSE(clients_.any_polls());
  EXPECT_THAT(Tick(), IsEmpty());
}

}  // namespace barrier_polls_test
}  // namespace ddprun::torch_store
