// Contact: what an agent knows of its rendezvous over all sessions, and what follows from it: when
// its lease is over, when it says that it waits, when it gives up. Pure. docs/internals/leases.md
// has the rule of the lease.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_CONTACT_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_CONTACT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "launcher/core/supervisor_options.h"
#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// With the rendezvous. Replaced whole when one is opened or lost.
struct Session {
  bool open = false;
  bool joined = false;    // Join was sent on it
  bool heard = false;     // something came on it
  bool outdated = false;  // nothing but words of a rendezvous that leads no more
  TimePoint joined_at;    // when its first Join was sent
  TimePoint next_heartbeat;
  std::int64_t told_failures = 0;  // of checkpoints
};

class Contact {
 public:
  explicit Contact(SupervisorOptions options) : options_(std::move(options)) {}

  // The agent begins to connect.
  void Begin(TimePoint now) { lost_since_ = now; }
  // It is certain that the rendezvous, should it live, counts our lease from `at` or later.
  void Had(TimePoint at, TimePoint now);
  // A heartbeat that was sent at `sent_at` was answered.
  void Answered(TimePoint sent_at, TimePoint now);
  // A message came. Returns what a person is to be told of it; "": nothing.
  std::string Heard();
  // The session, or an attempt to open one, failed.
  void Failed(const std::string& why) { why_lost_ = why; }
  // A session on which something was heard is over.
  void Lost(TimePoint now) { lost_since_ = now; }

  // What a message under a term is.
  enum class Standing {
    kPresent,       // of the rendezvous that this agent obeys
    kLater,         // of one that has taken over: Adopt
    kPast,          // of one that leads no more, or was never one of several
    kOtherCluster,  // not to be compared: etcd is another cluster than before
  };
  Standing StandingOf(const Term& term) const;
  void Adopt(const Term& term);
  // The highest that was adopted; none: the rendezvous is alone, as far as is known.
  const Term& term() const { return term_; }
  // A refused connection tells nothing then: another rendezvous may lead.
  bool several() const { return options_.several || !term_.none(); }
  // Whether kPast is worth a line in the log: once in a term.
  bool TellsOfPast() { return !std::exchange(past_told_, true); }

  bool ever() const { return ever_; }
  TimePoint last() const { return last_; }
  // Of the last heartbeat that was answered; 0: none was.
  Duration round_trip() const { return round_trip_; }
  // Until then others may count on this node.
  TimePoint LeaseEnd() const { return last_ + options_.spec.lease; }
  TimePoint FenceAt() const;
  // When the guardian kills, where the agent did not.
  TimePoint BackstopAt() const;

  // While there is no session: when this agent gives up.
  TimePoint GiveUpAt() const;
  std::string WhyGivenUp(TimePoint now) const;
  // Likewise: when to log that nothing was heard yet. nullopt: something was, or it is logged.
  std::optional<TimePoint> WaitingNoteAt() const;
  std::string TakeWaitingNote();

 private:
  const SupervisorOptions options_;
  bool ever_ = false;  // something was heard
  bool waiting_noted_ = false;
  TimePoint lost_since_;  // the agent's start, or when the last session with a word ended
  std::string why_lost_;
  TimePoint last_{};  // the newest time that Had() was told
  Duration round_trip_{};
  Term term_;
  bool past_told_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_CONTACT_H_
