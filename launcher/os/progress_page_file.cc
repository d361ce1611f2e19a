#include "launcher/os/progress_page_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "worker/contract/progress_page.h"

namespace ddprun {

absl::StatusOr<ProgressPageFile> ProgressPageFile::Make() {
  UniqueFd fd(::memfd_create("ddprun-progress", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed: if a worker shrank the file, reading it would be a SIGBUS.
  if (!fd.valid() || ::ftruncate(fd.get(), kProgressFileBytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a progress page");
  }
  void* const page = ::mmap(nullptr, kProgressFileBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map a progress page");
  return ProgressPageFile(std::move(fd), page);
}

ProgressPageFile::ProgressPageFile(UniqueFd fd, const void* page)
    : fd_(std::move(fd)), page_(page) {}

ProgressPageFile::ProgressPageFile(ProgressPageFile&& other) noexcept
    : fd_(std::move(other.fd_)), page_(std::exchange(other.page_, nullptr)) {}

ProgressPageFile::~ProgressPageFile() {
  if (page_ != nullptr) ::munmap(const_cast<void*>(page_), kProgressFileBytes);
}

std::optional<ProgressSnapshot> ProgressPageFile::Read() const {
  return ReadProgress(page_, kProgressFileBytes);
}

}  // namespace ddprun
