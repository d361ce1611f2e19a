// Whether AddressSanitizer or ThreadSanitizer is built in.
#ifndef DDPRUN_LAUNCHER_SANITIZER_H_
#define DDPRUN_LAUNCHER_SANITIZER_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DDPRUN_UNDER_SANITIZER true
#elif defined(__has_feature)  // clang does not define the macros above
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DDPRUN_UNDER_SANITIZER true
#endif
#endif
#ifndef DDPRUN_UNDER_SANITIZER
#define DDPRUN_UNDER_SANITIZER false
#endif

namespace ddprun {

inline constexpr bool kUnderSanitizer = DDPRUN_UNDER_SANITIZER;

}  // namespace ddprun

#undef DDPRUN_UNDER_SANITIZER

#endif  // DDPRUN_LAUNCHER_SANITIZER_H_
