// The safetensors file format (https://github.com/huggingface/safetensors): 8 bytes with the length
// of the header, little-endian; the header, a JSON object of tensors and string metadata; the
// tensors' bytes without gaps. ddprun adds a hash of every tensor and of the header to the
// metadata, so that damage is detected.
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
  std::string dtype;  // "F32", "I64", ...: the format's names
  std::vector<std::int64_t> shape;
};

struct TensorBytes {
  TensorInfo info;
  const void* data = nullptr;  // owned by the caller
  std::size_t size = 0;        // in bytes
};

// Bytes of an element; 0: the format has no such name.
std::size_t DtypeSize(const std::string& dtype);

// The bytes of `a` come before those of `b` in a file of ddprun: large elements first, so that all
// are aligned; then by name.
bool ComesFirst(const TensorInfo& a, const TensorInfo& b);

// The form of a hash in a header: 16 hex digits.
std::string HashText(std::uint64_t xxh3);

// Returns everything in front of the tensors' bytes. Reorders `tensors` into the order in which
// their bytes must follow (ComesFirst), and adds format version and hashes to `metadata`.
std::string BuildHeader(std::vector<TensorBytes>* tensors, Metadata metadata);

// Pads a header from BuildHeader() with spaces to `size` bytes. `size`: a multiple of 8, at least
// its present size.
void PadHeader(std::string* header, std::size_t size);

struct StoredTensor {
  TensorInfo info;
  std::uint64_t offset = 0;  // of its bytes in the file
  std::size_t size = 0;
  std::string hash;  // XXH3-64, as HashText() writes it
};

// The metadata of a file whose header matches its hash; the rest may be damaged. nullopt: no match,
// or not readable.
std::optional<Metadata> MetadataOfHeader(const std::string& path);

// A file whose header has been read. Movable.
class SafetensorsFile {
 public:
  // Checks structure, sizes, version and the hash of the header, but not the hashes of the tensors:
  // the caller checks those. Throws FormatError.
  static SafetensorsFile Open(const std::string& path);

  // In the order of their bytes, which have no gaps and end with the file.
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
