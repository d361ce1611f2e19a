// PlaceRotation: decides which place of the rendezvous the agent tries next, and when a denial is
// final. Pure.
//
// Each place is tried in turn until a rendezvous at one of them sends a message. From then on only
// this place is tried. With several rendezvous no place is kept: attempts alternate between the
// known leader and the other places, because another rendezvous may lead already.
#ifndef DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_
#define DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_

#include <optional>

#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class PlaceRotation {
 public:
  // Places 0 to places − 1. `several`: a rendezvous runs at each place.
  PlaceRotation(int places, bool several) : places_(places), several_(several) {}

  // The first attempt is about to begin.
  void Begin(TimePoint now) { begin_ = now; }

  int place() const { return place_; }

  // The rendezvous at the present place has sent a message.
  void OnHeard() { heard_ = stays_ = true; }
  // With several rendezvous: the one at this place leads, and is tried next. nullopt: none leads,
  // as far as known.
  void Lead(std::optional<int> place);
  bool leads() const { return leader_ == place_; }
  // An attempt at the present place failed, or its session was lost. Decides whether `lost` is a
  // final denial, from earlier attempts and the untried places. `ours`: the rendezvous there is
  // this agent's child, and the agent waits for it.
  void OnLost(bool ours, TimePoint now, RendezvousClient::Lost* lost);
  // No rendezvous can run at the present place, so the next place is tried. Only while no
  // rendezvous was heard, and not with several rendezvous.
  void Skip();

 private:
  void GoOn();  // to the next place, of several

  const int places_;
  const bool several_;
  TimePoint begin_;
  int place_ = 0;
  std::optional<int> leader_;  // the place that leads
  bool stays_ = false;         // with several: the next attempt is here, too
  int in_turn_ = 0;            // the last place that was tried in turn
  bool heard_ = false;
  int denials_ = 0;           // in a row
  int closed_after_tls_ = 0;  // attempts in a row that lost with closed_after_tls
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_
