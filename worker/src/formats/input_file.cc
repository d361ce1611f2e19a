#include "worker/src/formats/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "worker/src/formats/format_error.h"

namespace ddp::internal {
namespace {

int OpenForReading(const std::string& path) {
  // O_NONBLOCK: open() then does not wait for a FIFO's writer. The FIFO is refused later.
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) { Open(); }

void InputFile::Open() {
  file_ = ddprun::UniqueFd(OpenForReading(path_));
  if (!file_.valid() && errno == ESTALE && !std::exchange(reopened_, true)) {
    file_ = ddprun::UniqueFd(OpenForReading(path_));
  }
  struct stat status = {};
  if (!file_.valid() || fstat(file_.get(), &status) != 0) {
    const int error = errno;
    throw UnavailableError(std::string("cannot open it: ") + std::strerror(error), error);
  }
  if (!S_ISREG(status.st_mode)) throw FormatError("it is not a regular file");
  identity_ = {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
               static_cast<std::uint64_t>(status.st_size)};
}

void InputFile::Read(std::uint64_t offset, void* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(file_.get(), static_cast<char*>(to) + done, size - done,
                              static_cast<off_t>(offset + done));
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0) {
      throw DamagedError("it has become too short: it ends at byte " +
                         std::to_string(offset + done));
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (error == ESTALE && !std::exchange(reopened_, true)) {
      Open();
      continue;
    }
    throw UnavailableError("cannot read its bytes " + std::to_string(offset + done) + " to " +
                               std::to_string(offset + size) + ": " + std::strerror(error),
                           error, offset + done, size - done);
  }
}

}  // namespace ddp::internal
