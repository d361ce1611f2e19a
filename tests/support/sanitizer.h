// Whether this is a build under AddressSanitizer or ThreadSanitizer, which make everything many
// times slower and keep freed memory.
#ifndef DDPRUN_TESTS_SUPPORT_SANITIZER_H_
#define DDPRUN_TESTS_SUPPORT_SANITIZER_H_

namespace ddprun {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderSanitizer = true;
#else
inline constexpr bool kUnderSanitizer = false;
#endif

// The additional memory of a process in such a build: 256 MiB of freed memory, and the sanitizer's
// own.
inline constexpr long kSanitizerKib = kUnderSanitizer ? 560 << 10 : 0;

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_SANITIZER_H_
