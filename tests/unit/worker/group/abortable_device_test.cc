#include "worker/src/group/abortable_device.h"

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

namespace ddp::internal {
namespace abortable_device_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

constexpr std::uint64_t kSlot = 7;
// The timeout of Gloo's waits. A test sees "Timed out waiting" if nobody wakes the waiter.
constexpr std::chrono::seconds kTimeout(30);
// After this time, a thread that has not returned counts as waiting.
constexpr std::chrono::milliseconds kMoment(20);
constexpr char kAborted[] = "the rank leaves the group";
constexpr std::size_t kPart = std::size_t{1} << 20;
constexpr std::size_t kMoreThanSocketsHold = std::size_t{64} << 20;

template <typename Operation>
std::string ErrorOf(const Operation& operation) {
  try {
    operation();
    return "none";
  } catch (const std::exception& e) {
    return e.what();
  }
}

template <typename Operation>
std::future<std::string> LaterErrorOf(Operation operation) {
  return std::async(std::launch::async, [operation] { return ErrorOf(operation); });
}

// Memory that is accessible only up to some byte. If a message goes further, the kernel returns
// EFAULT, and the connection ends in the middle of the message.
class Memory {
 public:
  Memory(std::size_t accessible, std::size_t size)
      : size_(size), data_(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    if (mprotect(data_, accessible, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~Memory() { munmap(data_, size_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::size_t size_;
  void* const data_;
};

// Two ranks in one process.
class AbortableDeviceTest : public ::testing::Test {
 protected:
  struct Rank {
    std::shared_ptr<AbortableDevice> device;
    std::shared_ptr<gloo::transport::Context> context;

    template <typename Bytes>
    Buffer NewBuffer(Bytes* memory) const {
      return context->createUnboundBuffer(memory->data(), memory->size());
    }
  };

  void SetUp() override {
#ifndef DDPRUN_GLOO_FITS
    GTEST_SKIP() << "built with headers of another Gloo than libtorch's";
#endif
  }

  AbortableDeviceTest() {
    std::signal(SIGPIPE, SIG_IGN);  // like init()
    std::array<std::vector<char>, 2> addresses;
    for (const int rank : {0, 1}) {
      const auto device = std::make_shared<AbortableDevice>(
          [] { return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"); });
      ranks_[rank] = {device, device->createContext(rank, 2)};
      ranks_[rank].context->setTimeout(kTimeout);
      addresses[rank] = ranks_[rank].context->createPair(1 - rank)->address().bytes();
    }
    std::thread one([&] { ranks_[1].context->getPair(0)->connect(addresses[0]); });
    ranks_[0].context->getPair(1)->connect(addresses[1]);
    one.join();
    for (const Rank& rank : ranks_) rank.device->Connected();
  }

  // Returns once rank 0 knows that rank 1 has begun to receive.
  void TellRankZero() {
    std::vector<char> sent(1);
    std::vector<char> received(1);
    const Buffer sender = ranks_[1].NewBuffer(&sent);
    const Buffer receiver = ranks_[0].NewBuffer(&received);
    receiver->recv(1, kSlot + 1);
    sender->send(0, kSlot + 1);
    receiver->waitRecv();
    sender->waitSend();
  }

  std::array<Rank, 2> ranks_;
  std::vector<char> sent_;
  std::vector<char> received_;
};

TEST_F(AbortableDeviceTest, CarriesMessages) {
  sent_ = {'a', 'b', 'c', 'd'};
  received_ = {'-', '-', '-', '-'};
  const Buffer sender = ranks_[0].NewBuffer(&sent_);
  const Buffer receiver = ranks_[1].NewBuffer(&received_);
  receiver->recv(0, kSlot, 1, 2);
  sender->send(1, kSlot, 2, 2);
  int from = -1;
  int to = -1;
  EXPECT_TRUE(receiver->waitRecv(&from, kTimeout));
  EXPECT_TRUE(sender->waitSend(&to, kTimeout));
  EXPECT_EQ(from, 0);
  EXPECT_EQ(to, 1);
  EXPECT_EQ(std::string(received_.begin(), received_.end()), "-cd-");
  receiver->recv(std::vector<int>{0}, kSlot + 1);
  sender->send(1, kSlot + 1);
  EXPECT_TRUE(receiver->waitRecv());
  EXPECT_TRUE(sender->waitSend());
  EXPECT_EQ(received_, sent_);
}

TEST_F(AbortableDeviceTest, DescribesItselfAsGloosDevice) {
  EXPECT_THAT(ranks_[0].device->str(), HasSubstr("addr=[127.0.0.1]"));
}

// One rank listens, the other one connects; its peer never answers.
TEST(AbortableDeviceConnectTest, WakesWhoWaitsForAConnection) {
  for (const int waiting : {0, 1}) {
    std::array<std::shared_ptr<AbortableDevice>, 2> devices;
    std::array<std::shared_ptr<gloo::transport::Context>, 2> contexts;
    std::array<std::vector<char>, 2> addresses;
    for (const int rank : {0, 1}) {
      devices[rank] = std::make_shared<AbortableDevice>(
          [] { return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"); });
      contexts[rank] = devices[rank]->createContext(rank, 2);
      contexts[rank]->setTimeout(kTimeout);
      addresses[rank] = contexts[rank]->createPair(1 - rank)->address().bytes();
    }
    auto error = LaterErrorOf(
        [&] { contexts[waiting]->getPair(1 - waiting)->connect(addresses[1 - waiting]); });
    error.wait_for(kMoment);
    devices[waiting]->Abort();
    EXPECT_THAT(error.get(), Not(HasSubstr("Timed out")));
    EXPECT_THAT(ErrorOf([&] { contexts[waiting]->createPair(1 - waiting); }), HasSubstr(kAborted));
  }
}

TEST_F(AbortableDeviceTest, WakesWhoWaitsForAMessageThatNobodySends) {
  received_.resize(8);
  const Buffer receiver = ranks_[1].NewBuffer(&received_);
  receiver->recv(0, kSlot);
  auto error = LaterErrorOf([&] { receiver->waitRecv(); });
  ASSERT_EQ(error.wait_for(kMoment), std::future_status::timeout);
  ranks_[1].device->Abort();
  EXPECT_THAT(error.get(), AnyOf(HasSubstr(kAborted), HasSubstr("Connection closed")));
}

// Once Gloo has read the beginning of a message, it tells no waiter that the connection has ended.
TEST_F(AbortableDeviceTest, WakesWhoWaitsForTheRestOfAMessage) {
  Memory sent(kPart, 2 * kPart);
  Memory received(2 * kPart, 2 * kPart);
  const Buffer sender = ranks_[0].NewBuffer(&sent);
  const Buffer receiver = ranks_[1].NewBuffer(&received);
  receiver->recv(0, kSlot);
  TellRankZero();  // so the message is sent at once, by this thread
  auto error = LaterErrorOf([&] { receiver->waitRecv(); });
  EXPECT_THAT(ErrorOf([&] { sender->send(1, kSlot); }), HasSubstr("Bad address"));
  error.wait_for(kMoment);
  ranks_[1].device->Abort();
  EXPECT_THAT(error.get(), AllOf(Not("none"), Not(HasSubstr("Timed out"))));
}

// Once Gloo has written the beginning of a message, it also tells no waiter that the connection has
// ended.
TEST_F(AbortableDeviceTest, WakesWhoWaitsToSendTheRestOfAMessage) {
  Memory sent(kMoreThanSocketsHold, kMoreThanSocketsHold);
  Memory received(kPart, kMoreThanSocketsHold);
  const Buffer sender = ranks_[0].NewBuffer(&sent);
  const Buffer receiver = ranks_[1].NewBuffer(&received);
  receiver->recv(0, kSlot);
  sender->send(1, kSlot);
  auto error = LaterErrorOf([&] { sender->waitSend(); });
  error.wait_for(kMoment);
  ranks_[0].device->Abort();
  EXPECT_THAT(error.get(), AllOf(Not("none"), Not(HasSubstr("Timed out"))));
}

TEST_F(AbortableDeviceTest, WhoeverWaitsLaterThrows) {
  sent_.resize(8);
  const Buffer older = ranks_[0].NewBuffer(&sent_);
  ranks_[0].device->Abort();
  ranks_[0].device->Abort();
  const Buffer newer = ranks_[0].NewBuffer(&sent_);
  for (const Buffer* buffer : {&older, &newer}) {
    for (int times = 0; times < 2; ++times) {
      ASSERT_THAT(ErrorOf([&] { (*buffer)->waitRecv(); }), HasSubstr(kAborted));
      ASSERT_THAT(ErrorOf([&] { (*buffer)->waitSend(); }), HasSubstr(kAborted));
    }
  }
}

TEST_F(AbortableDeviceTest, ThePeerFailsToo) {
  received_.resize(8);
  const Buffer receiver = ranks_[1].NewBuffer(&received_);
  receiver->recv(0, kSlot);
  auto error = LaterErrorOf([&] { receiver->waitRecv(); });
  ASSERT_EQ(error.wait_for(kMoment), std::future_status::timeout);
  ranks_[0].device->Abort();
  EXPECT_THAT(error.get(), HasSubstr("Connection closed by peer"));
}

TEST_F(AbortableDeviceTest, BuffersMayComeAndGoMeanwhile) {
  constexpr int kThreads = 4;
  std::atomic<int> begun{0};
  std::vector<std::future<std::string>> errors;
  for (int i = 0; i < kThreads; ++i) {
    errors.push_back(LaterErrorOf([this, &begun] {
      std::vector<char> memory(8);
      for (int buffers = 0;; ++buffers) {
        if (buffers == 100) ++begun;
        const Buffer buffer = ranks_[1].NewBuffer(&memory);
        buffer->abortWaitRecv();
        buffer->waitRecv();  // returns at once, until it throws
      }
    }));
  }
  while (begun < kThreads) std::this_thread::yield();
  ranks_[1].device->Abort();
  for (std::future<std::string>& error : errors) EXPECT_THAT(error.get(), HasSubstr(kAborted));
}

}  // namespace abortable_device_test
}  // namespace ddp::internal
