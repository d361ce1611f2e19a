#include "launcher/agent/port_offer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/log.h"

namespace ddprun {

int PortOffer::Offer(bool workers_running) {
  if (port_ && (workers_running || !used_)) return port_->port();
  auto port = PortHolder::Bind();
  if (!port.ok()) {
    LogWarning(absl::StrCat("no free port to offer: ", port.status().message()));
    return 0;
  }
  port_.emplace(*std::move(port));
  used_ = false;
  return port_->port();
}

std::optional<UniqueFd> PortOffer::Take(int port) {
  if (!port_ || port_->port() != port) return std::nullopt;
  return std::exchange(port_, std::nullopt)->Take();
}

}  // namespace ddprun
