// MeetingSearch: how an agent finds the leading rendezvous through etcd, and when it starts one.
// Pure.
//
// While the rendezvous answers the agent, the agent does not ask etcd. Otherwise it reads two keys
// repeatedly. The leader key names the rendezvous. The start key decides which agent starts the
// next one. If there is no leader, or the leader does not answer, an agent writes its name to the
// start key: it claims the start. This write is guarded by the revision that the agent has read. A
// claim that is newer than the leader key is valid for kClaimLasts. During this time the other
// agents wait for the rendezvous that the claimant starts.
//
// A start that was not needed does no harm: that rendezvous stands by, and ends.
#ifndef DDPRUN_LAUNCHER_CONNECTION_ETCD_MEETING_SEARCH_H_
#define DDPRUN_LAUNCHER_CONNECTION_ETCD_MEETING_SEARCH_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "rendezvous/core/types.h"

namespace ddprun {

class MeetingSearch {
 public:
  // The content of both keys at one moment.
  struct Seen {
    std::uint64_t leader_revision = 0;  // of the leader key; 0: there is none
    std::string endpoint;               // of the leading rendezvous; "": nobody leads
    std::uint64_t claim_revision = 0;   // of the start key; 0: there is none
    std::string claimant;               // who wrote it

    bool operator==(const Seen&) const = default;
  };
  enum class Next {
    kWait,
    kClaim,  // write the start key, guarded by seen().claim_revision; then read again
    kStart,  // the claim is ours: start a rendezvous
  };

  // The rendezvous answers every heartbeat. After this much silence it may be gone.
  static constexpr std::chrono::seconds kSilence{1};
  // The same for a rendezvous that was not heard yet: it may be busy with thousands of agents.
  static constexpr std::chrono::seconds kFirstWord{5};
  static constexpr std::chrono::seconds kClaimLasts{3};
  // The pause between two reads. It is kReadOften while a session is silent, and for kOften after
  // the loss of a session or a change of the leader: a rendezvous is probably starting. Otherwise
  // it is kReadSeldom.
  static constexpr std::chrono::milliseconds kReadOften{150};
  static constexpr std::chrono::seconds kReadSeldom{1};
  static constexpr std::chrono::seconds kOften{3};

  // `claimant`: a unique name of this agent. Without `may_start` it never claims.
  MeetingSearch(std::string claimant, bool may_start, TimePoint now)
      : claimant_(std::move(claimant)), may_start_(may_start), silent_since_(now) {}

  // When to read the keys next, if no event comes before.
  TimePoint NextRead() const;
  void OnReadBegan(TimePoint now) { last_read_ = now; }
  // `running`: a rendezvous started by this agent runs.
  Next OnSeen(const Seen& seen, bool running, TimePoint now);

  // The leading rendezvous has sent a message.
  void OnHeard(TimePoint now);
  // The session with it, or an attempt, has ended. `refused`: nobody listens there.
  void OnLost(bool refused, TimePoint now);

  // The newest read.
  const Seen& seen() const { return seen_; }
  const std::string& claimant() const { return claimant_; }

 private:
  // Whether a rendezvous is needed, as far as this agent can tell.
  bool IsMissing(TimePoint now) const;

  const std::string claimant_;
  const bool may_start_;
  Seen seen_;
  bool hears_ = false;         // there is a session with at least one message
  bool heard_leader_ = false;  // the present leader has sent a message
  bool refused_ = false;       // nobody listened at the present leader's endpoint
  TimePoint silent_since_;     // the newest message, loss of a session, or change of the leader
  TimePoint last_read_{};
  TimePoint claim_seen_at_{};
  std::uint64_t started_for_ = 0;  // the claim for which we started a rendezvous
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_ETCD_MEETING_SEARCH_H_
