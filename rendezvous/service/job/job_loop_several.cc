// JobLoop: functions for a rendezvous that is one of several.
#include <utility>
#include <vector>

#include "rendezvous/service/job/job_loop.h"

namespace ddprun {

void JobLoop::Lead(const Takeover& takeover, std::vector<RecordedJob> recorded) {
  Tell([this, takeover, recorded = std::move(recorded)] {
    reign_.Begin(takeover.term);
    options_.machine.leases_from = takeover.leases_from;
    options_.machine.restored = takeover.restored;
    for (const RecordedJob& job : recorded) TakeUp(job);
    sessions_.EndWaiting(now_ + options_.time_to_join);
  });
}

void JobLoop::ChangeTerm(const Term& term) {
  Tell([this, term] { reign_.Change(term); });
}

// An empty event is enough: after any event the handler sends what waits.
void JobLoop::OnValidity() {
  Tell([] {});
}

void JobLoop::SetLeader(std::string endpoint) {
  Tell([this, endpoint = std::move(endpoint)] { reign_.SetLeader(endpoint); });
}

void JobLoop::LoseRight() {
  if (reign_.lost()) return;
  reign_.Lose();
  const absl::Status why = reign_.WhyClosed();
  options_.log("", std::string(why.message()));
  EndAll(why);
  if (options_.lost_right) options_.lost_right();
}

}  // namespace ddprun
