// Makes an exec wait, as if the program were on a file server that does not answer. A library for
// LD_PRELOAD into ddprun, and a part of the program os_test.
//
// The environment of the program to be executed has HANG_EXEC=FOLDER and RANK=R. If the file
// FOLDER/R exists, execve makes the file FOLDER/R.hangs, and waits until FOLDER/R is gone. The
// program itself runs without LD_PRELOAD: a shell executes other programs after a vfork, and this
// code must not run there.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

std::string Variable(char* const* env, const std::string& name) {
  for (; *env != nullptr; ++env) {
    const std::string entry = *env;
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

}  // namespace

extern "C" int execve(const char* path, char* const* argv, char* const* env) noexcept {
  const std::string folder = Variable(env, "HANG_EXEC");
  const std::string file = folder + "/" + Variable(env, "RANK");
  if (!folder.empty() && access(file.c_str(), F_OK) == 0) {
    close(open((file + ".hangs").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    while (access(file.c_str(), F_OK) == 0) usleep(2000);
  }
  std::vector<char*> without_preload;
  for (char* const* entry = env; *entry != nullptr; ++entry) {
    if (!std::string(*entry).starts_with("LD_PRELOAD=")) without_preload.push_back(*entry);
  }
  without_preload.push_back(nullptr);
  return static_cast<int>(syscall(SYS_execve, path, argv, without_preload.data()));
}
