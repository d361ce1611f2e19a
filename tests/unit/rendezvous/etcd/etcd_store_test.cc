#include "rendezvous/etcd/etcd_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/rendezvous/etcd/fake_etcd.h"
#include "tests/unit/rendezvous/store/store_driver.h"

namespace ddprun::etcd {
namespace etcd_store_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Outcome = Store::Outcome;

class EtcdStoreTest : public ::testing::Test {
 protected:
  EtcdStoreTest() {
    auto client = Client::Create({{etcd_.endpoint()}, "", "", "", "", ""});
    EXPECT_TRUE(client.ok()) << client.status();
    options_.client = *std::move(client);
    options_.prefix = "/p";
    options_.first_retry = std::chrono::milliseconds(1);
    options_.last_retry = std::chrono::milliseconds(1);
    options_.patience = std::chrono::milliseconds(0);
    term_ = TakeOver("us");
  }

  // Writes the leader key, like a new leader.
  Term TakeOver(const std::string& who) {
    return {FakeEtcd::kCluster, static_cast<std::uint64_t>(etcd_.Put("/p/leader", who))};
  }
  std::unique_ptr<EtcdStore> NewStore(const Term& term) {
    auto store = std::make_unique<EtcdStore>(options_, listener_.Log());
    store->SetTerm(term);
    return store;
  }
  // A store that has loaded the state.
  std::unique_ptr<EtcdStore> Loaded() {
    auto store = NewStore(term_);
    const auto loaded = store->Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return store;
  }
  // What the next leader finds.
  Entries AfterATakeover() {
    const auto loaded = NewStore(TakeOver("next"))->Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.value_or(Entries{});
  }
  // Returns the last outcome.
  Outcome CommitAndWait(EtcdStore& store, Store::Batch batch) {
    std::promise<Outcome> promise;
    store.Commit(std::move(batch), [&](Outcome outcome) {
      if (outcome != Outcome::kFailed) promise.set_value(outcome);
    });
    return promise.get_future().get();
  }
  // Waits until the tasks of the store that were queued before have run.
  void WaitForTasks(EtcdStore& store) {
    std::promise<void> ran;
    store.Post([&] { ran.set_value(); });
    ran.get_future().wait();
  }

  FakeEtcd etcd_;
  Listener listener_;
  EtcdStore::Options options_;
  Term term_;
};

TEST_F(EtcdStoreTest, TheNextLeaderFindsWhatWasKept) {
  auto store = Loaded();
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}, {"b", std::string(600'000, 'b')}}), Outcome::kKept);
  EXPECT_EQ(CommitAndWait(*store, {{"c", "3"}}), Outcome::kKept);
  EXPECT_EQ(CommitAndWait(*store, {{"c", std::nullopt}}), Outcome::kKept);
  EXPECT_EQ(AfterATakeover(), (Entries{{"a", "1"}, {"b", std::string(600'000, 'b')}}));
  EXPECT_THAT(listener_.lines(), IsEmpty());
}

TEST_F(EtcdStoreTest, AWriteWhoseAnswerWasLostAfterItsEffectIsKept) {
  auto store = Loaded();
  etcd_.Meet({true, FakeEtcd::TimedOut()});
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kKept);
  EXPECT_THAT(etcd_.writes(), SizeIs(1)) << "it was not sent again";
  EXPECT_EQ(CommitAndWait(*store, {{"a", "2"}}), Outcome::kKept);
  EXPECT_EQ(AfterATakeover(), (Entries{{"a", "2"}}));
}

TEST_F(EtcdStoreTest, AWriteThatWasLostBeforeItsEffectIsSentAgain) {
  auto store = Loaded();
  etcd_.Meet({false, FakeEtcd::TimedOut()});
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kKept);
  EXPECT_THAT(etcd_.writes(), SizeIs(2));
  EXPECT_EQ(AfterATakeover(), (Entries{{"a", "1"}}));
}

// The first try takes effect only after the store has looked for it. The second try then fails on
// its guards, and finds the first.
TEST_F(EtcdStoreTest, AWriteThatArrivesAfterItWasLookedForIsKeptOnce) {
  auto store = Loaded();
  etcd_.RefuseWrites(FakeEtcd::TimedOut());
  etcd_.RefuseReads(FakeEtcd::TimedOut());
  std::promise<Outcome> promise;
  store->Commit({{"a", "1"}}, [&](Outcome outcome) {
    if (outcome != Outcome::kFailed) promise.set_value(outcome);
  });
  listener_.WaitForLines(1);
  ASSERT_THAT(etcd_.writes(), SizeIs(1)) << "nothing is sent before the answer is known";
  etcd_.RefuseReads(std::nullopt);
  while (etcd_.writes().size() < 2) std::this_thread::yield();  // looked for, and sent again
  EXPECT_TRUE(etcd_.Replay(etcd_.writes()[0]));
  etcd_.RefuseWrites(std::nullopt);
  EXPECT_EQ(promise.get_future().get(), Outcome::kKept);
  EXPECT_EQ(CommitAndWait(*store, {{"a", "2"}}), Outcome::kKept);
  EXPECT_EQ(AfterATakeover(), (Entries{{"a", "2"}}));
}

TEST_F(EtcdStoreTest, NothingElseIsWrittenBeforeALostAnswerIsKnown) {
  auto store = Loaded();
  etcd_.Meet({true, FakeEtcd::TimedOut()});
  etcd_.RefuseReads(FakeEtcd::NoLeader());
  Listener done;
  store->Commit({{"a", "1"}}, done.Done());
  done.WaitForOutcome(Outcome::kFailed);
  store->Commit({{"b", "2"}}, done.Done());
  for (int i = 0; i < 5; ++i) WaitForTasks(*store);
  EXPECT_THAT(etcd_.writes(), SizeIs(1));
  EXPECT_EQ(done.done(), 0);
  etcd_.RefuseReads(std::nullopt);
  done.WaitForDone(2);
  EXPECT_THAT(done.outcomes(), ElementsAre(Outcome::kFailed, Outcome::kKept, Outcome::kKept));
}

TEST_F(EtcdStoreTest, ADelayedCopyOfAnEarlierWriteNeverWins) {
  auto store = Loaded();
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kKept);
  EXPECT_EQ(CommitAndWait(*store, {{"a", "2"}}), Outcome::kKept);
  EXPECT_EQ(CommitAndWait(*store, {{"a", std::nullopt}}), Outcome::kKept);
  // The key is missing again, so the guard of the first write on the key holds again.
  for (const auto& request : etcd_.writes()) EXPECT_FALSE(etcd_.Replay(request));
  EXPECT_EQ(CommitAndWait(*store, {{"b", "3"}}), Outcome::kKept);
  EXPECT_EQ(AfterATakeover(), (Entries{{"b", "3"}}));
}

TEST_F(EtcdStoreTest, AfterTheLossOfTheLeadershipNothingIsWrittenAgain) {
  auto store = Loaded();
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kKept);
  TakeOver("another");
  EXPECT_EQ(CommitAndWait(*store, {{"a", "2"}}), Outcome::kLostRight);
  EXPECT_EQ(CommitAndWait(*store, {{"a", "3"}}), Outcome::kLostRight);
  EXPECT_THAT(listener_.lines(), ElementsAre(HasSubstr("another rendezvous has taken over")));
  EXPECT_EQ(AfterATakeover(), (Entries{{"a", "1"}}));
}

TEST_F(EtcdStoreTest, ALostAnswerOfALostLeadershipIsALostRight) {
  auto store = Loaded();
  etcd_.Meet({false, FakeEtcd::TimedOut()});
  etcd_.RefuseReads(FakeEtcd::NoLeader());
  Listener done;
  store->Commit({{"a", "1"}}, done.Done());
  done.WaitForOutcome(Outcome::kFailed);
  TakeOver("another");
  etcd_.RefuseReads(std::nullopt);
  done.WaitForOutcome(Outcome::kLostRight);
  EXPECT_THAT(etcd_.writes(), SizeIs(1));
}

TEST_F(EtcdStoreTest, SomebodyElsesWriteOfAKeyIsALostRight) {
  auto store = Loaded();
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kKept);
  etcd_.Delete("/p/state/a");
  EXPECT_EQ(CommitAndWait(*store, {{"a", "2"}}), Outcome::kLostRight);
}

// All guards hold: a snapshot keeps the revisions. Fails if Send() or Load() does not compare
// clusters.
TEST_F(EtcdStoreTest, AWriteThatAnotherClusterTakesIsALostRight) {
  auto store = Loaded();
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kKept);
  etcd_.BecomeAnotherCluster();
  EXPECT_EQ(CommitAndWait(*store, {{"a", "2"}}), Outcome::kLostRight);
  EXPECT_EQ(CommitAndWait(*store, {{"b", "1"}}), Outcome::kLostRight);
  EXPECT_EQ(NewStore(term_)->Load().status().code(), absl::StatusCode::kFailedPrecondition);
}

// Seen red with a guard on the revision alone: the next leader of that etcd would find "a".
TEST_F(EtcdStoreTest, AnEmptiedEtcdWithTheSameRevisionTakesNoWrite) {
  auto store = Loaded();
  etcd_.BecomeAnotherCluster();
  etcd_.Replace("/p/leader", "another");
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kLostRight);
  EXPECT_THAT(etcd_.Keys("/p/state/"), IsEmpty());
}

TEST_F(EtcdStoreTest, GoesOnUnderAnotherTermOfItsOwn) {
  auto store = Loaded();
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kKept);
  store->Post([&] { store->SetTerm(TakeOver("us again")); });
  EXPECT_EQ(CommitAndWait(*store, {{"a", "2"}}), Outcome::kKept);
}

TEST_F(EtcdStoreTest, AFullEtcdIsSaidOnceAndTriedOn) {
  std::vector<std::string> troubles;  // used by the store's thread until WaitForTasks()
  options_.on_trouble = [&](const std::string& why) { troubles.push_back(why); };
  auto store = Loaded();
  for (int i = 0; i < 10; ++i) etcd_.Meet({false, FakeEtcd::NoSpace()});
  Listener done;
  store->Commit({{"a", "1"}}, done.Done());
  done.WaitForDone(1);
  EXPECT_THAT(done.outcomes(), ElementsAre(Outcome::kFailed, Outcome::kKept));
  EXPECT_THAT(listener_.lines(),
              ElementsAre(HasSubstr("NOSPACE"), HasSubstr("can be written again")));
  WaitForTasks(*store);
  EXPECT_THAT(troubles, ElementsAre(HasSubstr("NOSPACE"), ""));
  options_.on_trouble = nullptr;
  EXPECT_EQ(AfterATakeover(), (Entries{{"a", "1"}}));
}

// etcd answers NOSPACE although the transaction took effect, and then refuses the same transaction.
TEST_F(EtcdStoreTest, AFullEtcdThatHasCarriedItOutHasKeptIt) {
  auto store = Loaded();
  etcd_.Meet({true, FakeEtcd::NoSpace()});
  for (int i = 0; i < 10; ++i) etcd_.Meet({false, FakeEtcd::NoSpace()});
  EXPECT_EQ(CommitAndWait(*store, {{"a", "1"}}), Outcome::kKept);
  EXPECT_THAT(etcd_.writes(), SizeIs(1));
}

TEST_F(EtcdStoreTest, AShortElectionIsNotSaid) {
  options_.patience = std::chrono::minutes(1);
  auto store = Loaded();
  for (int i = 0; i < 3; ++i) etcd_.Meet({false, FakeEtcd::NoLeader()});
  Listener done;
  store->Commit({{"a", "1"}}, done.Done());
  done.WaitForDone(1);
  EXPECT_THAT(done.outcomes(), ElementsAre(Outcome::kKept));
  EXPECT_THAT(listener_.lines(), IsEmpty());
}

TEST_F(EtcdStoreTest, TasksOfOthersRunWhileAWriteIsTriedOn) {
  options_.first_retry = options_.last_retry = std::chrono::minutes(10);
  auto store = Loaded();
  etcd_.Meet({false, FakeEtcd::NoLeader()});
  Listener done;
  store->Commit({{"a", "1"}}, done.Done());
  done.WaitForOutcome(Outcome::kFailed);
  WaitForTasks(*store);  // within the pause
  done.WaitForDone(1);   // the write follows
}

TEST_F(EtcdStoreTest, WhatWaitsTakesMemoryByKeysNotByCommits) {
  options_.merge_above_bytes = 10'000;
  auto store = Loaded();
  etcd_.RefuseAll(FakeEtcd::NoLeader());
  Listener done;
  store->Commit({{"first", "1"}}, done.Done());
  done.WaitForOutcome(Outcome::kFailed);
  for (int i = 0; i < 1000; ++i) {
    store->Commit({{absl::StrCat("k", i % 5), std::string(1000, 'x')}}, done.Done());
    ASSERT_LT(store->QueuedBytes(), 30'000u);
  }
  etcd_.RefuseAll(std::nullopt);
  done.WaitForDone(1001);
  EXPECT_THAT(AfterATakeover(), SizeIs(6));
}

TEST_F(EtcdStoreTest, LoadIsForTheLeaderAlone) {
  const auto store = NewStore(term_);
  TakeOver("another");
  EXPECT_EQ(store->Load().status().code(), absl::StatusCode::kFailedPrecondition);
  options_.load_limit = std::chrono::milliseconds(50);
  const auto waits = NewStore(TakeOver("us"));
  etcd_.RefuseAll(FakeEtcd::NoLeader());
  const auto loaded = waits->Load();
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("no leader"));
}

TEST_F(EtcdStoreTest, EndsInTimeAlthoughEtcdDoesNotAnswer) {
  options_.close_grace = std::chrono::milliseconds(100);
  options_.last_retry = std::chrono::minutes(1);
  auto store = Loaded();
  etcd_.RefuseAll(FakeEtcd::NoLeader());
  Listener done;
  store->Commit({{"a", "1"}}, done.Done());
  done.WaitForOutcome(Outcome::kFailed);
  store.reset();
  EXPECT_EQ(done.done(), 0);
}

}  // namespace etcd_store_test
}  // namespace ddprun::etcd
