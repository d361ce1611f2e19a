// Encodes numbers and texts as bytes, for messages between ddprun and another process of the same
// program on the same machine. The reader checks every length.
#ifndef DDPRUN_LAUNCHER_STACKS_BYTES_H_
#define DDPRUN_LAUNCHER_STACKS_BYTES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace ddprun::stacks {

class ByteWriter {
 public:
  template <typename Number>
  void Put(Number number) {
    static_assert(std::is_integral_v<Number>);
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void Put(std::string_view text) {
    Put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// After the first incomplete field, ok() is false, and each further field is 0 or empty.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}  // `bytes` must outlive it

  template <typename Number>
  Number Take() {
    static_assert(std::is_integral_v<Number>);
    Number number = 0;
    if (!ok_ || bytes_.size() < sizeof(number)) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&number, bytes_.data(), sizeof(number));
    bytes_.remove_prefix(sizeof(number));
    return number;
  }
  std::string_view TakeText(std::size_t most) {
    const auto size = Take<std::uint32_t>();
    if (!ok_ || size > most || size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }
  void Refuse() { ok_ = false; }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_BYTES_H_
