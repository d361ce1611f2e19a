// PlaceRotation: at which of the places where the rendezvous may be the agent tries next, and when
// a denial is the last word. Pure.
//
// Each place is tried in turn until one says something, and that one from then on. Of several
// rendezvous that stand for one another none is kept: the one that leads is tried, and in turn with
// it the others, which may lead before that is known.
#ifndef DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_
#define DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_

#include <optional>

#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class PlaceRotation {
 public:
  // Places 0 to places − 1. `several`: there is a rendezvous at each.
  PlaceRotation(int places, bool several) : places_(places), several_(several) {}

  // The first attempt is about to begin.
  void Begin(TimePoint now) { begin_ = now; }

  int place() const { return place_; }

  // The rendezvous there has said something: it is there.
  void OnHeard() { heard_ = stays_ = true; }
  // Of several rendezvous the one at this place leads, and is tried next; nullopt: none does, as
  // far as known.
  void Lead(std::optional<int> place);
  bool leads() const { return leader_ == place_; }
  // An attempt there failed, or a session was lost. Makes it a denial, or no denial, by what came
  // before and what other places may say. `ours`: the rendezvous there is this agent's child, which
  // is waited for.
  void OnLost(bool ours, TimePoint now, RendezvousClient::Lost* lost);

 private:
  void GoOn();  // to the next place, of several

  const int places_;
  const bool several_;
  TimePoint begin_;
  int place_ = 0;
  std::optional<int> leader_;  // the place that leads
  bool stays_ = false;         // of several: the next attempt is here, too
  int in_turn_ = 0;            // the last one that was tried because it was its turn
  bool heard_ = false;
  int denials_ = 0;           // in a row
  int closed_after_tls_ = 0;  // attempts in a row that ended so
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_
