#include "launcher/os/event_loop.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace event_loop_test {

using std::chrono::milliseconds;
using test::MakePipe;
using test::PipeEnds;
using test::RunUntil;
using ::testing::ElementsAre;

TEST(EventLoopTest, CallsBackWithTheEventsOfAReadyDescriptor) {
  EventLoop loop;
  const PipeEnds pipe = MakePipe();
  std::uint32_t seen = 0;
  loop.Watch(pipe.read_end.get(), EPOLLIN, [&](std::uint32_t events) {
    seen = events;
    loop.Quit();
  });
  ASSERT_EQ(::write(pipe.write_end.get(), "x", 1), 1);
  loop.Run();
  EXPECT_EQ(seen, static_cast<std::uint32_t>(EPOLLIN));
}

TEST(EventLoopTest, ModifyChangesWhatIsWaitedFor) {
  EventLoop loop;
  const PipeEnds pipe = MakePipe();
  int calls = 0;
  loop.Watch(pipe.write_end.get(), 0, [&](std::uint32_t events) {
    ++calls;
    EXPECT_EQ(events, static_cast<std::uint32_t>(EPOLLOUT));
    loop.Modify(pipe.write_end.get(), 0);
  });
  int turns = 0;
  ASSERT_TRUE(RunUntil(&loop, [&] { return ++turns > 3; }));
  EXPECT_EQ(calls, 0);
  loop.Modify(pipe.write_end.get(), EPOLLOUT);
  ASSERT_TRUE(RunUntil(&loop, [&] { return calls > 0 && ++turns > 9; }));
  EXPECT_EQ(calls, 1);
}

// Both pipes are ready in the same epoll_wait. The handler that runs first unwatches the other.
TEST(EventLoopTest, UnwatchingInABatchSilencesWhatWasAlreadyReported) {
  EventLoop loop;
  const PipeEnds a = MakePipe();
  const PipeEnds b = MakePipe();
  ASSERT_EQ(::write(a.write_end.get(), "x", 1), 1);
  ASSERT_EQ(::write(b.write_end.get(), "x", 1), 1);
  int calls = 0;
  for (const auto& [mine, other] : {std::pair(a.read_end.get(), b.read_end.get()),
                                    std::pair(b.read_end.get(), a.read_end.get())}) {
    loop.Watch(mine, EPOLLIN, [&, mine = mine, other = other](std::uint32_t) {
      ++calls;
      loop.Unwatch(other);
      loop.Unwatch(mine);
    });
  }
  int turns = 0;
  ASSERT_TRUE(RunUntil(&loop, [&] { return ++turns > 3; }));
  EXPECT_EQ(calls, 1);
}

// The number of a closed descriptor is reused within the batch that reported the old one.
TEST(EventLoopTest, AStaleEventNeverReachesTheNextOwnerOfTheNumber) {
  EventLoop loop;
  PipeEnds a = MakePipe();
  PipeEnds b = MakePipe();
  ASSERT_EQ(::write(a.write_end.get(), "x", 1), 1);
  ASSERT_EQ(::write(b.write_end.get(), "x", 1), 1);
  const PipeEnds quiet = MakePipe();
  bool replaced = false;
  int wrong_calls = 0;
  const auto replace = [&](UniqueFd* mine, UniqueFd* other) {
    if (replaced) return;
    replaced = true;
    const int number = other->get();
    loop.Unwatch(number);
    ASSERT_EQ(::dup2(quiet.read_end.get(), number), number);  // closes the old one
    loop.Watch(number, EPOLLIN, [&](std::uint32_t) { ++wrong_calls; });
    loop.Unwatch(mine->get());
  };
  loop.Watch(a.read_end.get(), EPOLLIN, [&](std::uint32_t) { replace(&a.read_end, &b.read_end); });
  loop.Watch(b.read_end.get(), EPOLLIN, [&](std::uint32_t) { replace(&b.read_end, &a.read_end); });
  int turns = 0;
  ASSERT_TRUE(RunUntil(&loop, [&] { return ++turns > 3; }));
  EXPECT_TRUE(replaced);
  EXPECT_EQ(wrong_calls, 0);
}

TEST(EventLoopTest, TimersRunInTheOrderOfTheirTimesThenOfAdding) {
  EventLoop loop;
  std::vector<std::string> order;
  const EventLoop::Clock::time_point now = EventLoop::Clock::now();
  loop.AddTimer(now + milliseconds(3), [&] {
    order.push_back("late");
    loop.Quit();
  });
  loop.AddTimer(now + milliseconds(1), [&] { order.push_back("first"); });
  loop.AddTimer(now + milliseconds(1), [&] { order.push_back("second"); });
  loop.AddTimer(now - milliseconds(1), [&] { order.push_back("past"); });
  loop.AddTimer(EventLoop::Clock::time_point(), [&] { order.push_back("epoch"); });
  loop.AddTimer(EventLoop::Clock::time_point::max(), [&] { order.push_back("never"); });
  loop.Run();
  EXPECT_THAT(order, ElementsAre("epoch", "past", "first", "second", "late"));
}

TEST(EventLoopTest, ATimerNeverRunsBeforeItsTime) {
  EventLoop loop;
  const EventLoop::Clock::time_point when = EventLoop::Clock::now() + milliseconds(20);
  EventLoop::Clock::time_point ran;
  loop.AddTimer(when, [&] {
    ran = EventLoop::Clock::now();
    loop.Quit();
  });
  loop.Run();
  EXPECT_GE(ran, when);
}

TEST(EventLoopTest, ACancelledTimerDoesNotRunEvenWhenItIsDueInTheSameTurn) {
  EventLoop loop;
  const EventLoop::Clock::time_point past = EventLoop::Clock::now() - milliseconds(1);
  int cancelled_ran = 0;
  EventLoop::TimerId victim = 0;
  loop.AddTimer(past, [&] { loop.CancelTimer(victim); });
  victim = loop.AddTimer(past, [&] { ++cancelled_ran; });
  loop.AddTimer(past, [&] { loop.Quit(); });
  loop.Run();
  EXPECT_EQ(cancelled_ran, 0);
  loop.CancelTimer(victim);  // again: ignored
}

TEST(EventLoopTest, ATimerThatAlwaysAddsADueOneDoesNotStarveDescriptors) {
  EventLoop loop;
  const PipeEnds pipe = MakePipe();
  ASSERT_EQ(::write(pipe.write_end.get(), "x", 1), 1);
  const std::function<void()> again = [&] { loop.AddTimer(EventLoop::Clock::now(), again); };
  again();
  bool read = false;
  loop.Watch(pipe.read_end.get(), EPOLLIN, [&](std::uint32_t) {
    read = true;
    loop.Quit();
  });
  loop.Run();
  EXPECT_TRUE(read);
}

TEST(EventLoopTest, ANewDeadlineReplacesTheOldOne) {
  EventLoop loop;
  std::vector<std::string> order;
  const EventLoop::Clock::time_point now = EventLoop::Clock::now();
  loop.SetDeadline(now, [&] { order.push_back("replaced"); });
  loop.SetDeadline(now + milliseconds(1), [&] {
    order.push_back("kept");
    loop.SetDeadline(EventLoop::Clock::now(), [&] { order.push_back("removed"); });
    loop.SetDeadline(std::nullopt, nullptr);
    loop.AddTimer(EventLoop::Clock::now() + milliseconds(2), [&] { loop.Quit(); });
  });
  loop.Run();
  EXPECT_THAT(order, ElementsAre("kept"));
}

TEST(EventLoopTest, PostFromManyThreadsRunsEachTaskOnceInEachThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 2000;
  EventLoop loop;
  std::vector<std::vector<int>> seen(kThreads);
  const std::thread::id loop_thread = std::this_thread::get_id();
  int total = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        loop.Post([&, t, i] {
          EXPECT_EQ(std::this_thread::get_id(), loop_thread);
          seen[static_cast<std::size_t>(t)].push_back(i);
          if (++total == kThreads * kTasks) loop.Quit();
        });
      }
    });
  }
  loop.Run();
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& one : seen) {
    ASSERT_EQ(one.size(), static_cast<std::size_t>(kTasks));
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  }
}

TEST(EventLoopTest, QuitKeepsWhatIsLeftForTheNextRun) {
  EventLoop loop;
  std::vector<int> order;
  loop.Post([&] {
    order.push_back(1);
    loop.Quit();
  });
  loop.Post([&] { order.push_back(2); });
  loop.Post([&] {
    order.push_back(3);
    loop.Quit();
  });
  loop.Run();
  EXPECT_THAT(order, ElementsAre(1));
  loop.Post([&] { order.push_back(4); });
  loop.Run();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(EventLoopTest, QuitBeforeRunReturnsAtOnce) {
  EventLoop loop;
  loop.Quit();
  loop.Run();
}

}  // namespace event_loop_test
}  // namespace ddprun
