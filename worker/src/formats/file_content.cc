#include "worker/src/formats/file_content.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "worker/src/formats/format_error.h"
#include "worker/src/formats/input_file.h"

namespace ddp::internal {

FileContent::FileContent(const std::string& path) {
  InputFile file(path);
  if (file.size() == 0) return;
  void* const memory =
      mmap(nullptr, file.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw FormatError("no memory for its " + std::to_string(file.size()) +
                      " bytes: " + std::strerror(errno));
  }
  try {
    file.Read(0, memory, file.size());
  } catch (const FormatError&) {
    munmap(memory, file.size());
    throw;
  }
  memory_ = memory;
  size_ = file.size();
}

FileContent::~FileContent() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

void FileContent::Forget(std::string_view part) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + part.size()) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace ddp::internal
