#include "rendezvous/service/listen_address.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "worker/contract/limits.h"

namespace ddprun {

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
      address.port > kMaxPort) {
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

}  // namespace ddprun
