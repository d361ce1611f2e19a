// The client and the store against a real etcd.
#include "tests/support/etcd_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/etcd/etcd_store.h"
#include "tests/support/capabilities.h"

namespace ddprun::etcd {
namespace etcd_cluster_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::chrono::milliseconds kLimit{10000};

std::unique_ptr<Client> ClientOf(std::vector<std::string> endpoints) {
  auto client = Client::Create({std::move(endpoints), "", "", "", "", ""});
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

class EtcdClusterTest : public ::testing::Test {
 protected:
  void SetUp() override { DDPRUN_NEEDS(MissingForEtcd()); }

  // Repeats the transaction until it is answered: an election may be under way.
  static Answer MustTransact(Client& client, const std::vector<Guard>& guards,
                             const std::vector<Write>& writes,
                             const std::vector<std::string>& reads) {
    const auto deadline = std::chrono::steady_clock::now() + kHang;
    for (;;) {
      const auto answer = client.Transact(guards, writes, reads, kLimit);
      if (answer.ok()) return *answer;
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << answer.status();
        return {};
      }
    }
  }
};

TEST_F(EtcdClusterTest, OneMemberTransactsListsAndTellsOfItself) {
  EtcdCluster etcd(1);
  const auto client = ClientOf(etcd.endpoints());
  const Answer made = MustTransact(*client, {{"/a/1", 0}}, {{"/a/1", "x"}}, {"/a/1"});
  ASSERT_TRUE(made.guarded);
  ASSERT_THAT(made.found, SizeIs(1));
  EXPECT_EQ(made.found[0].mod_revision, made.revision);
  const Answer refused = MustTransact(*client, {{"/a/1", 0}}, {{"/a/1", "y"}}, {"/a/1"});
  EXPECT_FALSE(refused.guarded);
  ASSERT_THAT(refused.found, SizeIs(1));
  EXPECT_EQ(refused.found[0].value, "x");

  std::vector<Write> many;
  for (int i = 100; i < 200; ++i) many.push_back({absl::StrCat("/b/", i), "v"});
  MustTransact(*client, {}, many, {});
  const auto listed = client->List("/b/", false, kLimit);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_THAT(listed->found, SizeIs(100));

  const auto status = client->Ask(etcd.endpoints()[0], kLimit);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->cluster, made.cluster);
  EXPECT_EQ(status->leader, status->member);
  EXPECT_THAT(status->version, HasSubstr("3."));
  EXPECT_THAT(status->alarms, IsEmpty());

  const auto large = client->Transact({}, {{"/large", std::string(2 << 20, 'x')}}, {}, kLimit);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kInvalidArgument);
}

// The leading rendezvous renews its term by a read. An etcd member that is cut off from the
// majority must not answer this read from its memory.
TEST_F(EtcdClusterTest, AMemberThatIsCutOffAnswersNoRenewal) {
  EtcdCluster etcd(3);
  const auto all = ClientOf(etcd.endpoints());
  const Answer made = MustTransact(*all, {}, {{"/leader", "us"}}, {});
  const std::vector<Guard> term = {{"/leader", made.revision}};
  for (const bool was_leader : {false, true}) {
    const int cut_off = was_leader ? etcd.WaitForLeader() : (etcd.WaitForLeader() + 1) % 3;
    const auto client = ClientOf({etcd.endpoints()[cut_off]});
    EXPECT_TRUE(MustTransact(*client, term, {}, {"/leader"}).guarded);
    for (int other = 0; other < 3; ++other) {
      if (other != cut_off) etcd.Freeze(other);
    }
    for (int i = 0; i < 3; ++i) {
      const auto renewal = client->Transact(term, {}, {"/leader"}, std::chrono::milliseconds(400));
      EXPECT_FALSE(renewal.ok()) << "answered without consensus";
    }
    for (int other = 0; other < 3; ++other) {
      if (other != cut_off) etcd.Thaw(other);
    }
    EXPECT_TRUE(MustTransact(*client, term, {}, {"/leader"}).guarded);
  }
}

// A write without an answer costs its whole limit: it is not sent to a member that hangs.
TEST_F(EtcdClusterTest, AWriteLeavesAMemberThatHangsForAnotherOne) {
  EtcdCluster etcd(3);
  const int follower = (etcd.WaitForLeader() + 1) % 3;
  std::vector<std::string> endpoints = etcd.endpoints();
  std::swap(endpoints[0], endpoints[follower]);
  const auto client = ClientOf(endpoints);
  ASSERT_TRUE(client->Ask(endpoints[0], kLimit).ok());  // it is connected
  etcd.Freeze(follower);
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = client->Transact({}, {{"/a", "2"}}, {}, std::chrono::seconds(30));
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

TEST_F(EtcdClusterTest, AWatchGoesOnAtAnotherMemberWhenItsOwnIsKilledOrHangs) {
  EtcdCluster etcd(3);
  const auto client = ClientOf(etcd.endpoints());
  std::mutex mutex;
  std::condition_variable changed;
  std::string last;
  const auto watch = client->WatchKey("/k", [&](const KeyState& state) {
    const std::lock_guard lock(mutex);
    last = state.value.value_or("");
    changed.notify_all();
  });
  const auto told = [&](const std::string& value) {
    const auto writer = ClientOf(etcd.endpoints());
    MustTransact(*writer, {}, {{"/k", value}}, {});
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kHang, [&] { return last == value; });
  };
  ASSERT_TRUE(told("1"));
  for (int member = 0; member < 3; ++member) {
    etcd.Kill(member);
    EXPECT_TRUE(told(absl::StrCat("without ", member)));
    etcd.Start(member);
    etcd.WaitForLeader();
    etcd.Freeze(member);
    EXPECT_TRUE(told(absl::StrCat("frozen ", member)));
    etcd.Thaw(member);
  }
}

TEST_F(EtcdClusterTest, TheStoreKeepsAllThatItSaidWhileMembersDie) {
  EtcdCluster etcd(3);
  const std::shared_ptr<Client> client = ClientOf(etcd.endpoints());
  const Answer taken = MustTransact(*client, {}, {{"/p/leader", "us"}}, {});
  EtcdStore::Options options;
  options.client = client;
  options.prefix = "/p";
  options.call_limit = std::chrono::milliseconds(300);  // so that answers are lost
  const Term term{taken.cluster, taken.revision};
  EtcdStore store(options, {});
  store.SetTerm(term);
  ASSERT_TRUE(store.Load().ok());

  std::map<std::string, std::string> kept;
  const auto commit = [&](const std::string& key, const std::string& value) {
    std::promise<Store::Outcome> done;
    store.Commit({{key, value}}, [&](Store::Outcome outcome) {
      if (outcome != Store::Outcome::kFailed) done.set_value(outcome);
    });
    ASSERT_EQ(done.get_future().get(), Store::Outcome::kKept);
    kept[key] = value;
  };
  commit("large", std::string(3'000'000, 'x'));
  for (int round = 0; round < 3; ++round) {
    const int leader = etcd.WaitForLeader();
    round == 1 ? etcd.Freeze(leader) : etcd.Kill(leader);
    for (int i = 0; i < 10; ++i) commit(absl::StrCat("k", i), absl::StrCat(round, "-", i));
    round == 1 ? etcd.Thaw(leader) : etcd.Start(leader);
  }
  commit("large", std::string(2'000'000, 'x') + "y");

  const Answer next = MustTransact(*client, {}, {{"/p/leader", "another"}}, {});
  EtcdStore other(options, {});
  other.SetTerm({next.cluster, next.revision});
  const auto loaded = other.Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, kept);
  std::promise<Store::Outcome> refused;
  store.Commit({{"k0", "late"}}, [&](Store::Outcome outcome) { refused.set_value(outcome); });
  EXPECT_EQ(refused.get_future().get(), Store::Outcome::kLostRight);
}

TEST_F(EtcdClusterTest, AFullEtcdIsSaidAndReadOn) {
  EtcdCluster etcd(1, {"--quota-backend-bytes", "200000"});
  const auto client = ClientOf(etcd.endpoints());
  absl::Status status;
  int kept = 0;
  while (status.ok() && kept < 1000) {
    status = client->Transact({}, {{"/full", std::string(50'000, 'x')}}, {}, kLimit).status();
    if (status.ok()) ++kept;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_THAT(std::string(status.message()), HasSubstr("NOSPACE"));
  EXPECT_TRUE(client->Transact({}, {}, {"/full"}, kLimit).ok());
  const auto member = client->Ask(etcd.endpoints()[0], kLimit);
  ASSERT_TRUE(member.ok()) << member.status();
  EXPECT_THAT(member->alarms, ElementsAre("NOSPACE"));
}

}  // namespace etcd_cluster_test
}  // namespace ddprun::etcd
