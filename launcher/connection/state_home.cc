#include "launcher/connection/state_home.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace ddprun {
namespace {

constexpr char kVariable[] = "DDPRUN_STATE_HOME";
constexpr mode_t kMode = 0700;
constexpr char kToken[] = "token";
constexpr char kNewToken[] = "token.new";

// What is wrong with the folder; or "".
std::string Trouble(const std::string& path) {
  if (path.front() != '/') return "is not an absolute path";
  const int made = mkdir(path.c_str(), kMode);
  const int error = errno;
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return absl::StrCat("cannot be made: ", std::strerror(made == 0 ? errno : error));
  }
  if (S_ISLNK(info.st_mode)) return "is a symbolic link";
  if (!S_ISDIR(info.st_mode)) return "is not a folder";
  if (info.st_uid != geteuid()) {
    return absl::StrCat("belongs to user ", info.st_uid, ", you are user ", geteuid());
  }
  if ((info.st_mode & 077) != 0) {
    return absl::StrFormat("can be used by others (mode %04o): chmod 700 %s", info.st_mode & 07777,
                           path);
  }
  return "";
}

// Whether the open folder still has this name.
bool IsAt(const std::string& path, int folder) {
  struct stat ours {};
  struct stat there {};
  return fstat(folder, &ours) == 0 && lstat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

}  // namespace

absl::StatusOr<std::string> StateHome() {
  const char* const named = std::getenv(kVariable);
  const bool is_named = named != nullptr && *named != '\0';
  std::string path = is_named ? std::string(named) : absl::StrCat("/tmp/ddprun-", geteuid());
  const std::string trouble = Trouble(path);
  if (trouble.empty()) return path;
  return absl::FailedPreconditionError(absl::StrCat(
      is_named ? absl::StrCat(kVariable, "=") : "", path, " ", trouble,
      "; in this folder ddprun keeps the files of your rendezvous on this host. Set ", kVariable,
      " to another folder, the same for all your ddprun processes on this host"));
}

std::string EndpointFolderPath(const std::string& state_home, const std::string& host, int port) {
  const bool own = host == "localhost" || host == "127.0.0.1" || host == "::1";
  const std::string name = absl::StrReplaceAll(own ? "localhost" : host, {{"/", "_"}});
  return absl::StrCat(state_home, "/", name, ":", port);
}

std::string TokenPath(const std::string& endpoint_folder) {
  return absl::StrCat(endpoint_folder, "/", kToken);
}

EndpointFolder::EndpointFolder(UniqueFd folder, std::string path)
    : folder_(std::move(folder)), path_(std::move(path)) {}

absl::StatusOr<EndpointFolder> EndpointFolder::Take(const std::string& host, int port) {
  const auto home = StateHome();
  if (!home.ok()) return home.status();
  std::string path = EndpointFolderPath(*home, host, port);
  const auto failed = [&](const char* what) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot ", what, " the folder ", path, ": ", std::strerror(errno)));
  };
  for (;;) {
    if (mkdir(path.c_str(), kMode) != 0 && errno != EEXIST) return failed("make");
    UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.valid() && errno == ENOENT) continue;  // removed by its earlier holder
    if (!folder.valid()) return failed("open");
    if (flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return failed("lock");
      return absl::AlreadyExistsError(absl::StrCat("another process holds the folder ", path));
    }
    if (IsAt(path, folder.get())) return EndpointFolder(std::move(folder), std::move(path));
  }
}

bool EndpointFolder::IsHeld(const std::string& host, int port) {
  const auto home = StateHome();
  if (!home.ok()) return false;
  const std::string path = EndpointFolderPath(*home, host, port);
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder.valid() && flock(folder.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

absl::Status EndpointFolder::WriteToken(const std::string& token) {
  const std::string line = absl::StrCat(token, "\n");
  unlinkat(folder_.get(), kNewToken, 0);  // of a daemon that was killed here
  const UniqueFd file(
      openat(folder_.get(), kNewToken, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  // So short a line is written as a whole, or the disk is full.
  if (!file.valid() ||
      write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      renameat(folder_.get(), kNewToken, folder_.get(), kToken) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", TokenPath(path_), ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void EndpointFolder::Remove() {
  unlinkat(folder_.get(), kToken, 0);
  if (IsAt(path_, folder_.get())) rmdir(path_.c_str());
}

}  // namespace ddprun
