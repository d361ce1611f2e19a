// Leadership: whether this rendezvous leads, and until when it may speak. Pure.
//
// Several rendezvous share an etcd. One leads; the others stand by. The leader is whoever wrote
// etcd's leader key last; the revision of that write is its term. docs/internals/leases.md proves
// that two generations never run at once.
//
// The owner passes in the time: CLOCK_BOOTTIME, which goes on while the machine is suspended.
// Illegal events are impossible or ignored; a test walks every role × event.
#ifndef DDPRUN_RENDEZVOUS_LEADERSHIP_LEADERSHIP_H_
#define DDPRUN_RENDEZVOUS_LEADERSHIP_LEADERSHIP_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"
#include "rendezvous/leadership/leader_record.h"

namespace ddprun {

class Leadership {
 public:
  struct Options {
    std::string id;        // of this process: random
    std::string endpoint;  // where agents and standbys reach it
    Duration validity = std::chrono::seconds(5);
    // A leader that has been silent for so long on its link is taken for lost.
    Duration silence = std::chrono::milliseconds(600);
    // A renewal begins so long after the one before began; one takes at most as long.
    Duration renew_every = std::chrono::milliseconds(500);
    // For the first look at the leader key, and where nothing else tells of a change.
    Duration read_every = std::chrono::seconds(1);
  };

  enum class Role {
    kStandby,     // another one leads, or nobody does, or it is not known yet
    kTakingOver,  // our write of the leader key is under way, or its answer was lost
    kLeading,     // the leader key is ours; whether we may acknowledge, ValidUntil says
    kResigning,   // we acknowledge no more, and our last write of the key is under way
    kOver,        // another one leads, or we have resigned: this process serves no more
  };

  // ---- what happens ----

  // What etcd has under the leader key: from a read (linearizable) or from the watch.
  struct LeaderSeen {
    std::uint64_t cluster = 0;
    std::uint64_t revision = 0;          // the key's mod_revision; 0: there is no key
    std::optional<LeaderRecord> record;  // nullopt: no key
  };
  // Our write was the first since the revision that guarded it (`taken`), or another one's was.
  struct PutAnswered {
    bool taken = false;
    Term term{};          // taken: ours from now on
    TimePoint sent_at{};  // before its first byte was sent
  };
  // Nobody knows whether it was written: the key must be read.
  struct PutUnanswered {};
  struct RenewAnswered {
    bool ours = false;  // the key's mod_revision is still our term's
    TimePoint sent_at{};
  };
  struct RenewUnanswered {};
  // The link to the process at `endpoint` (WatchPeer). Heard: it says that it leads or stands by.
  struct PeerHeard {
    std::string endpoint;
  };
  // Its process is gone: the connection ended or was refused, though its host answers.
  struct PeerRefused {
    std::string endpoint;
  };
  // It hands over (role 3 of `Leading`).
  struct PeerResigns {
    std::string endpoint;
  };
  // The durable state says that another one writes in our place.
  struct RightLost {};
  // The process is asked to end.
  struct EndAsked {};
  struct Tick {};
  using Event = std::variant<LeaderSeen, PutAnswered, PutUnanswered, RenewAnswered, RenewUnanswered,
                             PeerHeard, PeerRefused, PeerResigns, RightLost, EndAsked, Tick>;

  // ---- what is to be done; each is answered by its event ----

  struct ReadLeader {  // → LeaderSeen; a read that fails is told by nothing: it is asked for again
    bool operator==(const ReadLeader&) const = default;
  };
  // Keep a link to this process (Follow), in place of the one before; "": none is needed.
  struct WatchPeer {
    std::string endpoint;
    bool operator==(const WatchPeer&) const = default;
  };
  // Write the leader key if its mod_revision is still `guard`. → PutAnswered | PutUnanswered
  struct PutLeader {
    std::uint64_t guard = 0;
    LeaderRecord record;
    bool operator==(const PutLeader&) const = default;
  };
  struct Renew {  // → RenewAnswered | RenewUnanswered
    Term term;
    bool operator==(const Renew&) const = default;
  };
  // Load the durable state under this term, and serve. A rank that an earlier leader may have
  // confirmed is given away no sooner than one lease after `leases_from`. Comes once; where the
  // term changes later, as Vmax is lowered, ChangeTerm comes.
  struct Lead {
    Term term;
    TimePoint leases_from;
    bool operator==(const Lead&) const = default;
  };
  struct ChangeTerm {
    Term term;
    bool operator==(const ChangeTerm&) const = default;
  };
  // We may acknowledge until then. An earlier time takes back what was said.
  struct SetValidUntil {
    TimePoint at;
    bool operator==(const SetValidUntil&) const = default;
  };
  // kOver: serve no more. `resigned`: as we were asked to.
  struct StepDown {
    bool resigned = false;
    std::string why;
    bool operator==(const StepDown&) const = default;
  };
  struct Note {  // for the log
    std::string text;
    bool operator==(const Note&) const = default;
  };
  using Action =
      std::variant<ReadLeader, WatchPeer, PutLeader, Renew, Lead, ChangeTerm, SetValidUntil, StepDown, Note>;

  explicit Leadership(Options options) : options_(std::move(options)) {}

  std::vector<Action> Step(const Event& event, TimePoint now);
  // When a Tick is due at the latest.
  TimePoint NextDeadline() const;

  Role role() const { return role_; }
  // The newest term that is known, ours or another one's; and who has it.
  const Term& term() const { return term_; }
  const std::optional<LeaderRecord>& leader() const { return leader_; }
  TimePoint valid_until() const { return valid_until_; }

 private:
  const Options options_;
  Role role_ = Role::kStandby;
  Term term_;
  std::optional<LeaderRecord> leader_;
  TimePoint valid_until_{};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_LEADERSHIP_LEADERSHIP_H_
