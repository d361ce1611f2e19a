// A whole file in memory, for readers that access it at random.
#ifndef DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_
#define DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::internal {

// A copy, not a mapping: a disk error or a truncated file is then an exception, not a SIGBUS that
// ends the process.
class FileContent {
 public:
  // Throws UnavailableError, with errno, if the file cannot be read now; other FormatErrors if it
  // is not a regular file, becomes shorter during the read, or does not fit in memory.
  explicit FileContent(const std::string& path);
  ~FileContent();
  FileContent(const FileContent&) = delete;
  FileContent& operator=(const FileContent&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(memory_), size_}; }

  // Returns the memory of `part`, a part of bytes(), to the kernel, except pages that it shares
  // with its neighbours. `part` must not be read afterwards.
  void Forget(std::string_view part);

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_
