#include "worker/contract/task_queue.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {
namespace task_queue_test {

constexpr std::chrono::seconds kHang(60);
constexpr std::chrono::milliseconds kAWhile(20);  // waits to see that something does not happen

std::chrono::steady_clock::time_point In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// Seen red with a Run that takes the newest task first.
TEST(TaskQueueTest, OneThreadRunsTheTasksInTheirOrder) {
  std::vector<int> ran;
  {
    TaskQueue tasks("test");
    for (int i = 0; i < 1000; ++i) tasks.Post([&ran, i] { ran.push_back(i); });
  }
  ASSERT_EQ(ran.size(), 1000u) << "what was posted runs before the end";
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ran[i], i);
}

TEST(TaskQueueTest, WithSeveralThreadsATaskThatWaitsHoldsUpNoOther) {
  std::promise<void> release;
  TaskQueue tasks("test", 4);
  tasks.Post([wait = release.get_future()]() mutable { wait.get(); });
  std::promise<void> ran;
  tasks.Post([&] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(kHang), std::future_status::ready);
  release.set_value();
}

TEST(TaskQueueTest, ManyTasksShareAFewThreads) {
  std::atomic<int> ran = 0;
  {
    TaskQueue tasks("test", 4);
    for (int i = 0; i < 1000; ++i) tasks.Post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(TaskQueueTest, ATaskMayPostAnother) {
  std::promise<void> ran;
  TaskQueue tasks("test");
  tasks.Post([&] { tasks.Post([&] { ran.set_value(); }); });
  EXPECT_EQ(ran.get_future().wait_for(kHang), std::future_status::ready);
}

// Seen red with an idle() that only looks at what is queued.
TEST(TaskQueueTest, IsIdleWhenTheLastTaskHasRunAndIsGone) {
  TaskQueue tasks("test");
  EXPECT_TRUE(tasks.idle());
  EXPECT_TRUE(tasks.WaitUntil(In(kAWhile)));
  std::promise<void> release;
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owned;
  tasks.Post([wait = release.get_future(), owned = std::move(owned)]() mutable { wait.get(); });
  EXPECT_FALSE(tasks.WaitUntil(In(kAWhile)));
  EXPECT_FALSE(tasks.idle());
  release.set_value();
  tasks.Wait();
  EXPECT_TRUE(tasks.idle());
  EXPECT_TRUE(watched.expired());
}

TEST(TaskQueueTest, AThreadThatHangsIsLeftBehindWithWhatItOwns) {
  auto release = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<void>>();
  {
    TaskQueue tasks("test");
    tasks.Post([release, ended] {
      release->get_future().wait();
      ended->set_value();
    });
    EXPECT_FALSE(tasks.CloseWithin(kAWhile));
  }
  release->set_value();
  EXPECT_EQ(ended->get_future().wait_for(kHang), std::future_status::ready);
}

TEST(TaskQueueTest, ClosingRunsWhatIsQueued) {
  std::atomic<int> ran = 0;
  TaskQueue tasks("test");
  for (int i = 0; i < 100; ++i) tasks.Post([&] { ++ran; });
  EXPECT_TRUE(tasks.CloseWithin(kHang));
  EXPECT_EQ(ran, 100);
}

// Seen red with a StartThread that blocks nothing.
TEST(TaskQueueTest, ItsThreadsTakeNoSignals) {
  std::promise<bool> blocked;
  TaskQueue tasks("test");
  tasks.Post([&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked.set_value(sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGCHLD) == 1);
  });
  EXPECT_TRUE(blocked.get_future().get());
  sigset_t mine;
  pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0) << "whoever posts keeps his own";
}

}  // namespace task_queue_test
}  // namespace ddprun
