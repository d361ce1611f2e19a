#include "rendezvous/service/slow_tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace ddprun {
namespace slow_tasks_test {

TEST(SlowTasksTest, ATaskThatWaitsHoldsUpNoOther) {
  std::promise<void> release;
  SlowTasks tasks;
  tasks.Post([wait = release.get_future()]() mutable { wait.get(); });
  std::promise<void> ran;
  tasks.Post([&] { ran.set_value(); });
  ran.get_future().get();
  release.set_value();
}

TEST(SlowTasksTest, ManyTasksShareAFewThreads) {
  std::atomic<int> ran = 0;
  {
    SlowTasks tasks;
    for (int i = 0; i < 1000; ++i) tasks.Post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1000) << "what was posted runs before the end";
}

TEST(SlowTasksTest, ATaskMayPostAnother) {
  std::promise<void> ran;
  SlowTasks tasks;
  tasks.Post([&] { tasks.Post([&] { ran.set_value(); }); });
  ran.get_future().get();
}

}  // namespace slow_tasks_test
}  // namespace ddprun
