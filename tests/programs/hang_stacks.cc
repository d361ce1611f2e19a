// A library for LD_PRELOAD into ddprun, for an agent that does not finish taking its workers'
// stacks. While the file $HANG_STACKS exists, the helper that unwinds the stacks does not start.
#include <dlfcn.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* files,
                           const posix_spawnattr_t* attributes, char* const* argv,
                           char* const* env) {
  const char* const file = std::getenv("HANG_STACKS");
  while (file != nullptr && access(file, F_OK) == 0) usleep(2000);
  using Spawn = decltype(&posix_spawn);
  static const auto real = reinterpret_cast<Spawn>(dlsym(RTLD_NEXT, "posix_spawn"));
  return real(pid, path, files, attributes, argv, env);
}
