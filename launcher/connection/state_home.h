// The state home: the folder in which the daemons of one user on this host keep their files, with
// one folder for each endpoint.
//
// The state home is /tmp/ddprun-UID, or the folder that DDPRUN_STATE_HOME names. It must be the
// same for all processes of a user: XDG_RUNTIME_DIR ends at logout and differs between sessions,
// TMPDIR differs too, and HOME is often on a file server. A folder that others can use, or a
// symbolic link, is refused.
//
// A daemon holds the folder of its endpoint with flock(2) on the folder itself. So no second daemon
// takes the folder, and systemd-tmpfiles, which removes old files from /tmp, does not touch it.
//
// Any thread; may block on the disk. Errors are sentences for people that name the folder.
#ifndef DDPRUN_LAUNCHER_CONNECTION_STATE_HOME_H_
#define DDPRUN_LAUNCHER_CONNECTION_STATE_HOME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

// Makes the state home if it is missing, mode 0700. FailedPrecondition: the folder is not this
// user's alone, or cannot be made.
absl::StatusOr<std::string> StateHome();

// The folder of an endpoint in the state home; it need not exist. localhost, 127.0.0.1 and ::1 are
// names of one endpoint. `host` is without brackets.
std::string EndpointFolderPath(const std::string& state_home, const std::string& host, int port);

// The file in it with the daemon's token, if no credentials were given; rendezvous/auth/tokens.h
// reads it.
std::string TokenPath(const std::string& endpoint_folder);

// The folder of one endpoint, held by this process.
class EndpointFolder {
 public:
  // Makes the folder if it is missing, and takes it. Files of an earlier daemon are still in it.
  // AlreadyExists: another process has it. FailedPrecondition: as StateHome.
  static absl::StatusOr<EndpointFolder> Take(const std::string& host, int port);
  // True if a daemon of this user has the folder, even if it does not answer. IsHeld() itself locks
  // the folder for a moment; a Take() in that moment fails with AlreadyExists.
  static bool IsHeld(const std::string& host, int port);
  // The destructor gives the folder back, and leaves its files in it.
  EndpointFolder(EndpointFolder&&) = default;

  const std::string& path() const { return path_; }

  // Sets the token of this endpoint, atomically: a reader sees the old or the new token. The file
  // is for this user only (0600).
  absl::Status WriteToken(const std::string& token);

  // Removes the token, and the folder unless a file is left in it.
  void Remove();

 private:
  EndpointFolder(UniqueFd folder, std::string path);

  UniqueFd folder_;  // with the lock
  std::string path_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_STATE_HOME_H_
