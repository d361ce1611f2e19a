// PlaceRotation: at which of the places where the rendezvous may be the agent tries next, and when
// a denial is the last word. Pure.
//
// Each place is tried in turn until one says something, and that one from then on.
#ifndef DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_
#define DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_

#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class PlaceRotation {
 public:
  // Places 0 to places − 1.
  explicit PlaceRotation(int places) : places_(places) {}

  // The first attempt is about to begin.
  void Begin(TimePoint now) { begin_ = now; }

  int place() const { return place_; }

  // The rendezvous there has said something: it is there.
  void OnHeard() { heard_ = true; }
  // An attempt there failed, or a session was lost. Makes it a denial, or no denial, by what came
  // before and what other places may say. `ours`: the rendezvous there is this agent's child, which
  // is waited for.
  void OnLost(bool ours, TimePoint now, RendezvousClient::Lost* lost);

 private:
  const int places_;
  TimePoint begin_;
  int place_ = 0;
  bool heard_ = false;
  int denials_ = 0;           // in a row
  int closed_after_tls_ = 0;  // attempts in a row that ended so
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_PLACE_ROTATION_H_
