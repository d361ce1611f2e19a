#include "rendezvous/service/slow_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace slow_calls_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Has the members of a gRPC call that SlowCalls uses.
struct FakeCall {
  struct Context {
    std::string address;
    std::string peer() const { return address + ":1"; }
  };
  static void Finish(std::unique_ptr<FakeCall> call, const absl::Status& why) {
    call->refused->push_back(std::string(why.message()));
  }

  Context context;
  std::vector<std::string>* refused;
};

class SlowCallsTest : public testing::Test {
 protected:
  // Posts a call from `address` that waits for unhang_ when it is served.
  void Post(const std::string& address) {
    calls_.Post(std::make_unique<FakeCall>(FakeCall{{address}, &refused_}),
                [this](const std::unique_ptr<FakeCall>&) { unhang_.get_future().wait(); });
  }
  void PostQuick(const std::string& address) {
    calls_.Post(std::make_unique<FakeCall>(FakeCall{{address}, &refused_}),
                [](const std::unique_ptr<FakeCall>&) {});
  }

  std::promise<void> unhang_;
  std::vector<std::string> refused_;
  RefusalCounters counters_;
  SlowCalls calls_{&tasks_, &counters_, {4, 2}};
  TaskQueue tasks_{"test"};  // destroyed first: its tasks use the members above
};

// Seen red when nothing was counted.
TEST_F(SlowCallsTest, OneAddressLeavesRoomForOthersUntilAllPlacesAreTaken) {
  Post("ipv4:10.0.0.1");
  PostQuick("ipv4:10.0.0.1");
  EXPECT_THAT(refused_, IsEmpty());
  PostQuick("ipv4:10.0.0.1");
  EXPECT_THAT(refused_, ElementsAre(HasSubstr(
                            "too many calls wait for an answer: 2, and 2 of them from "
                            "ipv4:10.0.0.1; munged on the host of the rendezvous is slow")));
  PostQuick("ipv4:10.0.0.2");
  PostQuick("ipv4:10.0.0.3");
  EXPECT_EQ(refused_.size(), 1u);
  PostQuick("ipv4:10.0.0.4");
  EXPECT_EQ(refused_.size(), 2u);
  EXPECT_EQ(counters_.Snapshot()["too_many_waiting"], 2u);
  unhang_.set_value();
  tasks_.Wait();
  PostQuick("ipv4:10.0.0.1");
  PostQuick("ipv4:10.0.0.4");
  EXPECT_EQ(refused_.size(), 2u);
}

}  // namespace slow_calls_test
}  // namespace ddprun
