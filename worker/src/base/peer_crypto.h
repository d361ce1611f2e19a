// How two ranks that share a secret show each other that they do, and what they send is sealed.
// By OpenSSL. Each function, and each object, for one thread at a time.
//
// They throw std::runtime_error where OpenSSL itself fails.
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

// In a time that depends on the lengths only.
bool IsEqualProof(std::string_view a, std::string_view b);

// One direction of one connection: AES-128-OCB (RFC 7253), which is twice as fast as GCM where the
// processor has AES instructions. The key is made of the secret and of `context`, which no two
// directions may share: it names both ends and holds a random number of each. Each piece has the
// next number as its nonce, so that none can be left out, repeated or moved.
class Seal {
 public:
  static constexpr std::size_t kTagBytes = 16;
  static constexpr std::size_t kMaxPieceBytes = std::size_t{256} << 10;

  enum class Side { kSeals, kOpens };
  Seal(std::string_view secret, std::string_view context, Side side);
  ~Seal();
  Seal(Seal&& other) noexcept;
  Seal& operator=(Seal&& other) noexcept;

  // Writes `size` bytes and then the tag to `to`, which may not overlap `from`.
  void Close(const std::byte* from, std::size_t size, std::byte* to);
  // Of `size` bytes, with the tag behind them. False: somebody has changed them; what was written
  // to `to` is not to be used.
  bool Open(const std::byte* from, std::size_t size, std::byte* to);

 private:
  void SetNonce();

  evp_cipher_ctx_st* cipher_ = nullptr;
  Side side_;
  std::uint64_t pieces_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_PEER_CRYPTO_H_
