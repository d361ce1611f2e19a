#include "launcher/connection/place_rotation.h"

#include <chrono>

namespace ddprun {
namespace {

// The rendezvous that denies us may be that of an earlier job, with other credentials, and about to
// end.
constexpr std::chrono::milliseconds kPatience{500};
constexpr int kClosedOften = 3;

}  // namespace

void PlaceRotation::OnLost(bool ours, TimePoint now, RendezvousClient::Lost* lost) {
  closed_after_tls_ = lost->closed_after_tls ? closed_after_tls_ + 1 : 0;
  if (closed_after_tls_ >= kClosedOften) lost->denied = true;
  if (now < begin_ + kPatience) lost->denied = false;
  if (heard_ || (lost->denied && lost->denied_everywhere)) return;
  // Before anybody was heard, another place may be the right one.
  denials_ = lost->denied ? denials_ + 1 : 0;
  lost->denied = denials_ >= places_;
  // What is denied everywhere is heard once more here, and then it is the last word.
  if (!ours && !lost->denied_everywhere) place_ = (place_ + 1) % places_;
}

}  // namespace ddprun
