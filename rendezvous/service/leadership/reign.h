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
  // Null: the rendezvous is alone. Not owned; outlives this object.
  explicit Reign(const Validity* validity) : validity_(validity), begun_(validity == nullptr) {}

  void Begin(const Term& term) {
    begun_ = true;
    term_ = term;
  }
  // The same reign goes on under a later term.
  void Change(const Term& term) { term_ = term; }
  void Lose() { lost_ = true; }
  // The other leader's "HOST:PORT"; "": not known.
  void SetLeader(std::string endpoint) { leader_ = std::move(endpoint); }

  // No term if the rendezvous is alone.
  const Term& term() const { return term_; }
  // Agents may have sessions, and the jobs continue.
  bool serves() const { return begun_ && !lost_; }
  bool lost() const { return lost_; }
  // The rendezvous does not lead yet: agents may open waiting sessions.
  bool stands_by() const { return !begun_ && !lost_; }

  // An error: why sessions are refused.
  absl::Status WhyClosed() const {
    if (lost_) {
      return absl::UnavailableError(
          "this rendezvous has lost the right to write the state of its jobs: another one has "
          "taken over");
    }
    if (begun_) return absl::OkStatus();
    return absl::UnavailableError(
        leader_.empty() ? "this rendezvous stands by: no leader is known yet"
                        : absl::StrCat("this rendezvous stands by: the leader is at ", leader_));
  }

  // An error: why operators and guardians are refused.
  absl::Status WhyNoAnswer() const {
    absl::Status why = WhyClosed();
    if (!why.ok() || validity_ == nullptr || validity_->Holds()) return why;
    return absl::UnavailableError(
        "this rendezvous leads, but etcd has not confirmed it for so long that another one may "
        "have taken over; it answers again once etcd does");
  }

 private:
  const Validity* const validity_;
  bool begun_;
  bool lost_ = false;
  Term term_;
  std::string leader_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_REIGN_H_
