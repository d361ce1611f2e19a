#include "launcher/os/store_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "launcher/os/port_holder.h"
#include "tests/unit/launcher/torch_store/requests.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace store_server_test {

using testing::ElementsAre;
using testing::HasSubstr;
using torch_store::Byte;
using torch_store::kOld;
using torch_store::Raw;
using torch_store::Text;

class Client {
 public:
  explicit Client(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  void Say(const std::string& bytes) {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Reads `size` bytes, or fewer if the connection ends.
  std::string Hear(std::size_t size) {
    std::string heard(size, '\0');
    std::size_t at = 0;
    while (at < size) {
      const ssize_t part = ::recv(socket_.get(), heard.data() + at, size - at, 0);
      if (part <= 0) break;
      at += static_cast<std::size_t>(part);
    }
    heard.resize(at);
    return heard;
  }

 private:
  UniqueFd socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

class StoreServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto port = PortHolder::Bind();
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = port->port();
    StoreServer::Options options;
    options.world_size = 2;
    options.on_refused = [this](const std::string& why) {
      const std::lock_guard<std::mutex> lock(mutex_);
      refusals_.push_back(why);
    };
    options.on_arrivals = [this](const torch_store::Arrivals& arrivals) {
      const std::lock_guard<std::mutex> lock(mutex_);
      arrivals_ = arrivals;
    };
    auto server = StoreServer::Start(port->Take(), std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> refusals_;  // guarded by mutex_
  torch_store::Arrivals arrivals_;     // guarded by mutex_
  std::unique_ptr<StoreServer> server_;
};

TEST_F(StoreServerTest, AClientHearsWhatAnotherOneDoes) {
  Client one(port_);
  Client other(port_);
  one.Say(kOld.Wait({"key"}));
  other.Say(kOld.Set("key", "value") + kOld.Add("n", 1));
  EXPECT_EQ(other.Hear(8), Raw<std::int64_t>(1));
  EXPECT_EQ(one.Hear(1), Byte(0));
  one.Say(kOld.Get("key"));
  EXPECT_EQ(one.Hear(13), Text("value"));
  EXPECT_EQ(server_->clients_served(), 2);
}

// Break: never call AnswerPolls(). Then the first client waits for ever.
TEST_F(StoreServerTest, WhoWaitsForABarrierIsAnsweredInTimeWhetherTheOtherComesOrNot) {
  const std::string key = "store_based_barrier_key:1";
  Client one(port_);
  one.Say(kOld.Add(key, 1));
  EXPECT_EQ(one.Hear(8), Raw<std::int64_t>(1));
  const auto asked = std::chrono::steady_clock::now();
  one.Say(kOld.Add(key, 0));
  EXPECT_EQ(one.Hear(8), Raw<std::int64_t>(1));
  EXPECT_GE(std::chrono::steady_clock::now() - asked, std::chrono::milliseconds(90));
  one.Say(kOld.Add(key, 0));
  Client other(port_);
  other.Say(kOld.Add(key, 1));
  EXPECT_EQ(other.Hear(8), Raw<std::int64_t>(2));
  EXPECT_EQ(one.Hear(8), Raw<std::int64_t>(2));
}

// Break: without a queue for unsent replies, the server's thread waits for this one client.
TEST_F(StoreServerTest, AClientThatDoesNotReadHoldsUpNobodyElse) {
  constexpr std::size_t kSize = 4UL << 20U;
  const std::string value(kSize, 'x');
  Client greedy(port_);
  greedy.Say(kOld.Set("key", value));
  constexpr int kTimes = 8;
  for (int i = 0; i < kTimes; ++i) greedy.Say(kOld.Get("key"));
  Client other(port_);
  other.Say(kOld.Add("n", 1));
  EXPECT_EQ(other.Hear(8), Raw<std::int64_t>(1));
  for (int i = 0; i < kTimes; ++i) EXPECT_EQ(greedy.Hear(8 + kSize), Text(value));
  greedy.Say(kOld.Add("n", 1));
  EXPECT_EQ(greedy.Hear(8), Raw<std::int64_t>(2));
}

TEST_F(StoreServerTest, AClientThatIsRefusedIsDisconnectedAndTheOthersAreNot) {
  Client other(port_);
  Client wrong(port_);
  wrong.Say("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(wrong.Hear(1), "");
  other.Say(kOld.Add("n", 1));
  EXPECT_EQ(other.Hear(8), Raw<std::int64_t>(1));
  const std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_THAT(refusals_, ElementsAre("the unknown operation 71"));
}

TEST_F(StoreServerTest, OnlyTheFirstRefusalsAreTold) {
  for (int i = 0; i < 2 * StoreServer::kMaxRefusals; ++i) {
    Client wrong(port_);
    wrong.Say("?");
    EXPECT_EQ(wrong.Hear(1), "");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_EQ(refusals_.size(), static_cast<std::size_t>(StoreServer::kMaxRefusals));
}

TEST_F(StoreServerTest, ClientsThatAreGoneLeaveNothingBehind) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 100; ++i) {
      clients.push_back(std::make_unique<Client>(port_));
      clients.back()->Say(kOld.Add("n", 1) + kOld.Wait({"never"}));
      clients.back()->Hear(8);
    }
  }
  // No client waits for this key any more.
  Client last(port_);
  last.Say(kOld.Set("never", "") + kOld.Add("n", 0));
  EXPECT_EQ(last.Hear(8), Raw<std::int64_t>(300));
  while (descriptors() > before + 2) {
  }
}

TEST_F(StoreServerTest, TheEndOfTheStoreDisconnectsWhoWaits) {
  Client client(port_);
  client.Say(kOld.Add("n", 1) + kOld.Wait({"never"}));
  client.Hear(8);
  server_.reset();
  EXPECT_EQ(client.Hear(1), "");
}

TEST_F(StoreServerTest, ArrivedRanksAreReported) {
  {
    Client client(port_);
    client.Say(kOld.Add("init/", 1) + kOld.Set("/worker/attempt_0/default_pg/0/0/rank_1", "n5"));
    EXPECT_EQ(client.Hear(8).size(), 8u);
  }
  server_.reset();  // the server sends its last reports
  const std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_EQ(arrivals_.count(2), 1);
  EXPECT_THAT(arrivals_.Missing(2, 16), testing::Optional(testing::ElementsAre(0)));
}

TEST_F(StoreServerTest, AStoreForThisHostServesItsOwnClients) {
  auto port = PortHolder::Bind();
  ASSERT_TRUE(port.ok());
  const int number = port->port();
  StoreServer::Options options;
  options.this_host_only = true;
  const auto server = StoreServer::Start(port->Take(), std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  Client client(number);
  client.Say(kOld.Add("n", 1));
  EXPECT_EQ(client.Hear(8).size(), 8u);
}

TEST_F(StoreServerTest, APortThatIsListenedOnIsRefusedWithTheReason) {
  auto other = PortHolder::Bind("127.0.0.1");
  ASSERT_TRUE(other.ok());
  const int port = other->port();
  auto again = PortHolder::Bind("127.0.0.1", port);  // nobody listens yet
  ASSERT_TRUE(again.ok()) << again.status();
  const auto first = StoreServer::Start(other->Take(), {});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = StoreServer::Start(again->Take(), {});
  EXPECT_THAT(second.status().message(), HasSubstr("in use"));
}

}  // namespace store_server_test
}  // namespace ddprun
