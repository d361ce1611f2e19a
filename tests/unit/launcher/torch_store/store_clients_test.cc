#include "launcher/torch_store/store_clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/launcher/torch_store/requests.h"

namespace ddprun::torch_store {
namespace store_clients_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Sent = std::vector<std::pair<ClientId, std::string>>;

const std::string kStop = Byte(0);
const std::string kCancelled = Byte(1);

class StoreClientsTest : public ::testing::Test {
 protected:
  // The replies and their receivers. A refusal fails the test.
  Sent Say(ClientId client, const std::string& bytes) {
    Replies replies;
    const absl::Status status = clients_.Receive(client, bytes, &replies);
    EXPECT_TRUE(status.ok()) << status;
    Sent sent;
    for (Reply& reply : replies) sent.emplace_back(reply.client, std::move(reply.bytes));
    return sent;
  }
  std::string RefusalOf(ClientId client, const std::string& bytes) {
    Replies replies;
    const absl::Status status = clients_.Receive(client, bytes, &replies);
    clients_.Close(client);
    return std::string(status.message());
  }

  StoreClients clients_{{{/*keys=*/4, /*bytes=*/100}, /*unfinished_bytes=*/200}};
};

TEST_F(StoreClientsTest, OldAndNewClientsShareTheKeys) {
  EXPECT_THAT(Say(1, kOld.Set("key", "value")), IsEmpty());
  EXPECT_THAT(Say(2, Validation() + kNew.Get("key")), ElementsAre(Pair(2, Text("value"))));
  EXPECT_THAT(Say(2, kNew.Add("n", 2)), ElementsAre(Pair(2, Raw<std::int64_t>(2))));
  EXPECT_THAT(Say(1, kOld.Add("n", -3)), ElementsAre(Pair(1, Raw<std::int64_t>(-1))));
  EXPECT_THAT(Say(1, kOld.CountKeys()), ElementsAre(Pair(1, Raw<std::int64_t>(2))));
  EXPECT_THAT(Say(1, kOld.Check({"key", "n"})), ElementsAre(Pair(1, Byte(0))));
  EXPECT_THAT(Say(1, kOld.Check({"key", "m"})), ElementsAre(Pair(1, Byte(1))));
  EXPECT_THAT(Say(1, OldDelete("key")), ElementsAre(Pair(1, Raw<std::int64_t>(1))));
  EXPECT_THAT(Say(2, Delete("key")), ElementsAre(Pair(2, Raw<std::int64_t>(0))));
}

TEST_F(StoreClientsTest, RequestsMayComeByteByByteOrAllAtOnce) {
  const std::string all = Validation() + Ping(5) + kNew.Set("a", "1") + kNew.Get("a");
  Sent sent;
  for (const char byte : all) {
    for (auto& one : Say(1, std::string(1, byte))) sent.push_back(std::move(one));
  }
  const Sent expected = {{1, Raw<std::uint32_t>(5)}, {1, Text("1")}};
  EXPECT_EQ(sent, expected);
  EXPECT_EQ(Say(2, all), (Sent{{2, Raw<std::uint32_t>(5)}, {2, Text("1")}}));
  EXPECT_EQ(clients_.unfinished_bytes(), 0U);
}

TEST_F(StoreClientsTest, CompareSetReturnsWhatIsThereThen) {
  EXPECT_THAT(Say(1, kOld.CompareSet("k", "other", "new")), ElementsAre(Pair(1, Text("other"))));
  EXPECT_THAT(Say(1, kOld.Check({"k"})), ElementsAre(Pair(1, Byte(1))));
  EXPECT_THAT(Say(1, kOld.CompareSet("k", "", "first")), ElementsAre(Pair(1, Text("first"))));
  EXPECT_THAT(Say(1, kOld.CompareSet("k", "wrong", "x")), ElementsAre(Pair(1, Text("first"))));
  EXPECT_THAT(Say(1, kOld.CompareSet("k", "first", "2nd")), ElementsAre(Pair(1, Text("2nd"))));
}

TEST_F(StoreClientsTest, ListsAreReadAndWrittenInOneRequest) {
  Say(1, Validation() + MultiSet("a", "1", "b", "2") + Append("b", "3") + Append("c", "4"));
  EXPECT_THAT(Say(1, MultiGet({"b", "c", "a"})),
              ElementsAre(Pair(1, Text("23") + Text("4") + Text("1"))));
}

TEST_F(StoreClientsTest, AWaitEndsWhenTheLastKeyIsThere) {
  EXPECT_THAT(Say(1, kOld.Wait({"a", "b"})), IsEmpty());
  EXPECT_THAT(Say(2, kOld.Wait({"a"})), IsEmpty());
  EXPECT_THAT(Say(3, kOld.Set("a", "")), ElementsAre(Pair(2, kStop)));
  EXPECT_THAT(Say(3, kOld.Add("b", 1)), ElementsAre(Pair(3, Raw<std::int64_t>(1)), Pair(1, kStop)));
  EXPECT_THAT(Say(1, kOld.Wait({"a", "b"})), ElementsAre(Pair(1, kStop)));
}

TEST_F(StoreClientsTest, ACancelledWaitIsForgottenAndSoIsThatOfAClientThatIsGone) {
  Say(1, Validation() + kNew.Wait({"a"}));
  EXPECT_THAT(Say(1, CancelWait()), ElementsAre(Pair(1, kCancelled)));
  Say(2, kOld.Wait({"a"}));
  clients_.Close(2);
  EXPECT_THAT(Say(3, kOld.Set("a", "")), IsEmpty());
  EXPECT_EQ(clients_.keys().byte_count(), 1U);
}

// libtorch 1.13 does not tell the store that it has given up a wait. Break: keep the wait. Then the
// client takes its answer for the answer to the next request.
TEST_F(StoreClientsTest, ANewRequestEndsTheWaitBefore) {
  Say(1, kOld.Wait({"a"}));
  EXPECT_THAT(Say(1, kOld.Add("n", 1)), ElementsAre(Pair(1, Raw<std::int64_t>(1))));
  EXPECT_THAT(Say(2, kOld.Set("a", "")), IsEmpty());
}

TEST_F(StoreClientsTest, WatchersHearOfEveryChange) {
  EXPECT_THAT(Say(1, Watch("k")), ElementsAre(Pair(1, Byte(3))));
  const std::string key = Text("k");
  EXPECT_THAT(Say(2, kOld.Set("k", "a")),
              ElementsAre(Pair(1, Byte(1) + key + Text("") + Text("a"))));
  EXPECT_THAT(Say(2, kOld.CompareSet("k", "a", "b")),
              ElementsAre(Pair(2, Text("b")), Pair(1, Byte(0) + key + Text("a") + Text("b"))));
  EXPECT_THAT(Say(2, OldDelete("k")), ElementsAre(Pair(1, Byte(2) + key + Text("b") + Text("")),
                                                  Pair(2, Raw<std::int64_t>(1))));
  clients_.Close(1);
  EXPECT_THAT(Say(2, kOld.Set("k", "a")), IsEmpty());
}

TEST_F(StoreClientsTest, WhatLibtorchsStoreFailsAtIsRefused) {
  EXPECT_EQ(RefusalOf(1, kOld.Get("k")), "GET of a key that is not there");
  Say(2, kOld.Set("k", "text"));
  EXPECT_EQ(RefusalOf(2, kOld.Add("k", 1)), "ADD to a value that is no number");
  EXPECT_EQ(RefusalOf(3, "HELO"), "the unknown operation 72");
}

TEST_F(StoreClientsTest, TheStoreHasRoomForSoManyKeysAndBytes) {
  Say(1, kOld.Set("a", std::string(40, 'x')) + kOld.Set("b", std::string(40, 'x')));
  EXPECT_THAT(RefusalOf(2, kOld.Set("c", std::string(40, 'x'))), HasSubstr("the store is full"));
  EXPECT_THAT(RefusalOf(3, kOld.Wait({std::string(40, 'x')})), HasSubstr("the store is full"));
  EXPECT_THAT(RefusalOf(4, Watch(std::string(40, 'x'))), HasSubstr("the store is full"));
  Say(1, kOld.Set("a", "") + kOld.Set("c", "") + kOld.Set("d", ""));
  EXPECT_EQ(RefusalOf(5, kOld.Set("e", "")), "the store is full: it has 4 keys");
  EXPECT_EQ(clients_.keys().byte_count(), 44U);
}

TEST_F(StoreClientsTest, WhatIsNotCompleteIsBoundedForAllClientsTogether) {
  const std::string most = kOld.Op(2) + Raw<std::uint64_t>(1000) + std::string(91, 'x');
  Say(1, most);
  Say(2, most);
  EXPECT_EQ(clients_.unfinished_bytes(), 200U);
  EXPECT_EQ(RefusalOf(3, Byte(2)), "requests that are not complete have more than 200 bytes");
  clients_.Close(1);
  Say(4, Byte(2));
}

}  // namespace store_clients_test
}  // namespace ddprun::torch_store
