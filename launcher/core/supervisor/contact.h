// Contact: what an agent knows about its contact with the rendezvous, over all sessions. It gives
// the end of the lease, the time for a log line about waiting, and the time to give up. Pure.
// docs/internals/leases.md explains the lease.
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

// The session with the rendezvous. Replaced as a whole when a session is opened or lost.
struct Session {
  bool open = false;
  bool joined = false;          // Join was sent on it
  bool heard = false;           // a message that the agent obeys came on it
  bool outdated = false;        // only messages of a former leader came on it
  bool wants_standbys = false;  // Waiting::start_standbys came on it
  TimePoint joined_at;          // when its first Join was sent
  TimePoint next_heartbeat;
  std::int64_t told_failures = 0;  // failed checkpoints already reported on it
};

class Contact {
 public:
  explicit Contact(SupervisorOptions options) : options_(std::move(options)) {}

  // The agent starts connecting.
  void Begin(TimePoint now) { lost_since_ = now; }
  // The rendezvous, if alive, certainly counts this agent's lease from `at` or later.
  void Had(TimePoint at, TimePoint now);
  // The heartbeat sent at `sent_at` was answered.
  void Answered(TimePoint sent_at, TimePoint now);
  // A message came. Returns a log line about it, or "".
  std::string Heard();
  // The session failed, or an attempt to open it.
  void Failed(const std::string& why) { why_lost_ = why; }
  // A session with at least one message is over.
  void Lost(TimePoint now) { lost_since_ = now; }

  // How a message's term compares with this agent's.
  enum class Standing {
    kPresent,       // the term that this agent obeys
    kLater,         // of a rendezvous that has taken over: call Adopt
    kPast,          // of a former leader, in this cluster or the other; or no term, if several()
    kOtherCluster,  // not comparable: from another etcd cluster
  };
  Standing StandingOf(const Term& term) const;
  void Adopt(const Term& term);
  // A message with this term of another cluster came. The agent does not obey it yet, but from now
  // on it ignores lower terms of that cluster.
  void NoteOtherCluster(const Term& term) { other_ = term; }
  // The term adopted last. Without a term, the rendezvous is not known to be one of several.
  const Term& term() const { return term_; }
  // The highest term in any message. If another cluster was heard: the highest of that cluster.
  const Term& newest() const { return other_.none() ? term_ : other_; }
  // If true, another rendezvous may lead although one refuses the connection.
  bool several() const { return options_.several || !term_.none(); }
  // True if kPast should be logged: once in each term.
  bool TellsOfPast() { return !std::exchange(past_told_, true); }

  bool ever() const { return ever_; }
  TimePoint last() const { return last_; }
  // Of the last answered heartbeat; 0: none was answered.
  Duration round_trip() const { return round_trip_; }
  // Until then the rendezvous certainly keeps this node's ranks.
  TimePoint LeaseEnd() const { return last_ + options_.spec.lease; }
  TimePoint FenceAt() const;
  // When the guardian kills the workers, if the agent has not.
  TimePoint BackstopAt() const;

  // Without a session: when this agent gives up. nullopt before Begin().
  std::optional<TimePoint> GiveUpAt() const;
  std::string WhyGivenUp(TimePoint now) const;
  // Without a session: when to log that no message has come yet. nullopt: a message has come, the
  // line was logged, or it is before Begin().
  std::optional<TimePoint> WaitingNoteAt() const;
  std::string TakeWaitingNote();

 private:
  const SupervisorOptions options_;
  bool ever_ = false;  // a message has come
  bool waiting_noted_ = false;
  std::optional<TimePoint> lost_since_;  // the time of the last Begin() or Lost()
  std::string why_lost_;
  TimePoint last_{};  // the newest time given to Had()
  Duration round_trip_{};
  Term term_;
  Term other_;  // the highest term heard of another cluster since the last Adopt
  bool past_told_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_CONTACT_H_
