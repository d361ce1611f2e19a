// A whole file in memory, for readers that need random access.
#ifndef DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_
#define DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::internal {

// A copy, not a mapping. So a disk error or a truncated file causes an exception. With a mapping it
// would cause a SIGBUS, which ends the process.
class FileContent {
 public:
  // Throws UnavailableError, with errno, if the file cannot be read now. Throws another FormatError
  // if it is not a regular file, becomes shorter during the read, or does not fit in memory.
  explicit FileContent(const std::string& path);
  ~FileContent();
  FileContent(const FileContent&) = delete;
  FileContent& operator=(const FileContent&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(memory_), size_}; }

  // Returns the memory of `part`, which is a part of bytes(), to the kernel. Keeps pages that
  // `part` shares with its neighbours. Nobody may read `part` afterwards.
  void Forget(std::string_view part);

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_
