// Who looks at the page, and what that allows. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_ACCESS_VIEWER_H_
#define DDPRUN_RENDEZVOUS_HTTP_ACCESS_VIEWER_H_

#include <string>

#include "rendezvous/core/types.h"

namespace ddprun::http {

struct Viewer {
  enum class Kind {
    kStranger,   // has shown nothing, and is elsewhere; or the page is private
    kNeighbour,  // has shown nothing, and is on this host
    kScraper,    // has a token to read metrics
    kSignedIn,   // has a session
  };
  Kind kind = Kind::kStranger;
  std::string owner{};  // of kScraper and kSignedIn: whose jobs he sees; empty: everybody's
  SessionEnd until{};   // when the session ends
  std::string csrf{};   // of the session

  bool signed_in() const { return kind == Kind::kSignedIn; }
  // Sees states, without a host name, a command, a reason or a line of a worker.
  bool redacted() const { return kind == Kind::kNeighbour; }
};

// What a route asks for.
enum class Needs {
  kNothing,  // the page itself, whether the daemon is there
  kStates,   // of jobs; redacted for a neighbour
  kMetrics,  // the same, and for scrapers
  kOwner,    // logs, stacks, actions
};

constexpr bool MayUse(const Viewer& viewer, Needs needs) {
  switch (needs) {
    case Needs::kNothing:
      return true;
    case Needs::kStates:
      return viewer.kind == Viewer::Kind::kSignedIn || viewer.kind == Viewer::Kind::kNeighbour;
    case Needs::kMetrics:
      return viewer.kind != Viewer::Kind::kStranger;
    case Needs::kOwner:
      return viewer.kind == Viewer::Kind::kSignedIn;
  }
  return false;
}

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_ACCESS_VIEWER_H_
