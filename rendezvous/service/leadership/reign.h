// Reign: whether a rendezvous serves its jobs now, and under which term.
//
// A rendezvous that is alone serves from its start. One of several stands by until it leads. It
// serves at most once: after it has lost the right to write, it never serves again.
//
// Owned by JobLoop; from within it only, by one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_REIGN_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_REIGN_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/term.h"
#include "rendezvous/service/leadership/validity.h"

namespace ddprun {

class Reign {
 public:
  // `validity` is null if the rendezvous is alone. Not owned; outlives this object.
  explicit Reign(const Validity* validity)
      : validity_(validity), now_{.begun = validity == nullptr} {}

  // Begins the reign under `term`. If Change() has already set a later term of the same etcd
  // cluster, while the jobs were read, that term stays. A reign that was lost does not begin again.
  void Begin(const Term& term) {
    if (now_.lost) return;
    const bool changed = now_.term.cluster == term.cluster && now_.term.revision > term.revision;
    now_ = {.begun = true, .lost = false, .term = changed ? now_.term : term, .leader = ""};
  }
  // The same reign goes on under a later term.
  void Change(const Term& term) { now_.term = term; }
  void Lose() { now_.lost = true; }
  // The other leader's "HOST:PORT"; "": not known.
  void SetLeader(std::string endpoint) { now_.leader = std::move(endpoint); }

  // No term if the rendezvous is alone.
  const Term& term() const { return now_.term; }
  // Agents may have sessions, and the jobs continue.
  bool serves() const { return now_.begun && !now_.lost; }
  bool lost() const { return now_.lost; }
  // The rendezvous does not lead yet: agents may open waiting sessions.
  bool stands_by() const { return !now_.begun && !now_.lost; }

  // OK, or an error that says why sessions are refused.
  absl::Status WhyClosed() const {
    if (now_.lost) {
      return absl::UnavailableError(
          "this rendezvous has lost the right to write the state of its jobs: another one has "
          "taken over");
    }
    if (now_.begun) return absl::OkStatus();
    return absl::UnavailableError(
        now_.leader.empty()
            ? "this rendezvous stands by: no leader is known yet"
            : absl::StrCat("this rendezvous stands by: the leader is at ", now_.leader));
  }

  // OK, or an error that says why no operator or guardian is answered now.
  absl::Status WhyNoAnswer() const {
    absl::Status why = WhyClosed();
    if (!why.ok() || validity_ == nullptr || validity_->Holds()) return why;
    return absl::UnavailableError(
        "this rendezvous leads, but etcd has not confirmed it for so long that another one may "
        "have taken over; it answers again once etcd does");
  }

 private:
  struct State {
    bool begun = false;
    bool lost = false;
    Term term{};
    std::string leader{};  // endpoint of the other leader
  };

  const Validity* const validity_;
  State now_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_REIGN_H_
