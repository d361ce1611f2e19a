#include "rendezvous/auth/secret_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::auth {
namespace {

constexpr off_t kMaxBytes = 1 << 20;

// Whether systemd put the file into a folder for this service alone (LoadCredential=). The file's
// group may read it, but has no access to the folder.
bool IsServiceCredential(const std::string& path) {
  const char* const folder = std::getenv("CREDENTIALS_DIRECTORY");
  if (folder == nullptr || folder[0] != '/') return false;
  struct stat info {};
  // A folder open to others protects nothing, no matter who set the variable.
  if (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode) || (info.st_mode & 027) != 0) {
    return false;
  }
  if (info.st_uid != 0 && info.st_uid != geteuid()) return false;
  std::error_code error;
  const auto parent = std::filesystem::canonical(path, error).parent_path();
  return !error && parent == std::filesystem::canonical(folder, error) && !error;
}

// Whether the file is in a volume of secrets that kubelet made for this pod: in memory, owned by
// root, readable by the pod's fsGroup. Only the pod has the volume.
bool IsPodSecret(int file, const struct stat& info) {
  const char* const in_pod = std::getenv("KUBERNETES_SERVICE_HOST");
  struct statfs system {};
  return in_pod != nullptr && *in_pod != '\0' && info.st_uid == 0 && fstatfs(file, &system) == 0 &&
         system.f_type == TMPFS_MAGIC;
}

}  // namespace

absl::StatusOr<std::string> ReadCredentialFile(const std::string& what, const std::string& path,
                                               Readers readers) {
  // O_NONBLOCK: opening a FIFO would wait for its other end.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const auto failed = [&] { return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path)); };
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return failed();
  const auto refused = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(what, " ", path, ": ", why));
  };
  if (!S_ISREG(info.st_mode)) return refused("expected a regular file");
  if (readers == Readers::kOwner) {
    const bool group_may_read =
        (info.st_mode & 077) == 040 && (IsServiceCredential(path) || IsPodSecret(file.get(), info));
    if ((info.st_mode & 077) != 0 && !group_may_read) {
      return refused(absl::StrFormat("others than its owner may use it (mode %04o): chmod 600 %s",
                                     info.st_mode & 07777, path));
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
      return refused(absl::StrCat("it belongs to user ", info.st_uid, ", who can read it"));
    }
  }
  if (info.st_size > kMaxBytes) return refused("it is larger than 1 MiB");
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed();
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    if (static_cast<off_t>(text.size()) > kMaxBytes) return refused("it is larger than 1 MiB");
  }
}

}  // namespace ddprun::auth
