#include "launcher/os/process/program_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

// The kernel reads no more of a file's first line than this.
constexpr std::size_t kShebangBytes = 256;

bool IsDirectory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool IsFile(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool IsExecutable(const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

std::string FirstBytes(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string bytes(kShebangBytes, '\0');
  const ssize_t size = file.valid() ? ::read(file.get(), bytes.data(), bytes.size()) : 0;
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return bytes;
}

// The program in a script's #! line; "": no such line.
std::string Interpreter(std::string_view bytes) {
  if (!bytes.starts_with("#!")) return "";
  bytes.remove_prefix(2);
  bytes = bytes.substr(0, bytes.find('\n'));
  bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t"), bytes.size()));
  return std::string(bytes.substr(0, bytes.find_first_of(" \t")));
}

// The file exists, but execve returned ENOENT.
absl::Status ExplainMissingInterpreter(const std::string& path) {
  const std::string bytes = FirstBytes(path);
  std::string interpreter = Interpreter(bytes);
  if (interpreter.ends_with('\r')) {
    interpreter.pop_back();
    return absl::NotFoundError(absl::StrCat(
        path, ": interpreter ", absl::CEscape(interpreter),
        " not found: the script has Windows line ends (sed -i 's/\\r$//' ", path, ")"));
  }
  if (!interpreter.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, ": interpreter ", absl::CEscape(interpreter), " not found"));
  }
  return absl::NotFoundError(absl::StrCat(
      path, ": its dynamic loader was not found: the program was built for another system"));
}

absl::Status ExplainAccessDenied(const std::string& path) {
  if (IsDirectory(path)) return absl::PermissionDeniedError(absl::StrCat(path, ": is a directory"));
  if (IsFile(path) && !IsExecutable(path)) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": permission denied: not executable (chmod +x ", path, ")"));
  }
  const std::string interpreter = Interpreter(FirstBytes(path));
  if (!interpreter.empty() && !IsExecutable(interpreter)) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": permission denied: interpreter ",
                                                    absl::CEscape(interpreter), " not executable"));
  }
  return absl::PermissionDeniedError(absl::StrCat(path, ": permission denied"));
}

std::string SearchPath(const std::vector<std::string>& env) {
  std::string search = "/bin:/usr/bin";
  for (const std::string& entry : env) {
    if (entry.starts_with("PATH=")) search = entry.substr(5);
  }
  return search;
}

}  // namespace

std::vector<std::string> ProgramPaths(const std::string& program,
                                      const std::vector<std::string>& env) {
  if (program.find('/') != std::string::npos) return {program};
  std::vector<std::string> paths;
  const std::string search = SearchPath(env);
  for (const absl::string_view directory : absl::StrSplit(search, ':')) {
    // An empty entry is the working directory; './' makes it a path.
    paths.push_back(absl::StrCat(directory.empty() ? "." : directory, "/", program));
  }
  return paths;
}

bool IsProgram(const std::string& path) { return IsFile(path) && IsExecutable(path); }

absl::StatusOr<std::string> FindProgram(const std::string& program,
                                        const std::vector<std::string>& env) {
  if (program.empty()) return absl::NotFoundError("the command is empty");
  if (program.find('/') != std::string::npos) return program;
  std::string denied;  // found but not executable; a later candidate may be
  for (const std::string& path : ProgramPaths(program, env)) {
    if (IsProgram(path)) return path;
    if (denied.empty() && IsFile(path)) denied = path;
  }
  if (!denied.empty()) return ExplainAccessDenied(denied);
  return absl::NotFoundError(absl::StrCat(
      program, ": command not found (PATH=", SearchPath(env), ")",
      IsFile(program) ? absl::StrCat("; did you mean ./", program, "?") : std::string()));
}

absl::Status ExplainExecFailure(const std::string& path, int error) {
  switch (error) {
    case ENOENT:
      if (IsFile(path)) return ExplainMissingInterpreter(path);
      return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    case EACCES:
    case EPERM:
      return ExplainAccessDenied(path);
    case ENOEXEC:
      return absl::PermissionDeniedError(absl::StrCat(
          path,
          ": cannot be executed: neither a program for this machine nor a script with a #! line"));
    case E2BIG:
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": the arguments and the environment together are too long"));
    default:
      return absl::ErrnoToStatus(error, absl::StrCat("cannot execute ", path));
  }
}

absl::Status ExplainChdirFailure(const std::string& cwd, int error) {
  const std::string where = absl::StrCat("working directory ", cwd, ": ");
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(absl::StrCat(where, "no such directory"));
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(where, "not a directory"));
    case EACCES:
      return absl::PermissionDeniedError(absl::StrCat(where, "permission denied"));
    default:
      return absl::ErrnoToStatus(error, absl::StrCat("working directory ", cwd));
  }
}

}  // namespace ddprun
