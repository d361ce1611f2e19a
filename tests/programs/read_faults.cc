// A library for LD_PRELOAD that makes pread fail with a chosen errno for one file, if the call
// reads beyond a chosen offset. ERRNO is a number.
//
//     READ_FAULTS="PATH ERRNO OFFSET"
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct Fault {
  std::string path;
  int error = 0;
  long long from = 0;

  Fault() {
    const char* const text = std::getenv("READ_FAULTS");
    char path_text[4096];
    if (text == nullptr || std::sscanf(text, "%4095s %d %lld", path_text, &error, &from) != 3) {
      error = 0;
      return;
    }
    path = path_text;
  }
};

bool Fails(int fd, size_t size, off_t offset) {
  static const Fault fault;
  if (fault.error == 0 || offset + static_cast<off_t>(size) <= fault.from) return false;
  char path[4096];
  const ssize_t length =
      readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  if (length < 0 || fault.path != std::string(path, static_cast<size_t>(length))) return false;
  errno = fault.error;
  return true;
}

using Pread = ssize_t (*)(int, void*, size_t, off_t);

}  // namespace

extern "C" ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  static const auto real = reinterpret_cast<Pread>(dlsym(RTLD_NEXT, "pread"));
  return Fails(fd, size, offset) ? -1 : real(fd, data, size, offset);
}

extern "C" ssize_t pread64(int fd, void* data, size_t size, off_t offset) {
  return pread(fd, data, size, offset);
}
