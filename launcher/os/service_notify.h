// Tells the service manager the state of this process (systemd's Type=notify): one datagram to the
// Unix socket in $NOTIFY_SOCKET. Does nothing if the variable is not set.
//
//     ServiceNotify("READY=1\nSTATUS=listening on 10.0.0.1:29400");
//     ServiceNotify("STOPPING=1");
//
// Any thread; does not block.
#ifndef DDPRUN_LAUNCHER_OS_SERVICE_NOTIFY_H_
#define DDPRUN_LAUNCHER_OS_SERVICE_NOTIFY_H_

#include <string_view>

#include "absl/status/status.h"

namespace ddprun {

// `state`: lines of KEY=VALUE. The error names the socket and the reason.
absl::Status ServiceNotify(std::string_view state);

// Answers SIGHUP for units with Type=notify-reload: sends "RELOADING=1" with the time, then
// READY=1.
absl::Status ServiceNotifyReloaded();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_SERVICE_NOTIFY_H_
