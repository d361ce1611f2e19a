#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "launcher/connection/rendezvous_host.h"

namespace ddprun {
namespace start_right_test {

// Seen red when Take() did not check the holder.
TEST(StartRightTest, OneAgentHasIt) {
  const std::string name = "test-" + std::to_string(getpid());
  std::optional<StartRight> first(name);
  StartRight second(name);
  StartRight elsewhere(name + "-another");
  EXPECT_TRUE(first->Take());
  EXPECT_TRUE(first->Take());
  EXPECT_FALSE(second.Take());
  EXPECT_FALSE(second.taken());
  EXPECT_TRUE(elsewhere.Take());
  first->GiveBack();
  EXPECT_TRUE(second.Take());
  EXPECT_FALSE(first->Take());
  second.GiveBack();
  EXPECT_TRUE(first->Take());
  first.reset();
  EXPECT_TRUE(second.Take()) << "nobody keeps it who is gone";
}

}  // namespace start_right_test
}  // namespace ddprun
