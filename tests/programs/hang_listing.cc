// A library for LD_PRELOAD into ddprun that makes the listing of a folder wait, as on a file server
// that does not answer.
//
// While the file FOLDER.hangs exists, opendir(FOLDER) does not continue.
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <string>

namespace {

void WaitFor(const std::string& folder) {
  const std::string file = folder + ".hangs";
  while (access(file.c_str(), F_OK) == 0) usleep(2000);
}

}  // namespace

extern "C" DIR* opendir(const char* name) {
  WaitFor(name);
  return reinterpret_cast<DIR* (*)(const char*)>(dlsym(RTLD_NEXT, "opendir"))(name);
}

extern "C" DIR* fdopendir(int fd) {
  char path[PATH_MAX];
  const ssize_t length =
      readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  if (length > 0) WaitFor(std::string(path, static_cast<std::size_t>(length)));
  return reinterpret_cast<DIR* (*)(int)>(dlsym(RTLD_NEXT, "fdopendir"))(fd);
}
