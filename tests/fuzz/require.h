// Asserts a property in a fuzz target: a violation is reported as a crash, with its input.
#ifndef DDPRUN_TESTS_FUZZ_REQUIRE_H_
#define DDPRUN_TESTS_FUZZ_REQUIRE_H_

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ddprun {

inline void Require(bool condition, const char* property, const std::string& detail = "") {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n%s\n", property, detail.c_str());
  std::abort();
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_FUZZ_REQUIRE_H_
