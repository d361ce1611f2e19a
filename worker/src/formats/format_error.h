// The reasons why a file of tensors cannot be read.
#ifndef DDPRUN_WORKER_SRC_FORMATS_FORMAT_ERROR_H_
#define DDPRUN_WORKER_SRC_FORMATS_FORMAT_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ddp::internal {

// The file cannot be read: it does not open, has another format or version, or contains something
// that is refused. what() gives the reason without the path.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The file is permanently damaged: too short, or its contents contradict each other or their
// hashes.
class DamagedError : public FormatError {
 public:
  using FormatError::FormatError;
};

// The system cannot read the file, or some of its bytes, now. The file may still be undamaged.
class UnavailableError : public FormatError {
 public:
  // `error` is errno. `offset` and `size` describe the bytes; size 0: the file does not open.
  UnavailableError(const std::string& what, int error, std::uint64_t offset = 0,
                   std::size_t size = 0)
      : FormatError(what), error_(error), offset_(offset), size_(size) {}

  int error() const { return error_; }
  std::uint64_t offset() const { return offset_; }
  std::size_t size() const { return size_; }

 private:
  int error_;
  std::uint64_t offset_;
  std::size_t size_;
};

// Makes `text` from an untrusted file safe for a message: quoted, printable ASCII, cut if it is
// long.
inline std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  static const char kDigits[] = "0123456789abcdef";
  std::string quoted = "'";
  for (const char c : text.substr(0, kLongest)) {
    if (c >= ' ' && c <= '~') {
      quoted += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      quoted += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return quoted + (text.size() > kLongest ? "...'" : "'");
}

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_FORMAT_ERROR_H_
