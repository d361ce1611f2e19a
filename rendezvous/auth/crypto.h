// The cryptographic primitives of authentication, from OpenSSL. Thread-safe: no state.
//
// They abort the process if OpenSSL or the kernel fails (no random numbers, no memory): continuing
// would be unsafe.
#ifndef DDPRUN_RENDEZVOUS_AUTH_CRYPTO_H_
#define DDPRUN_RENDEZVOUS_AUTH_CRYPTO_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::auth {

std::string RandomBytes(std::size_t count);
inline constexpr std::size_t kSha256Bytes = 32;
std::string Sha256(std::string_view data);
std::string HmacSha256(std::string_view key, std::string_view data);  // 32 bytes

// The time taken depends only on the lengths.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CRYPTO_H_
