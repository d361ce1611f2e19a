// Tells the service manager how we are, where it asked for that (systemd's Type=notify): one
// datagram to the Unix socket that $NOTIFY_SOCKET names. Does nothing where there is none.
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

// `state`: lines of KEY=VALUE. The error says why the manager was not told; it names the socket.
absl::Status ServiceNotify(std::string_view state);

// For SIGHUP, which units with Type=notify-reload wait for: "RELOADING=1" with the time, then
// READY=1.
absl::Status ServiceNotifyReloaded();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_SERVICE_NOTIFY_H_
