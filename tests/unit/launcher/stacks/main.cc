// ddprun executes its own program again as the unwind helper. Here that program is this test.
#include <gmock/gmock.h>

#include "launcher/stacks/unwind_helper.h"

int main(int argc, char** argv) {
  if (const auto code = ddprun::stacks::RunIfUnwindHelper(argc, argv)) return *code;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
