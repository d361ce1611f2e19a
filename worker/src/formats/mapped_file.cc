#include "worker/src/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "worker/contract/unique_fd.h"
#include "worker/src/formats/format_error.h"

namespace ddp::internal {

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: a FIFO without a writer is refused, not waited for.
  const ddprun::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) throw FormatError(std::string("cannot open it: ") + std::strerror(errno));
  struct stat status = {};
  const bool regular = fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  const std::size_t size = regular ? static_cast<std::size_t>(status.st_size) : 0;
  void* map = nullptr;
  if (size > 0) map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  const int error = errno;
  if (!regular) throw FormatError("it is not a regular file");
  if (map == MAP_FAILED) throw FormatError(std::string("cannot map it: ") + std::strerror(error));
  map_ = map;
  size_ = size;
}

MappedFile::~MappedFile() {
  if (map_ != nullptr) munmap(map_, size_);
}

}  // namespace ddp::internal
