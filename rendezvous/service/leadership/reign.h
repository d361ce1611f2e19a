// Reign: whether a rendezvous serves its jobs now, and under which term.
//
// One that is alone serves from its start. One of several stands by until it leads, and serves
// once: after it has lost the right to write, it never does again.
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
  // Where another one leads, "HOST:PORT"; "": not known.
  void SetLeader(std::string endpoint) { leader_ = std::move(endpoint); }

  // None where the rendezvous is alone.
  const Term& term() const { return term_; }
  // Agents may have sessions, and the jobs go on.
  bool serves() const { return begun_ && !lost_; }
  bool lost() const { return lost_; }
  // Not yet: agents may open sessions that wait for it.
  bool stands_by() const { return !begun_ && !lost_; }

  // Not OK: sessions are refused, and why.
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

  // Not OK: operators and guardians are refused, and why.
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
