#include <gtest/gtest.h>

#include <string>

#include "launcher/commands/operator.h"

namespace ddprun {
namespace print_out_test {

// The output of `ddprun stacks` contains names of functions and files, which can be any text.
TEST(PrintOutTest, WhatAWorkerSaidCannotMoveTheCursor) {
  testing::internal::CaptureStdout();
  EXPECT_TRUE(PrintOut("rank 0\n\tf\x1b[2J\r\xC2\x9B\n"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "rank 0\n\tf?[2J??\n");
}

}  // namespace print_out_test
}  // namespace ddprun
