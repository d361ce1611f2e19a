// Asserts a property in a fuzz target. A violation aborts, so the fuzzer reports a crash and keeps
// the input.
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
