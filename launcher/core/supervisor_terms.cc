// Supervisor: which of several rendezvous it obeys.
#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "launcher/core/supervisor.h"
#include "rendezvous/core/words.h"

namespace ddprun {

bool Supervisor::Obeys(const Term& term, TimePoint now) {
  switch (contact_.StandingOf(term)) {
    case Contact::Standing::kPresent:
      break;
    case Contact::Standing::kLater:
      // No log line on an old session: there the same rendezvous continues under another term.
      if (!contact_.term().none() && !session_.heard) {
        Log(absl::StrCat("another rendezvous leads: term ", term.revision));
      }
      contact_.Adopt(term);
      break;
    case Contact::Standing::kPast:
      session_.outdated = !session_.heard;
      if (contact_.TellsOfPast()) {
        Log(absl::StrCat(
            term.none() ? "a rendezvous that is not one of several"
                        : absl::StrCat("a rendezvous that led before, term ", term.revision, ","),
            " is not obeyed: ",
            contact_.term().none()
                ? "the other rendezvous of --rdzv-endpoint cannot share its jobs; name this one "
                  "alone"
                : absl::StrCat("the leader has term ", contact_.newest().revision)));
      }
      return false;
    case Contact::Standing::kOtherCluster:
      OnOtherCluster(term, now);
      return false;
  }
  session_.outdated = false;
  return true;
}

// The rendezvous of the other cluster may have a record of this job that is older than the running
// workers of all nodes. So no worker of any node may run when this agent begins to obey it. This
// agent ends its workers, and joins anew only when its lease is over. The other agents do the same.
void Supervisor::OnOtherCluster(const Term& term, TimePoint now) {
  contact_.NoteOtherCluster(term);
  const TimePoint lease_end = contact_.LeaseEnd();
  switch (state_) {
    case SupervisorState::kJoining:
      if (now < lease_end) return;  // the answers to heartbeats ask again
      Log(absl::StrCat("this node joins anew, under term ", term.revision,
                       " of another etcd cluster"));
      contact_.Adopt(term);
      Introduce(now);
      break;
    case SupervisorState::kStopping:
      if (verdict_) break;  // the job is over
      [[fallthrough]];
    case SupervisorState::kSpawning:
    case SupervisorState::kRunning:
      Fence(absl::StrCat("the rendezvous answers from another etcd cluster than before (etcd was "
                         "restored from a backup, or replaced); this node joins anew in ",
                         TenthsOfSeconds(std::max(lease_end - now, Duration{})),
                         ", when its lease is over"),
            now);
      break;
    case SupervisorState::kLeaving:
      if (ending_.signo != SIGKILL) StopWorkers(SupervisorState::kLeaving, SIGKILL, now);
      break;
    default:
      break;  // Fenced: when the workers are gone
  }
}

}  // namespace ddprun
