#include "launcher/connection/place_rotation.h"

#include <chrono>
#include <utility>

namespace ddprun {
namespace {

// A rendezvous that denies us may belong to an earlier job with other credentials, and be about to
// end.
constexpr std::chrono::milliseconds kPatience{500};
constexpr int kClosedOften = 3;

}  // namespace

void PlaceRotation::OnLost(bool ours, TimePoint now, RendezvousClient::Lost* lost) {
  closed_after_tls_ = lost->closed_after_tls ? closed_after_tls_ + 1 : 0;
  if (closed_after_tls_ >= kClosedOften) lost->denied = true;
  if (now < begin_ + kPatience) lost->denied = false;
  if ((heard_ && !several_) || (lost->denied && lost->denied_everywhere)) return;
  // Before any rendezvous was heard, another place may be the right one.
  denials_ = lost->denied ? denials_ + 1 : 0;
  lost->denied = denials_ >= places_;
  if (several_) return GoOn();
  // If every place would deny us, this place is tried again, and then the denial is final.
  if (!ours && !lost->denied_everywhere) place_ = (place_ + 1) % places_;
}

void PlaceRotation::Skip() {
  if (!heard_ && !several_) place_ = (place_ + 1) % places_;
}

void PlaceRotation::Lead(std::optional<int> place) {
  leader_ = place;
  if (!place) return;
  place_ = *place;
  stays_ = true;
}

void PlaceRotation::GoOn() {
  if (std::exchange(stays_, false) && (!leader_ || leader_ == place_)) return;
  if (leader_ && leader_ != place_) {
    place_ = *leader_;
    return;
  }
  do {
    in_turn_ = (in_turn_ + 1) % places_;
  } while (in_turn_ == place_ && places_ > 1);
  place_ = in_turn_;
}

}  // namespace ddprun
