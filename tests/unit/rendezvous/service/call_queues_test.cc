#include "rendezvous/service/call_queues.h"

#include <grpcpp/alarm.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace ddprun {
namespace call_queues_test {

constexpr std::size_t kPerQueue = 8;
constexpr std::size_t kAll = CallQueues::kMostQueues * kPerQueue;

std::vector<CallQueues::Place> Enter(CallQueues& queues, std::size_t count) {
  std::vector<CallQueues::Place> places;
  for (std::size_t i = 0; i < count; ++i) places.push_back(queues.Enter());
  return places;
}

std::map<grpc::CompletionQueue*, std::size_t> Load(const std::vector<CallQueues::Place>& places) {
  std::map<grpc::CompletionQueue*, std::size_t> load;
  for (const CallQueues::Place& place : places) ++load[place.queue()];
  return load;
}

TEST(CallQueuesTest, FewCallsShareAQueue) {
  CallQueues queues(kPerQueue);
  auto places = Enter(queues, kPerQueue);
  EXPECT_EQ(Load(places).size(), 1u);
  places.push_back(queues.Enter());
  EXPECT_EQ(Load(places).size(), 2u);
}

TEST(CallQueuesTest, ManyCallsAreSpreadEvenlyOverABoundedNumber) {
  CallQueues queues(kPerQueue);
  const auto places = Enter(queues, 2 * kAll);
  const auto load = Load(places);
  EXPECT_EQ(load.size(), CallQueues::kMostQueues);
  for (const auto& [queue, calls] : load) EXPECT_EQ(calls, 2 * kPerQueue);
}

TEST(CallQueuesTest, APlaceThatIsGivenBackIsGivenAgain) {
  CallQueues queues(kPerQueue);
  auto first = Enter(queues, kPerQueue);
  const auto second = Enter(queues, 1);
  grpc::CompletionQueue* const queue = first.back().queue();
  first.pop_back();
  EXPECT_EQ(queues.Enter().queue(), queue);
}

// Stores the thread on which its operation ended.
struct Done final : public CallTag {
  void OnOperationDone(bool ok) override {
    EXPECT_TRUE(ok);
    thread.set_value(std::this_thread::get_id());
  }
  std::promise<std::thread::id> thread;
};

TEST(CallQueuesTest, EachQueueIsServedByAThread) {
  CallQueues queues(kPerQueue);
  const auto places = Enter(queues, 3 * kPerQueue);
  std::set<std::thread::id> threads;
  for (const auto& [queue, calls] : Load(places)) {
    Done tag;
    grpc::Alarm alarm;
    alarm.Set(queue, std::chrono::system_clock::now(), tag.Tag());
    threads.insert(tag.thread.get_future().get());
  }
  EXPECT_EQ(threads.size(), 3u);
}

TEST(CallQueuesTest, TheThreadThatTakesCallsServesTheFirstOfThem) {
  CallQueues queues(kPerQueue);
  grpc::ServerBuilder builder;
  queues.AddTo(builder);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  queues.Start();
  {
    const auto first = Enter(queues, kPerQueue);
    EXPECT_EQ(Load(first),
              (std::map<grpc::CompletionQueue*, std::size_t>{{queues.accepting(), kPerQueue}}));
    const CallQueues::Place next = queues.Enter();
    EXPECT_NE(next.queue(), queues.accepting());
    Done tag;
    grpc::Alarm alarm;
    alarm.Set(queues.accepting(), std::chrono::system_clock::now(), tag.Tag());
    tag.thread.get_future().get();
  }
  server->Shutdown();
  queues.Shutdown();
}

TEST(CallQueuesTest, AServerThatWasNeverStartedCanEnd) {
  CallQueues queues(kPerQueue);
  grpc::ServerBuilder builder;
  queues.AddTo(builder);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  server->Shutdown();
  queues.Shutdown();
}

TEST(CallQueuesTest, ShutdownWaitsForTheLastCall) {
  std::optional<CallQueues> queues(std::in_place, kPerQueue);
  std::optional<CallQueues::Place> place(queues->Enter());
  std::future<void> shutdown = std::async(std::launch::async, [&] { queues->Shutdown(); });
  EXPECT_EQ(shutdown.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  place.reset();
  shutdown.get();
}

}  // namespace call_queues_test
}  // namespace ddprun
