#include "worker/src/base/peer_crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace ddp::internal {
namespace {

constexpr int kNonceBytes = 12;

void Require(bool good) {
  if (!good) throw std::runtime_error("OpenSSL failed: it cannot seal what ranks send each other");
}

std::array<unsigned char, 32> Hmac(std::string_view secret, std::string_view text) {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  Require(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
               reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
               &size) != nullptr &&
          size == digest.size());
  return digest;
}

const unsigned char* Bytes(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* Bytes(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

std::string Proof(std::string_view secret, std::string_view of_what) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : Hmac(secret, of_what)) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

bool IsEqualProof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Seal::Seal(std::string_view secret, std::string_view context, Side side)
    : cipher_(EVP_CIPHER_CTX_new()), side_(side) {
  const auto key = Hmac(secret, "key of " + std::string(context));
  const int sealing = side_ == Side::kSeals ? 1 : 0;
  Require(cipher_ != nullptr && EVP_CipherInit_ex(cipher_, EVP_aes_128_ocb(), nullptr, key.data(),
                                                  nullptr, sealing) == 1);
}

Seal::~Seal() { EVP_CIPHER_CTX_free(cipher_); }

Seal::Seal(Seal&& other) noexcept
    : cipher_(std::exchange(other.cipher_, nullptr)), side_(other.side_), pieces_(other.pieces_) {}

Seal& Seal::operator=(Seal&& other) noexcept {
  std::swap(cipher_, other.cipher_);
  side_ = other.side_;
  pieces_ = other.pieces_;
  return *this;
}

void Seal::SetNonce() {
  unsigned char nonce[kNonceBytes] = {};
  const std::uint64_t number = pieces_++;
  std::memcpy(nonce, &number, sizeof(number));
  Require(EVP_CipherInit_ex(cipher_, nullptr, nullptr, nullptr, nonce, -1) == 1);
}

void Seal::Close(const std::byte* from, std::size_t size, std::byte* to) {
  SetNonce();
  int written = 0;
  Require(EVP_EncryptUpdate(cipher_, Bytes(to), &written, Bytes(from), static_cast<int>(size)) ==
              1 &&
          EVP_EncryptFinal_ex(cipher_, Bytes(to) + written, &written) == 1 &&
          EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_AEAD_GET_TAG, kTagBytes, Bytes(to) + size) == 1);
}

bool Seal::Open(const std::byte* from, std::size_t size, std::byte* to) {
  SetNonce();
  int written = 0;
  unsigned char tag[kTagBytes];
  std::memcpy(tag, from + size, kTagBytes);
  Require(EVP_DecryptUpdate(cipher_, Bytes(to), &written, Bytes(from), static_cast<int>(size)) ==
              1 &&
          EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag) == 1);
  return EVP_DecryptFinal_ex(cipher_, Bytes(to) + written, &written) == 1;
}

}  // namespace ddp::internal
