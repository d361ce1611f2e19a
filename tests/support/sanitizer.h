// The memory that a process of a build under AddressSanitizer or ThreadSanitizer takes in addition.
#ifndef DDPRUN_TESTS_SUPPORT_SANITIZER_H_
#define DDPRUN_TESTS_SUPPORT_SANITIZER_H_

#include "launcher/sanitizer.h"

namespace ddprun {

// In KiB: 256 MiB of freed memory that the sanitizer keeps, and the memory of the sanitizer itself.
// 0 in other builds.
inline constexpr long kSanitizerKib = kUnderSanitizer ? 560 << 10 : 0;

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_SANITIZER_H_
