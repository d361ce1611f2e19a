// Golden files: the expected text of a test is in a file, and changes of the file are reviewed as a
// diff. If DDPRUN_REWRITE is in the environment, the test writes the file and compares nothing.
#ifndef DDPRUN_TESTS_SUPPORT_GOLDEN_H_
#define DDPRUN_TESTS_SUPPORT_GOLDEN_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace ddprun {

// `path` is relative to the root of the source tree.
inline void ExpectGolden(const std::string& path, const std::string& actual) {
  const std::string full = std::string(DDPRUN_SOURCE_DIR) + "/" + path;
  if (std::getenv("DDPRUN_REWRITE") != nullptr) {
    std::ofstream(full) << actual;
    return;
  }
  std::ifstream file(full);
  ASSERT_TRUE(file) << full << " is missing; DDPRUN_REWRITE=1 makes it";
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(actual, expected.str())
      << "differs from " << path << "; if the change is meant, DDPRUN_REWRITE=1 and review it";
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_GOLDEN_H_
