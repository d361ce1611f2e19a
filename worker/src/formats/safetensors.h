// The safetensors file format (https://github.com/huggingface/safetensors): 8 bytes with the length
// of the header, little-endian; the header, a JSON object of tensors and string metadata; then the
// tensors' bytes without gaps. On top of it, what ddprun adds to be sure of a file: a hash of
// every tensor and of the header, in the metadata.
#ifndef DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_H_
#define DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/src/formats/format_error.h"
#include "worker/src/formats/mapped_file.h"
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
  const void* data = nullptr;  // owned by whoever made this: the caller, or the SafetensorsFile
  std::size_t size = 0;        // in bytes
};

// Bytes of an element, or 0 for a name that the format does not have.
std::size_t DtypeSize(const std::string& dtype);

// Whether the bytes of `a` lie before those of `b` in a file of ours: large elements first, so that
// all are aligned; then by name.
bool ComesFirst(const TensorInfo& a, const TensorInfo& b);

// 16 hex digits, as the hashes in a header are written.
std::string HashText(std::uint64_t xxh3);

// Everything in front of the tensors' bytes. Reorders `tensors` into the order in which their bytes
// must follow (ComesFirst), and adds format version and hashes
// to `metadata`.
std::string BuildHeader(std::vector<TensorBytes>* tensors, Metadata metadata);

// Makes a header that BuildHeader() has built `size` bytes long, with spaces. `size`: a multiple of
// 8 and no less than it has.
void PadHeader(std::string* header, std::size_t size);

// A file mapped into memory, read-only. Movable.
class SafetensorsFile {
 public:
  // Maps `path` and checks its structure, sizes, version and the hash of its header. Whether
  // tensors have the hashes that the header gives them is for the caller to check. Throws
  // FormatError.
  static SafetensorsFile Open(const std::string& path);

  // In the order of their bytes, which follow one another without gaps.
  const std::vector<TensorBytes>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }

  // The XXH3-64 that the header has for tensors()[index], as HashText().
  const std::string& hash(std::size_t index) const { return hashes_[index]; }

 private:
  SafetensorsFile() = default;
  void Parse();

  MappedFile file_;
  std::vector<TensorBytes> tensors_;
  std::vector<std::string> hashes_;  // of the tensors, in their order
  Metadata metadata_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_H_
