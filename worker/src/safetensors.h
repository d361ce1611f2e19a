// The safetensors file format (https://github.com/huggingface/safetensors): 8 bytes with the length
// of the header, little-endian; the header, a JSON object of tensors and string metadata; then the
// tensors' bytes without gaps. On top of it, what ddprun adds to be sure of a file: a hash of
// every tensor and of the header, in the metadata. No libtorch.
#ifndef DDPRUN_WORKER_SRC_SAFETENSORS_H_
#define DDPRUN_WORKER_SRC_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddp::internal {

using Metadata = std::map<std::string, std::string>;

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

// A file that cannot be read: it is not one of ours, of another version, or does not open. what()
// says why, without the path.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file that is not whole any more, and will not be again: short, or with contents that contradict
// each other or their hashes.
class DamagedError : public FormatError {
 public:
  using FormatError::FormatError;
};

// Everything in front of the tensors' bytes. Reorders `tensors` into the order in which their bytes
// must follow (large elements first, so that all are aligned), and adds format version and hashes
// to `metadata`.
std::string BuildHeader(std::vector<TensorBytes>* tensors, Metadata metadata);

// A file mapped into memory, read-only. Movable.
class SafetensorsFile {
 public:
  enum class Check {
    kAll,        // structure, sizes, version and all hashes: reads the whole file
    kStructure,  // all but the tensors' hashes: reads the header only
  };

  // Maps `path` and checks it. Throws FormatError.
  static SafetensorsFile Open(const std::string& path, Check check = Check::kAll);

  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();

  const std::vector<TensorBytes>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;
  void Map(const std::string& path);
  void Parse(Check check);

  void* map_ = nullptr;
  std::size_t size_ = 0;
  std::vector<TensorBytes> tensors_;
  Metadata metadata_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_SAFETENSORS_H_
