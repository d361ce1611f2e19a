#include "worker/src/base/tcp.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp::internal {
namespace tcp_test {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WaitForListenerTest, NoticesALateListenerWithinMilliseconds) {
  test::HeldPort port;
  steady_clock::time_point noticed;
  const long refused_before = test::RefusedConnections();
  std::thread waiter([&] {
    WaitForListener("127.0.0.1", static_cast<std::uint16_t>(port.port()), milliseconds(60000));
    noticed = steady_clock::now();
  });
  // Waits until the client has failed once and must retry.
  while (test::RefusedConnections() == refused_before) std::this_thread::yield();
  const auto listening = steady_clock::now();
  port.Listen();
  waiter.join();
  // libtorch's own client would take 1000 ms here.
  EXPECT_LT(noticed - listening, milliseconds(700));
}

TEST(WaitForListenerTest, NamesAddressAndTimeWhenNobodyListens) {
  const test::HeldPort port;
  try {
    WaitForListener("127.0.0.1", static_cast<std::uint16_t>(port.port()), milliseconds(200));
    FAIL() << "expected a CollectiveError";
  } catch (const CollectiveError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("127.0.0.1:" + port.text()), HasSubstr("0.2 s"),
                                HasSubstr("Connection refused")));
  }
}

// Seen red when a refusal and silence had the same limit.
TEST(WaitForListenerTest, WhereTheHostRefusesRank0MayStillCome) {
  test::HeldPort port;
  const long refused_before = test::RefusedConnections();
  std::thread waiter([&] {
    EXPECT_NO_THROW(WaitForListener("127.0.0.1", static_cast<std::uint16_t>(port.port()),
                                    milliseconds(1), milliseconds(60000)));
  });
  while (test::RefusedConnections() < refused_before + 3) std::this_thread::yield();
  port.Listen();
  waiter.join();
}

TEST(LocalAddressTest, TowardsLoopbackIsLoopback) {
  EXPECT_EQ(LocalAddressTowards("127.0.0.1"), "127.0.0.1");
}

TEST(LocalAddressTest, UnknownHostIsAnErrorThatNamesIt) {
  try {
    LocalAddressTowards("no-such-host.invalid");
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("MASTER_ADDR=no-such-host.invalid"));
  }
}

}  // namespace tcp_test
}  // namespace ddp::internal
