// Requests of clients of torch's TCPStore, as bytes.
#ifndef DDPRUN_TESTS_UNIT_TORCH_STORE_REQUESTS_H_
#define DDPRUN_TESTS_UNIT_TORCH_STORE_REQUESTS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ddprun::torch_store {

template <typename Number>
std::string Raw(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}
inline std::string Byte(int value) { return Raw(static_cast<std::uint8_t>(value)); }
inline std::string Text(std::string_view text) {
  return Raw<std::uint64_t>(text.size()) + std::string(text);
}

// The requests that both dialects have. `shift` is added to the number of each operation: 0 for
// libtorch 1.13 and 2.0, 1 for 2.1 and newer.
struct Requests {
  int shift = 0;

  std::string Op(int number) const { return Byte(number + shift); }
  std::string List(std::initializer_list<std::string_view> keys) const {
    std::string bytes = Raw<std::uint64_t>(keys.size());
    for (const std::string_view key : keys) bytes += Text(key);
    return bytes;
  }

  std::string Set(std::string_view key, std::string_view value) const {
    return Op(0) + Text(key) + Text(value);
  }
  std::string CompareSet(std::string_view key, std::string_view expected,
                         std::string_view wanted) const {
    return Op(1) + Text(key) + Text(expected) + Text(wanted);
  }
  std::string Get(std::string_view key) const { return Op(2) + Text(key); }
  std::string Add(std::string_view key, std::int64_t number) const {
    return Op(3) + Text(key) + Raw(number);
  }
  std::string Check(std::initializer_list<std::string_view> keys) const {
    return Op(4) + List(keys);
  }
  std::string Wait(std::initializer_list<std::string_view> keys) const {
    return Op(5) + List(keys);
  }
  std::string CountKeys() const { return Op(6); }
};

inline constexpr Requests kOld{0};
inline constexpr Requests kNew{1};
inline std::string Validation() { return Byte(0) + Raw<std::uint32_t>(0x3C85F7CE); }

// Requests of libtorch 1.13 and 2.0 only.
inline std::string Watch(std::string_view key) { return Byte(7) + Text(key); }
inline std::string OldDelete(std::string_view key) { return Byte(8) + Text(key); }

// Requests of libtorch 2.1 and newer.
inline std::string Delete(std::string_view key) { return Byte(8) + Text(key); }
inline std::string Append(std::string_view key, std::string_view value) {
  return Byte(9) + Text(key) + Text(value);
}
inline std::string MultiGet(std::initializer_list<std::string_view> keys) {
  return Byte(10) + kNew.List(keys);
}
inline std::string MultiSet(std::string_view key, std::string_view value,
                            std::string_view other_key, std::string_view other_value) {
  return Byte(11) + Raw<std::uint64_t>(2) + Text(key) + Text(value) + Text(other_key) +
         Text(other_value);
}
inline std::string CancelWait() { return Byte(12); }
inline std::string Ping(std::uint32_t nonce) { return Byte(13) + Raw(nonce); }

}  // namespace ddprun::torch_store

#endif  // DDPRUN_TESTS_UNIT_TORCH_STORE_REQUESTS_H_
