// Viewer: who requests a page, and what the viewer may see. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_ACCESS_VIEWER_H_
#define DDPRUN_RENDEZVOUS_HTTP_ACCESS_VIEWER_H_

#include <string>

#include "rendezvous/http/access/session_end.h"

namespace ddprun::http {

struct Viewer {
  enum class Kind {
    kStranger,   // no valid credential, and no neighbour
    kNeighbour,  // no valid credential, from this host; the page is not private
    kScraper,    // has a token to read metrics
    kSignedIn,   // has a session
  };
  Kind kind = Kind::kStranger;
  std::string owner{};  // of kScraper and kSignedIn: owner of the visible jobs; empty: all jobs
  SessionEnd until{};   // when the session ends
  std::string csrf{};   // of the session

  bool signed_in() const { return kind == Kind::kSignedIn; }
  // True: sees states, but no host names, commands, reasons or workers' output.
  bool redacted() const { return kind == Kind::kNeighbour; }
};

// The access that a route requires.
enum class Needs {
  kNothing,  // the page itself, sign-in, health and readiness
  kStates,   // states of jobs; redacted for a neighbour
  kMetrics,  // the same, also for scrapers
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
