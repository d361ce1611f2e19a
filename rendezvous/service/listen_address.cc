#include "rendezvous/service/listen_address.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "rendezvous/service/errno_text.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

int UnixSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  ListenAddress address;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    address.path = std::string(rest);
    if (address.path.empty()) return absl::InvalidArgumentError("unix: has no path");
    return address;
  }
  const auto malformed = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not HOST:PORT, [IPV6]:PORT or unix:/path"));
  };
  const std::size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return malformed();
  if (!absl::SimpleAtoi(rest.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return malformed();
  }
  absl::string_view host = rest.substr(0, colon);
  const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  if (host.empty() || (!bracketed && host.find_first_of("[]:") != absl::string_view::npos)) {
    return malformed();
  }
  address.host = std::string(host);
  return address;
}

absl::Status TryListenUnix(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) {
    return absl::UnavailableError(absl::StrCat("the path has ", path.size(), " bytes, at most ",
                                               sizeof name.sun_path - 1, " are possible"));
  }
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&name);
  // gRPC would take the path away from a process that listens on it.
  const UniqueFd client(UnixSocket());
  if (connect(client.get(), generic, sizeof name) == 0) {
    return absl::AlreadyExistsError(ErrnoText(EADDRINUSE));
  }
  if (errno == ECONNREFUSED) return absl::OkStatus();  // a stale file, which gRPC replaces
  const UniqueFd server(UnixSocket());
  if (bind(server.get(), generic, sizeof name) != 0)
    return absl::UnavailableError(ErrnoText(errno));
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace ddprun
