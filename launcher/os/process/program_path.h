// Finds the file of a command, and explains to the user why it cannot be executed.
//
// Pure look-ups in the file system; any thread. May block on a slow disk.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROGRAM_PATH_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROGRAM_PATH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun {

// The path for execve, by execvp's rules: `program` itself if it contains a '/', otherwise the
// first executable file of that name in the PATH of `env` (without PATH: "/bin:/usr/bin"). Relative
// paths refer to the working directory, and stay relative. NotFound: no such file.
// PermissionDenied: there are files of that name, but none is executable.
absl::StatusOr<std::string> FindProgram(const std::string& program,
                                        const std::vector<std::string>& env);

// The candidates of FindProgram, in its order. Accesses no disk.
std::vector<std::string> ProgramPaths(const std::string& program,
                                      const std::vector<std::string>& env);

// True: FindProgram would accept this candidate. Allocates nothing.
bool IsProgram(const std::string& path);

// Explains execve's `error` for `path` (from FindProgram), for example
//   NotFound          "./trian: no such file"
//   NotFound          "./train.py: interpreter /usr/bin/pyhton not found"
//   PermissionDenied  "./train.py: permission denied: not executable (chmod +x ./train.py)"
absl::Status ExplainExecFailure(const std::string& path, int error);

// Explains chdir's `error`, for example NotFound "working directory /x: no such directory".
absl::Status ExplainChdirFailure(const std::string& cwd, int error);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROGRAM_PATH_H_
