#include "worker/src/transfer/state_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/src/base/tcp.h"

namespace ddp::internal {
namespace state_links_test {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr milliseconds kLong = std::chrono::minutes(1);
constexpr char kHost[] = "127.0.0.1";

StateLinks::Parent ParentOf(int rank, const StateLinks& links) {
  return {rank, kHost, links.contact()};
}

std::string PortOf(const StateLinks& links) {
  return links.contact().substr(0, links.contact().find(' '));
}

// More than the kernel buffers for a connection, in chunks of several sizes.
constexpr std::size_t kBytes = (std::size_t{48} << 20) + 12'345;
constexpr std::size_t kChunk = std::size_t{1} << 19;
std::byte At(std::size_t i) { return static_cast<std::byte>(i * 31 / 7); }

void ForEachChunk(const std::function<void(std::size_t begin, std::size_t size)>& call) {
  for (std::size_t begin = 0; begin < kBytes; begin += kChunk) {
    call(begin, std::min(kChunk, kBytes - begin));
  }
}

TEST(StateLinksTest, EveryRankGetsEveryByteThroughTheTree) {
  StateLinks root(0, {4, 5});
  StateLinks middle(4, {7});
  StateLinks leaf(5, {});
  StateLinks last(7, {});
  EXPECT_EQ(leaf.contact(), "");
  std::vector<std::byte> all(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) all[i] = At(i);

  const auto take = [&](StateLinks* links, const StateLinks::Parent& parent) {
    links->Connect(parent, {kLong, kLong});
    std::vector<std::byte> mine(kBytes);
    ForEachChunk([&](std::size_t begin, std::size_t size) {
      links->Receive(&mine[begin], size);
      links->Send(&mine[begin], size);
    });
    EXPECT_TRUE(mine == all);
  };
  std::thread a([&] { take(&middle, ParentOf(0, root)); });
  std::thread b([&] { take(&leaf, ParentOf(0, root)); });
  std::thread c([&] { take(&last, ParentOf(4, middle)); });
  root.Connect(std::nullopt, {kLong, kLong});
  ForEachChunk([&](std::size_t begin, std::size_t size) { root.Send(&all[begin], size); });
  a.join();
  b.join();
  c.join();
}

TEST(StateLinksTest, WhoDoesNotKnowTheTokenIsTurnedAway) {
  StateLinks root(0, {1});
  StateLinks child(1, {});
  // Strangers are before the child in the queue: one sends nothing, one too much, one the wrong
  // text.
  const ddprun::UniqueFd silent = ConnectTo(kHost, PortOf(root));
  const ddprun::UniqueFd noisy = ConnectTo(kHost, PortOf(root));
  const std::string noise(1000, 'x');
  ASSERT_EQ(send(noisy.get(), noise.data(), noise.size(), MSG_NOSIGNAL), 1000);
  const ddprun::UniqueFd wrong = ConnectTo(kHost, PortOf(root));
  const std::string hello = MakeToken() + " 1\n";
  ASSERT_GT(send(wrong.get(), hello.data(), hello.size(), MSG_NOSIGNAL), 0);
  std::vector<ddprun::UniqueFd> many;  // more than are served at a time
  for (int i = 0; i < 100; ++i) many.push_back(ConnectTo(kHost, PortOf(root)));
  // A rank that is not expected.
  StateLinks other(2, {});
  other.Connect(ParentOf(0, root), {kLong, kLong});

  const std::byte sent{42};
  std::byte got{0};
  std::thread thread([&] {
    child.Connect(ParentOf(0, root), {kLong, kLong});
    EXPECT_NO_THROW(child.Receive(&got, 1));
  });
  root.Connect(std::nullopt, {kLong, kLong});
  root.Send(&sent, 1);
  thread.join();
  EXPECT_EQ(got, sent);
  EXPECT_THAT([&] { other.Receive(&got, 1); },
              ThrowsMessage<std::runtime_error>(HasSubstr("lost rank 0")));
}

TEST(StateLinksTest, WithASecretEveryByteArrivesAndIsSealed) {
  const std::string secret(32, 's');
  StateLinks root(0, {4}, secret);
  StateLinks middle(4, {7}, secret);
  StateLinks last(7, {}, secret);
  std::vector<std::byte> all(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) all[i] = At(i);
  const auto take = [&](StateLinks* links, const StateLinks::Parent& parent) {
    links->Connect(parent, {kLong, kLong});
    std::vector<std::byte> mine(kBytes);
    ForEachChunk([&](std::size_t begin, std::size_t size) {
      links->Receive(&mine[begin], size);
      links->Send(&mine[begin], size);
    });
    EXPECT_TRUE(mine == all);
  };
  std::thread a([&] { take(&middle, ParentOf(0, root)); });
  std::thread b([&] { take(&last, ParentOf(4, middle)); });
  root.Connect(std::nullopt, {kLong, kLong});
  ForEachChunk([&](std::size_t begin, std::size_t size) { root.Send(&all[begin], size); });
  a.join();
  b.join();
}

// Seen red with a Welcome() that does not compare the proof.
TEST(StateLinksTest, WhoDoesNotKnowTheSecretIsTurnedAway) {
  const std::string secret(32, 's');
  StateLinks root(0, {1}, secret);
  StateLinks without(1, {});
  without.Connect(ParentOf(0, root), {kLong, kLong});
  std::thread wrong([&] {
    StateLinks other(1, {}, std::string(32, 'x'));
    EXPECT_THAT(
        [&] {
          other.Connect(ParentOf(0, root), {kLong, kLong});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("lost rank 0")));
  });
  EXPECT_THAT(
      [&] {
        root.Connect(std::nullopt, {milliseconds(500), kLong});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("rank 1 did not connect within")));
  wrong.join();
  std::byte got{0};
  EXPECT_THAT([&] { without.Receive(&got, 1); },
              ThrowsMessage<std::runtime_error>(HasSubstr("lost rank 0")));
}

// Seen red when the result of Open() was ignored.
TEST(StateLinksTest, AParentThatDoesNotKnowTheSecretIsNotBelieved) {
  int port = 0;
  const ddprun::UniqueFd listener = ListenEverywhere(&port);
  std::thread stranger([&] {
    pollfd ready = {listener.get(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 60'000), 1);
    const ddprun::UniqueFd socket(accept(listener.get(), nullptr, nullptr));
    const std::string answer(MakeToken() + std::string(1 + 16, 'x'));
    ASSERT_GT(send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL), 0);
    char byte = 0;
    while (recv(socket.get(), &byte, 1, 0) > 0) {
    }
  });
  {
    StateLinks child(1, {}, std::string(32, 's'));
    child.Connect(StateLinks::Parent{0, kHost, std::to_string(port) + " " + MakeToken()},
                  {kLong, kLong});
    std::byte got{0};
    EXPECT_THAT([&] { child.Receive(&got, 1); },
                ThrowsMessage<std::runtime_error>(HasSubstr("comes from somebody else")));
  }
  stranger.join();
}

TEST(StateLinksTest, AChildThatDoesNotComeIsNamed) {
  StateLinks root(0, {3, 8});
  StateLinks child(3, {});
  child.Connect(ParentOf(0, root), {kLong, kLong});
  EXPECT_THAT(
      [&] {
        root.Connect(std::nullopt, {milliseconds(1000), kLong});
      },
      ThrowsMessage<std::runtime_error>("rank 8 did not connect within 1 s to get the state"));
}

TEST(StateLinksTest, AParentThatCannotBeReachedIsNamedWithItsAddress) {
  StateLinks child(3, {});
  std::string port;
  {
    const StateLinks gone(0, {3});
    port = PortOf(gone);
  }
  EXPECT_THAT(
      [&] {
        child.Connect(StateLinks::Parent{0, kHost, port + " x"}, {kLong, kLong});
      },
      ThrowsMessage<std::runtime_error>(
          AllOf(HasSubstr("127.0.0.1:" + port), HasSubstr("refused"))));
  EXPECT_THAT(
      [&] {
        child.Connect(StateLinks::Parent{0, kHost, ""}, {kLong, kLong});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("rank 0 could not listen")));
}

class StateLinksOfTwoTest : public ::testing::Test {
 protected:
  void Connect(milliseconds patience) {
    child_.emplace(9, std::vector<int>{});
    child_->Connect(ParentOf(6, *root_), {kLong, patience});
    root_->Connect(std::nullopt, {kLong, patience});
  }

  std::optional<StateLinks> root_{std::in_place, 6, std::vector<int>{9}};
  std::optional<StateLinks> child_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(std::size_t{64} << 20);
};

TEST_F(StateLinksOfTwoTest, TheEndOfANeighbourIsAnErrorThatNamesIt) {
  Connect(kLong);
  root_.reset();
  EXPECT_THAT([&] { child_->Receive(bytes_.data(), 1); },
              ThrowsMessage<std::runtime_error>(HasSubstr("lost rank 6, which sends the state: ")));
  root_.emplace(6, std::vector<int>{9});
  Connect(kLong);
  child_.reset();
  EXPECT_THAT(
      [&] { root_->Send(bytes_.data(), bytes_.size()); },
      ThrowsMessage<std::runtime_error>(HasSubstr("lost rank 9, to which the state is sent: ")));
}

TEST_F(StateLinksOfTwoTest, SilenceIsAnErrorThatNamesWhoIsSilent) {
  Connect(milliseconds(1000));
  EXPECT_THAT(
      [&] { child_->Receive(bytes_.data(), 1); },
      ThrowsMessage<std::runtime_error>("rank 6, which sends the state, has done nothing for 1 s"));
  EXPECT_THAT([&] { root_->Send(bytes_.data(), bytes_.size()); },
              ThrowsMessage<std::runtime_error>(
                  "rank 9, to which the state is sent, has done nothing for 1 s"));
}

}  // namespace state_links_test
}  // namespace ddp::internal
