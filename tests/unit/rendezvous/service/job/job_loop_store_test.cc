// Tests what JobLoop makes durable before it answers, and what it restores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/service/job/job_loop.h"
#include "rendezvous/wire/record.h"
#include "tests/unit/rendezvous/service/job/job_loop_fixture.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace job_loop_store_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A store that makes nothing durable until the test allows it.
class HeldStore final : public Store {
 public:
  absl::StatusOr<std::map<std::string, std::string>> Load() override { return stored_; }
  void Commit(Batch batch, Done done) override {
    const std::lock_guard lock(mutex_);
    for (Write& write : batch) {
      if (write.value) {
        stored_[write.key] = *write.value;
      } else {
        stored_.erase(write.key);
      }
    }
    held_.push_back(std::move(done));
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    for (const Done& done : std::exchange(held_, {})) done(Outcome::kKept);
  }
  // Reports the outcome of all held batches. After kFailed they stay held: the store tries again.
  void Report(Outcome outcome) {
    const std::lock_guard lock(mutex_);
    for (const Done& done : held_) done(outcome);
    if (outcome != Outcome::kFailed) held_.clear();
  }
  std::map<std::string, std::string> stored() {
    const std::lock_guard lock(mutex_);
    return stored_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> stored_;
  std::vector<Done> held_;
};

TEST_F(JobLoopTest, NothingIsSaidBeforeItIsDurableButHeartbeatsAreAnswered) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = false});
  options.store = &store;
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto stream = Joined("job", 1);
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{42, {}});
  ASSERT_TRUE(stream->WaitFor<HeartbeatAck>()) << "a slow disk must not look like a lost agent";
  EXPECT_THAT(stream->sent(), ElementsAre(testing::VariantWith<HeartbeatAck>(testing::_)));
  const auto other = Joined("other job", 1, 2);
  ASSERT_TRUE(other->WaitForRequests(2));
  store.Release();
  EXPECT_TRUE(stream->WaitFor<Assignment>());
  loop_.reset();
}

absl::Status Readiness(JobLoop& loop) {
  std::promise<absl::Status> ready;
  loop.CheckReady([&](const absl::Status& status) { ready.set_value(status); });
  return ready.get_future().get();
}

TEST_F(JobLoopTest, IsReadyUnlessItsDiskHangsOrItHasEnded) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = false});
  options.store = &store;
  options.slow_commit = {};
  loop_ = std::make_unique<JobLoop>(std::move(options));
  EXPECT_TRUE(Readiness(*loop_).ok());
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitForRequests(2));
  const absl::Status hangs = Readiness(*loop_);
  EXPECT_TRUE(absl::IsUnavailable(hangs)) << hangs;
  EXPECT_THAT(std::string(hangs.message()), HasSubstr("has not taken a change for 0 s"));
  store.Release();
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  store.Release();  // batches that were committed meanwhile
  EXPECT_TRUE(Readiness(*loop_).ok());
  loop_->Shutdown();
  EXPECT_TRUE(absl::IsUnavailable(Readiness(*loop_)));
  loop_.reset();
}

// Seen red with a JobLoop that treats every outcome as kKept.
TEST_F(JobLoopTest, WhatTheStoreCannotWriteYetHoldsUpOnlyWhatRestsOnIt) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = false});
  options.store = &store;
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitForRequests(2));
  store.Report(Store::Outcome::kFailed);
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{42, {}});
  ASSERT_TRUE(stream->WaitFor<HeartbeatAck>());
  EXPECT_THAT(stream->sent(), ElementsAre(testing::VariantWith<HeartbeatAck>(testing::_)));
  store.Release();
  EXPECT_TRUE(stream->WaitFor<Assignment>());
  loop_.reset();
}

// Seen red with a JobLoop that treats kLostRight as kFailed.
TEST_F(JobLoopTest, WhoMayWriteNoMoreAcknowledgesNobodyAndEndsEverySession) {
  HeldStore store;
  std::promise<void> lost;
  JobLoopOptions options = Options({.leases = false});
  options.store = &store;
  options.lost_right = [&] { lost.set_value(); };
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto stream = Joined("job", 1);
  const auto other = Joined("other job", 1, 2);
  ASSERT_TRUE(stream->WaitForRequests(2) && other->WaitForRequests(2));
  std::promise<absl::StatusOr<std::string>> drained;
  loop_->DrainNode("", "job", "n1", [&](auto answer) { drained.set_value(answer); });
  store.Report(Store::Outcome::kLostRight);
  for (const auto& one : {stream, other}) {
    const absl::Status why = one->WaitForClose();
    EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(why.message()), HasSubstr("lost the right to write"));
    EXPECT_THAT(one->sent(), IsEmpty());
  }
  EXPECT_EQ(lost.get_future().wait_for(kTestDeadline), std::future_status::ready);
  EXPECT_FALSE(drained.get_future().get().ok());
  EXPECT_THAT(log(), HasSubstr("lost the right to write"));
  // No session is accepted any more, and no message is answered.
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{42, {}});
  EXPECT_EQ(Joined("job", 2)->WaitForClose().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(stream->sent(), IsEmpty());
  std::promise<std::size_t> jobs;
  loop_->GetStatus("", "",
                   [&](const auto& found) { jobs.set_value(found.ok() ? found->size() : 0); });
  EXPECT_EQ(jobs.get_future().get(), 0u);
  loop_.reset();
}

TEST_F(JobLoopTest, ARecordedJobGoesOnWithItsGenerationAndItsWorkers) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = true});
  options.store = &store;
  loop_ = std::make_unique<JobLoop>(options);
  const auto first = Joined("job", 1);
  ASSERT_TRUE(first->WaitForRequests(2));
  store.Release();
  ASSERT_TRUE(first->WaitFor<Assignment>());
  loop_.reset();

  std::vector<RecordedJob> recorded;
  for (const auto& [key, value] : store.stored()) {
    auto record = wire::DecodeRecord(value);
    ASSERT_TRUE(record.ok()) << record.status();
    recorded.push_back({*wire::JobOfKey(key), record->owner, record->record});
  }
  ASSERT_EQ(recorded.size(), 1u);
  loop_ = std::make_unique<JobLoop>(options, recorded);
  const auto again = Open();
  Join join = JoinOf("n1", 1);
  join.workers_running = true;
  loop_->OnMessage(again, HeaderOf("job", 1, 0), join);
  EXPECT_TRUE(again->WaitFor<Start>()) << "which an agent that has started ignores";
  loop_->OnMessage(again, HeaderOf("job", 1, 0), WorkerExited{});
  ASSERT_TRUE(again->WaitForRequests(3));
  store.Release();
  EXPECT_TRUE(again->WaitFor<Finished>());
  loop_.reset();
}

TEST_F(JobLoopTest, OnlySoManyJobsThatAreOverAreKept) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = false});
  options.ended.jobs = 3;
  options.store = &store;
  loop_ = std::make_unique<JobLoop>(std::move(options));
  for (int i = 0; i < 10; ++i) {
    const std::string name = absl::StrCat("job", i);
    const auto stream = Joined(name, 1);
    ASSERT_TRUE(stream->WaitForRequests(2));
    store.Release();
    ASSERT_TRUE(stream->WaitFor<Assignment>());
    loop_->OnMessage(stream, HeaderOf(name, 1, 0), AssignmentAck{});
    loop_->OnMessage(stream, HeaderOf(name, 1, 0), WorkerExited{});
    ASSERT_TRUE(stream->WaitForRequests(4));
    store.Release();
    ASSERT_TRUE(stream->WaitFor<Finished>());
  }
  std::promise<std::size_t> jobs;
  loop_->GetStatus("", "",
                   [&](const auto& found) { jobs.set_value(found.ok() ? found->size() : 0); });
  EXPECT_EQ(jobs.get_future().get(), 3u);
  loop_.reset();
  EXPECT_EQ(store.stored().size(), 3u);
}

}  // namespace job_loop_store_test
}  // namespace ddprun
