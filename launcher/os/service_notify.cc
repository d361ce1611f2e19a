#include "launcher/os/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

absl::Status ServiceNotify(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || path[0] == '\0') return absl::OkStatus();
  const auto failed = [&](int error) {
    return absl::UnavailableError(absl::StrCat("cannot notify the service manager at ", path, ": ",
                                               std::generic_category().message(error)));
  };
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::size_t size = std::strlen(path);
  if ((path[0] != '/' && path[0] != '@') || size >= sizeof name.sun_path) return failed(EINVAL);
  std::memcpy(name.sun_path, path, size);
  if (path[0] == '@') name.sun_path[0] = '\0';  // abstract namespace
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return failed(errno);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  const ssize_t sent = sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                              reinterpret_cast<const sockaddr*>(&name), length);
  return sent < 0 ? failed(errno) : absl::OkStatus();
}

absl::Status ServiceNotifyReloaded() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t microseconds = now.tv_sec * std::int64_t{1'000'000} + now.tv_nsec / 1000;
  const absl::Status status =
      ServiceNotify(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", microseconds));
  return status.ok() ? ServiceNotify("READY=1") : status;
}

}  // namespace ddprun
