#include "rendezvous/service/job/serial_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ddprun {
namespace serial_executor_test {

using ::testing::ElementsAre;

constexpr std::chrono::seconds kHang(60);

TimePoint Now() { return std::chrono::steady_clock::now(); }

// Records the items that it gets, and on which thread.
class Recorder final : public SerialExecutor<int>::Handler {
 public:
  TimePoint Handle(std::vector<int>& events, TimePoint) override {
    const std::lock_guard lock(mutex_);
    handled_.insert(handled_.end(), events.begin(), events.end());
    threads_.push_back(std::this_thread::get_id());
    changed_.notify_all();
    return next_;
  }
  void HandleLast(std::vector<int>& events, TimePoint) override {
    const std::lock_guard lock(mutex_);
    last_ = events;
  }

  // Waits until it was called `calls` times.
  bool WaitForCalls(std::size_t calls) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kHang, [&] { return threads_.size() >= calls; });
  }
  void SetNext(TimePoint next) {
    const std::lock_guard lock(mutex_);
    next_ = next;
  }
  std::vector<int> handled() const {
    const std::lock_guard lock(mutex_);
    return handled_;
  }
  std::vector<std::thread::id> threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }
  const std::vector<int>& last() const { return last_; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> handled_;
  std::vector<int> last_;
  std::vector<std::thread::id> threads_;
  TimePoint next_ = TimePoint::max();
};

using By = SerialExecutor<int>::By;

class SerialExecutorTest : public testing::Test {
 protected:
  Recorder recorder_;
  SerialExecutor<int> executor_{&recorder_};
};

TEST_F(SerialExecutorTest, ItsThreadPreparesBeforeItHandles) {
  static std::thread::id prepared;
  executor_.Start(TimePoint::max(), [] { prepared = std::this_thread::get_id(); });
  executor_.Post(1);
  ASSERT_TRUE(recorder_.WaitForCalls(1));
  EXPECT_THAT(recorder_.threads(), ElementsAre(prepared));
}

TEST_F(SerialExecutorTest, WhoPostsHandlesWhatWaitsInItsOrder) {
  executor_.Start(TimePoint::max());
  executor_.Post(1, By::kWhoeverIsNext);
  executor_.Post(2, By::kWhoeverIsNext);
  EXPECT_TRUE(recorder_.handled().empty()) << "nobody is woken for these";
  executor_.Post(3, By::kCaller);
  EXPECT_THAT(recorder_.handled(), ElementsAre(1, 2, 3));
  EXPECT_THAT(recorder_.threads(), ElementsAre(std::this_thread::get_id()));
}

TEST_F(SerialExecutorTest, ItsOwnThreadHandlesWhatIsLeftToIt) {
  executor_.Start(TimePoint::max());
  executor_.Post(1, By::kThread);
  ASSERT_TRUE(recorder_.WaitForCalls(1));
  EXPECT_NE(recorder_.threads()[0], std::this_thread::get_id());
}

TEST_F(SerialExecutorTest, CallsTheHandlerWhenItIsTimeThoughNothingComes) {
  recorder_.SetNext(Now() + std::chrono::milliseconds(5));
  executor_.Start(Now() + std::chrono::milliseconds(5));
  ASSERT_TRUE(recorder_.WaitForCalls(2));
  recorder_.SetNext(TimePoint::max());
}

// Seen red with a HandleQueue() that does not update next_deadline_.
TEST_F(SerialExecutorTest, AnEarlierTimeWakesTheThread) {
  executor_.Start(TimePoint::max());
  recorder_.SetNext(Now());
  executor_.Post(1, By::kCaller);
  ASSERT_TRUE(recorder_.WaitForCalls(2));
  recorder_.SetNext(TimePoint::max());
}

TEST_F(SerialExecutorTest, ShutdownHandsOverWhatIsQueuedAndTakesNothingMore) {
  executor_.Start(TimePoint::max());
  executor_.Post(1, By::kWhoeverIsNext);
  executor_.Shutdown();
  EXPECT_THAT(recorder_.last(), ElementsAre(1));
  EXPECT_FALSE(executor_.Post(2, By::kCaller));
  EXPECT_TRUE(recorder_.handled().empty());
}

}  // namespace serial_executor_test
}  // namespace ddprun
