// Authentication and encryption between two ranks that share a secret, with OpenSSL. Only one
// thread at a time may use an object.
//
// Throws std::runtime_error if OpenSSL fails.
#ifndef DDPRUN_WORKER_SRC_BASE_PEER_CRYPTO_H_
#define DDPRUN_WORKER_SRC_BASE_PEER_CRYPTO_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct evp_cipher_ctx_st;

namespace ddp::internal {

// HMAC-SHA256, as 64 hex digits.
std::string Proof(std::string_view secret, std::string_view of_what);

// The time of the comparison depends only on the lengths, not on the contents.
bool IsEqualProof(std::string_view a, std::string_view b);

// One direction of one connection: AES-128-OCB (RFC 7253), which is twice as fast as GCM on
// processors with AES instructions. The key is derived from the secret and `context`. No two
// directions may have the same context, so a context must contain a random number of each end. The
// nonce counts the pieces, so an attacker cannot drop, repeat or reorder a piece unnoticed.
class Seal {
 public:
  static constexpr std::size_t kTagBytes = 16;
  static constexpr std::size_t kMaxPieceBytes = std::size_t{256} << 10;

  enum class Side { kSeals, kOpens };
  Seal(std::string_view secret, std::string_view context, Side side);
  ~Seal();
  Seal(Seal&& other) noexcept;
  Seal& operator=(Seal&& other) noexcept;

  // Writes `size` encrypted bytes and the tag to `to`, which must not overlap `from`.
  void Close(const std::byte* from, std::size_t size, std::byte* to);
  // Decrypts `size` bytes, followed by the tag. False: the piece was changed; do not use `to`.
  bool Open(const std::byte* from, std::size_t size, std::byte* to);

 private:
  void SetNonce();

  evp_cipher_ctx_st* cipher_ = nullptr;
  Side side_;
  std::uint64_t pieces_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_PEER_CRYPTO_H_
