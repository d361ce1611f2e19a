// The costs of a build under AddressSanitizer or ThreadSanitizer: it is many times slower and keeps
// freed memory.
#ifndef DDPRUN_TESTS_SUPPORT_SANITIZER_H_
#define DDPRUN_TESTS_SUPPORT_SANITIZER_H_

#include "launcher/sanitizer.h"

namespace ddprun {

// The additional memory of a process in such a build: 256 MiB of freed memory, and the memory of
// the sanitizer itself.
inline constexpr long kSanitizerKib = kUnderSanitizer ? 560 << 10 : 0;

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_SANITIZER_H_
