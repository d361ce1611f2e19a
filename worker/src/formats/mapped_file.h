// A file's content in memory, read-only, for as long as the object lives.
#ifndef DDPRUN_WORKER_SRC_FORMATS_MAPPED_FILE_H_
#define DDPRUN_WORKER_SRC_FORMATS_MAPPED_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace ddp::internal {

// Whoever cuts the file short meanwhile ends this process with SIGBUS: files are replaced by
// renaming, not by writing over them. Movable.
class MappedFile {
 public:
  MappedFile() = default;  // nothing

  // Throws FormatError if there is no such file, or it is not a regular one.
  explicit MappedFile(const std::string& path);

  MappedFile(MappedFile&& other) noexcept
      : map_(std::exchange(other.map_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile();

  std::string_view bytes() const { return {static_cast<const char*>(map_), size_}; }

 private:
  void* map_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_MAPPED_FILE_H_
