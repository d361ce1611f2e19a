#include "rendezvous/auth/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>

#include "rendezvous/core/check.h"

namespace ddprun::auth {
namespace {

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

}  // namespace

// From the kernel, not from OpenSSL. A job on one host needs nothing else of OpenSSL, and OpenSSL's
// initialization takes milliseconds.
std::string RandomBytes(std::size_t count) {
  constexpr std::size_t kMostAtOnce = 256;  // of getentropy(3)
  std::string bytes(count, '\0');
  for (std::size_t at = 0; at < count; at += kMostAtOnce) {
    DDPRUN_CHECK(::getentropy(bytes.data() + at, std::min(count - at, kMostAtOnce)) == 0,
                 "no random numbers");
  }
  return bytes;
}

std::string Sha256(std::string_view data) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(Bytes(data), data.size(), Bytes(hash));
  return hash;
}

std::string HmacSha256(std::string_view key, std::string_view data) {
  std::string mac(SHA256_DIGEST_LENGTH, '\0');
  DDPRUN_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Bytes(data),
                    data.size(), Bytes(mac), nullptr) != nullptr,
               "HMAC-SHA256 failed");
  return mac;
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ddprun::auth
