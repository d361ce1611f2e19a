// Which file a command means, and, when it cannot be executed, why, in words for its user.
//
// Pure look-ups in the file system; any thread. May block on a slow disk.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROGRAM_PATH_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROGRAM_PATH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun {

// The path to give to execve for `program`, by execvp's rules: as it is when it contains a '/',
// otherwise the first executable file of that name in the PATH of `env` ("/bin:/usr/bin" without
// one). Relative paths are meant from the working directory, and stay relative. NotFound or
// PermissionDenied where there is none.
absl::StatusOr<std::string> FindProgram(const std::string& program,
                                        const std::vector<std::string>& env);

// The paths among which FindProgram chooses, in its order. Asks no disk.
std::vector<std::string> ProgramPaths(const std::string& program,
                                      const std::vector<std::string>& env);

// Whether FindProgram takes this one of several paths. Allocates nothing.
bool IsProgram(const std::string& path);

// What execve's `error` means for `path` (from FindProgram), for example
//   NotFound          "./trian: no such file"
//   NotFound          "./train.py: interpreter /usr/bin/pyhton not found"
//   PermissionDenied  "./train.py: permission denied: not executable (chmod +x ./train.py)"
absl::Status ExplainExecFailure(const std::string& path, int error);

// What chdir's `error` means, for example NotFound "working directory /x: no such directory".
absl::Status ExplainChdirFailure(const std::string& cwd, int error);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROGRAM_PATH_H_
