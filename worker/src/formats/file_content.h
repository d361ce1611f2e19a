// A whole file in memory, for who has to look at it here and there.
#ifndef DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_
#define DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::internal {

// A copy, not a mapping of the file: an error of the disk, or a file that somebody cuts short
// meanwhile, is an exception, where a mapping ends the process with SIGBUS.
class FileContent {
 public:
  // Throws UnavailableError, with the errno, where the system does not give the file out; other
  // FormatErrors where it is not a regular file, becomes shorter meanwhile, or there is no memory
  // for it.
  explicit FileContent(const std::string& path);
  ~FileContent();
  FileContent(const FileContent&) = delete;
  FileContent& operator=(const FileContent&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(memory_), size_}; }

  // Gives the memory of `part`, of bytes(), back to the system, but for pages that are not all its
  // own. Nobody may look at `part` any more.
  void Forget(std::string_view part);

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_FILE_CONTENT_H_
