// The safetensors file format (https://github.com/huggingface/safetensors). A file begins with 8
// bytes that hold the length of the header, little-endian. The header follows: a JSON object with
// tensors and string metadata. Then come the tensors' bytes without gaps. ddprun adds a hash of
// every tensor and of the header to the metadata, to detect damage.
#ifndef DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_H_
#define DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/src/formats/format_error.h"
#include "worker/src/formats/input_file.h"
#include "worker/src/formats/safetensors_index.h"

namespace ddp::internal {

inline constexpr char kFormatKey[] = "ddprun_format";
inline constexpr char kFormatVersion[] = "1";

struct TensorInfo {
  std::string name;
  std::string dtype;  // the format's name, for example "F32", "I64"
  std::vector<std::int64_t> shape;
};

struct TensorBytes {
  TensorInfo info;
  const void* data = nullptr;  // owned by the caller
  std::size_t size = 0;        // in bytes
};

// Bytes of an element. 0: the format has no such dtype.
std::size_t DtypeSize(const std::string& dtype);

// True if the bytes of `a` come before the bytes of `b` in a file of ddprun. Large elements come
// first, so that all elements are aligned. Then the names decide.
bool ComesFirst(const TensorInfo& a, const TensorInfo& b);

// A hash as the header contains it: 16 hex digits.
std::string HashText(std::uint64_t xxh3);

// Returns everything that precedes the tensors' bytes. Reorders `tensors` into the order in which
// their bytes must follow (ComesFirst). Adds format version and hashes to `metadata`.
std::string BuildHeader(std::vector<TensorBytes>* tensors, Metadata metadata);

// Pads a header from BuildHeader() with spaces to `size` bytes. `size` must be a multiple of 8, and
// at least the header's current size.
void PadHeader(std::string* header, std::size_t size);

struct StoredTensor {
  TensorInfo info;
  std::uint64_t offset = 0;  // of its bytes in the file
  std::size_t size = 0;
  std::string hash;  // XXH3-64, as HashText() writes it
};

// The metadata of a file, if its header matches the header's hash. The tensors may be damaged.
// nullopt: the header does not match, or cannot be read.
std::optional<Metadata> MetadataOfHeader(const std::string& path);

// A file whose header has been read.
class SafetensorsFile {
 public:
  // Checks structure, sizes, version and the hash of the header. The caller must check the hashes
  // of the tensors. Throws FormatError.
  static SafetensorsFile Open(const std::string& path);

  // In the order of their bytes, which have no gaps and end at the end of the file.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  const std::shared_ptr<InputFile>& content() const { return content_; }

 private:
  SafetensorsFile() = default;
  void Parse();

  std::shared_ptr<InputFile> content_;
  std::vector<StoredTensor> tensors_;
  Metadata metadata_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_H_
