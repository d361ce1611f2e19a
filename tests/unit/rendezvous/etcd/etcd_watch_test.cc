#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_client.h"
#include "tests/unit/rendezvous/etcd/fake_etcd.h"

namespace ddprun::etcd {
namespace etcd_watch_test {

using ::testing::ElementsAre;
using ::testing::Optional;

// Keeps the states that a watch reports.
class Told {
 public:
  Watch::OnChange OnChange() {
    return [this](const KeyState& state) {
      const std::lock_guard lock(mutex_);
      states_.push_back(state);
      changed_.notify_all();
    };
  }
  // Waits until the last state has this value.
  bool WaitFor(const std::optional<std::string>& value) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60),
                             [&] { return !states_.empty() && states_.back().value == value; });
  }
  std::vector<KeyState> states() const {
    const std::lock_guard lock(mutex_);
    return states_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<KeyState> states_;  // guarded by mutex_
};

class EtcdWatchTest : public ::testing::Test {
 protected:
  EtcdWatchTest() {
    auto client = Client::Create({{first_.endpoint(), second_.endpoint()}, "", "", "", "", ""});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  Told told_;
  FakeEtcd first_;
  FakeEtcd second_;
  std::unique_ptr<Client> client_;
};

TEST_F(EtcdWatchTest, TellsHowTheKeyIsAndThenEachChange) {
  const auto watch = client_->WatchKey("/k", told_.OnChange());
  ASSERT_TRUE(told_.WaitFor(std::nullopt));
  first_.WaitForWatches(1);
  const auto revision = static_cast<std::uint64_t>(first_.Put("/k", "1"));
  first_.Put("/other", "x");
  ASSERT_TRUE(told_.WaitFor("1"));
  first_.Delete("/k");
  ASSERT_TRUE(told_.WaitFor(std::nullopt));
  EXPECT_THAT(told_.states(), ElementsAre(KeyState{FakeEtcd::kCluster, 0, std::nullopt},
                                          KeyState{FakeEtcd::kCluster, revision, "1"},
                                          KeyState{FakeEtcd::kCluster, 0, std::nullopt}));
}

TEST_F(EtcdWatchTest, BeginsAgainAtAnotherMemberWhereAStreamEnds) {
  second_.Put("/k", "of the second");
  const auto watch = client_->WatchKey("/k", told_.OnChange());
  first_.WaitForWatches(1);
  first_.EndWatches();
  ASSERT_TRUE(told_.WaitFor("of the second"));
  second_.WaitForWatches(1);
  second_.Put("/k", "2");
  ASSERT_TRUE(told_.WaitFor("2"));
}

TEST_F(EtcdWatchTest, LeavesAMemberThatSaysNothingThoughItIsAsked) {
  second_.Put("/k", "of the second");
  const auto watch = client_->WatchKey("/k", told_.OnChange());
  first_.WaitForWatches(1);
  first_.Mute();
  ASSERT_TRUE(told_.WaitFor("of the second"));
}

TEST_F(EtcdWatchTest, WhatChangedBetweenTwoStreamsIsTold) {
  const auto watch = client_->WatchKey("/k", told_.OnChange());
  first_.WaitForWatches(1);
  second_.RefuseAll(FakeEtcd::NoLeader());
  first_.RefuseAll(FakeEtcd::NoLeader());
  first_.EndWatches();
  first_.Put("/k", "meanwhile");
  first_.RefuseAll(std::nullopt);
  ASSERT_TRUE(told_.WaitFor("meanwhile"));
}

TEST_F(EtcdWatchTest, EndsAtOnceInWhateverItDoes) {
  auto streams = client_->WatchKey("/k", told_.OnChange());
  first_.WaitForWatches(1);
  streams.reset();
  first_.RefuseAll(FakeEtcd::NoLeader());
  second_.RefuseAll(FakeEtcd::NoLeader());
  client_->WatchKey("/k", told_.OnChange()).reset();
}

}  // namespace etcd_watch_test
}  // namespace ddprun::etcd
