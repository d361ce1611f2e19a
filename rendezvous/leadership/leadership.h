// Leadership: whether this rendezvous leads, and until when it may acknowledge (send agents the
// answers that renew their leases). Pure: no I/O, no clock, no threads.
//
// Several rendezvous share an etcd. One leads; the others stand by. The leader is the process that
// wrote etcd's leader key last; the revision of that write is the leader's term.
// docs/internals/leases.md proves that two generations never run at once.
//
// The owner passes in the time: CLOCK_BOOTTIME, which goes on while the machine is suspended. It
// may carry out ReadLeader and Renew at the same time, also during a PutLeader. At most one
// PutLeader and one Renew are pending. The owner may skip a ReadLeader while another one is
// pending. The first Tick is due at once.
//
// Events that do not belong to the role are ignored; a test walks every role × event.
#ifndef DDPRUN_RENDEZVOUS_LEADERSHIP_LEADERSHIP_H_
#define DDPRUN_RENDEZVOUS_LEADERSHIP_LEADERSHIP_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"
#include "rendezvous/leadership/leader_record.h"
#include "rendezvous/leadership/peer_watch.h"
#include "rendezvous/leadership/takeover_pacing.h"

namespace ddprun {

class Leadership {
 public:
  struct Options {
    std::string id;        // of this process: random
    std::string endpoint;  // where agents and standbys reach it
    // A renewal lets the leader acknowledge for this long after it was sent.
    Duration validity = std::chrono::seconds(5);
    // A leader whose link was silent for this long counts as lost.
    Duration silence = std::chrono::milliseconds(600);
    // From the start of one renewal to the start of the next. A renewal itself has a shorter time
    // limit (LeaderKey::kLimit).
    Duration renew_every = std::chrono::milliseconds(500);
    // A standby reads the leader key this often, even if a watch reports its changes.
    Duration read_every = std::chrono::seconds(1);
    // The pause between two tries of a failed write, and between two reads of its result.
    Duration try_every = std::chrono::milliseconds(100);
    // No job has a longer lease.
    Duration longest_lease = std::chrono::minutes(1);
    // A leader that hands over waits at most this long until another one leads.
    Duration handover = std::chrono::seconds(1);
    // How many times in a row this process lost the term although it was alive. This is
    // StepDown::ousted from before the process executed its program again.
    int ousted = 0;
  };

  enum class Role {
    kStandby,     // another one leads, or nobody does, or it is not known yet
    kTakingOver,  // we have written the leader key, and do not know yet whether it is ours
    kLeading,     // the leader key is ours; valid_until() says whether we may acknowledge
    kResigning,   // we acknowledge no more, write the key a last time, and wait for a successor
    kOver,        // we have lost the lead, or were asked to end: this process serves no more
  };

  // ---- what happens ----

  // What etcd has under the leader key: from a read or from the watch. The read is linearizable: it
  // sees every write that ended before the read began.
  struct LeaderSeen {
    std::uint64_t cluster = 0;
    std::uint64_t revision = 0;  // the key's mod_revision: etcd's revision at the last write of the
                                 // key; 0: there is no key
    std::optional<LeaderRecord> record;  // nullopt: no key, or it holds no record
    // When the read was sent; nullopt: the watch has reported the record. A read that finds our
    // term is as good as a renewal.
    std::optional<TimePoint> sent_at = std::nullopt;
  };
  // `taken`: the key still had the revision `guard` of our PutLeader, and now holds our record.
  // Else another write was first (perhaps an earlier one of ours), or PutLeader wrote nothing.
  struct PutAnswered {
    bool taken = false;
    Term term{};          // taken: ours from now on
    TimePoint sent_at{};  // before its first byte was sent
  };
  // The write failed, or its result is unknown and it may still take effect. Then Leadership asks
  // for the key (ReadLeader).
  struct PutUnanswered {};
  struct RenewAnswered {
    Term found;  // etcd's cluster id, and the key's mod_revision, by a linearizable read
    TimePoint sent_at{};
    std::uint64_t revision = 0;  // of etcd at that read
  };
  struct RenewUnanswered {};
  // The process at `endpoint` (WatchPeer) has reported over the link that it leads and may
  // acknowledge (Leading::Role::kLeads), or that it leads and reads the jobs (kTakesUp). kStandsBy
  // and kSilenced count as silence, so they have no event.
  struct PeerHeard {
    std::string endpoint;
  };
  // The process at `endpoint` is gone: its host refuses connections. When a connection ends,
  // PeerLink first tries to connect again.
  struct PeerRefused {
    std::string endpoint;
  };
  // The process at `endpoint` hands over (Leading::Role::kHandsOver).
  struct PeerResigns {
    std::string endpoint;
  };
  // The store has found that another process now has the right to write.
  struct RightLost {};
  // The process is asked to end.
  struct EndAsked {};
  struct Tick {};
  using Event = std::variant<LeaderSeen, PutAnswered, PutUnanswered, RenewAnswered, RenewUnanswered,
                             PeerHeard, PeerRefused, PeerResigns, RightLost, EndAsked, Tick>;

  // ---- what the owner must do; only ReadLeader, PutLeader and Renew are answered by an event ----

  struct ReadLeader {  // → LeaderSeen. A failed read has no event; Leadership asks again.
    bool operator==(const ReadLeader&) const = default;
  };
  // Keep a link to this process (Follow), and close the earlier link; "": no link is needed.
  struct WatchPeer {
    std::string endpoint;
    bool operator==(const WatchPeer&) const = default;
  };
  // Write the leader key if its mod_revision is still `guard`. → PutAnswered | PutUnanswered. If
  // etcd has already answered as another cluster than `cluster`, write nothing, and answer that the
  // key is not taken.
  struct PutLeader {
    std::uint64_t guard = 0;
    LeaderRecord record;
    std::uint64_t cluster = 0;
    bool operator==(const PutLeader&) const = default;
  };
  struct Renew {  // → RenewAnswered | RenewUnanswered
    Term term;
    bool operator==(const Renew&) const = default;
  };
  // Load the job records under this term, and serve. No silent node loses its ranks before
  // `leases_from` plus one lease, because an earlier leader may have acknowledged its agent until
  // `leases_from`. Comes once. If the term changes while we lead, because the record is written
  // again, ChangeTerm comes.
  struct Lead {
    Term term;
    TimePoint leases_from;
    // Agents may run jobs, or newer generations, that etcd does not know, because etcd is new, or
    // was emptied or restored from a snapshot. So no group forms sooner than one lease after
    // `leases_from`.
    bool restored = false;
    bool operator==(const Lead&) const = default;
  };
  struct ChangeTerm {
    Term term;
    bool operator==(const ChangeTerm&) const = default;
  };
  // We may acknowledge until `at`. TimePoint(): not at all.
  struct SetValidUntil {
    TimePoint at;
    bool operator==(const SetValidUntil&) const = default;
  };
  // The role is kOver: serve no more. `resigned`: the process was asked to end. Else the process
  // executes its program again and stands by; it keeps only `ousted` (Options).
  struct StepDown {
    bool resigned = false;
    std::string why;
    int ousted = 0;
    bool operator==(const StepDown&) const = default;
  };
  struct Note {  // for the log
    std::string text;
    bool operator==(const Note&) const = default;
  };
  using Action = std::variant<ReadLeader, WatchPeer, PutLeader, Renew, Lead, ChangeTerm,
                              SetValidUntil, StepDown, Note>;

  explicit Leadership(Options options)
      : options_(std::move(options)), peer_(options_.silence), pacing_(options_.ousted) {}

  std::vector<Action> Step(const Event& event, TimePoint now);
  // When a Tick is due at the latest.
  TimePoint NextDeadline() const;

  Role role() const { return role_; }
  // The newest known term, ours or another leader's, and the record of that leader.
  const Term& term() const { return term_; }
  const std::optional<LeaderRecord>& leader() const { return leader_; }
  TimePoint valid_until() const { return valid_until_; }
  // True if we resign and a standby may take over now. That is so once our last write is in the
  // leader key, or its result is unknown. An earlier takeover would compete with our last write,
  // and etcd would refuse one of the two.
  bool hands_over() const {
    return role_ == Role::kResigning && (IsUnsettled() || (!put_ && leader_->resigned));
  }

 private:
  // Our write of the leader key, until its result is known.
  struct OwnPut {
    LeaderRecord record;
    bool in_flight = true;  // false: its result is unknown; the key is read
  };
  struct Renewals {
    bool in_flight = false;
    TimePoint next;
    bool failed = false;       // the newest renewal had no answer; this was logged
    bool expired = false;      // the validity has ended; this was logged
    std::uint64_t newest = 0;  // revision of etcd in an answer
  };
  // The takeover hold (leases.md). Not JobLife::hold_until.
  struct Hold {
    Duration inherited{};  // how long after the takeover earlier leaders may acknowledge
    TimePoint until;       // earlier leaders acknowledge nothing from then on
  };

  void On(const LeaderSeen& seen, TimePoint now);
  void On(const PutAnswered& answer, TimePoint now);
  void On(const PutUnanswered&, TimePoint now);
  void On(const RenewAnswered& answer, TimePoint now);
  void On(const RenewUnanswered&, TimePoint now);
  void On(const PeerHeard& heard, TimePoint now) { peer_.OnHeard(heard.endpoint, now); }
  void On(const PeerRefused& peer, TimePoint) { peer_.OnGone(peer.endpoint, PeerWatch::kRefused); }
  void On(const PeerResigns& peer, TimePoint) { peer_.OnGone(peer.endpoint, PeerWatch::kResigns); }
  void On(const RightLost&, TimePoint now);
  void On(const EndAsked&, TimePoint now);
  void On(const Tick&, TimePoint) {}

  bool ReadsTheKey() const;
  void ReadIfDue(TimePoint now);

  // ---- standby ----
  bool IsNews(const LeaderSeen& seen) const;
  bool IsStale(const LeaderSeen& seen) const;
  void Adopt(const LeaderSeen& seen, TimePoint now);
  // When this standby takes over, if it hears nothing else.
  TimePoint TakeoverAt(TimePoint now) const;
  std::string ReasonToTakeOver() const;
  void TakeOverIfDue(TimePoint now);
  // How long after a takeover earlier leaders may acknowledge: W of leases.md. For 1.1 × W after
  // the takeover no agent's lease ends, so no rank of a silent node is given away.
  Duration Inherited() const;
  void Remember(const LeaderRecord& record);
  // True if etcd surely knows every job and generation that agents run.
  bool IsComplete(TimePoint now) const;

  // ---- the leader key is ours, or is being written: leadership_owner.cc ----
  bool IsUnsettled() const { return put_ && !put_->in_flight; }
  void Put(LeaderRecord record, TimePoint now);
  void PutAgain(TimePoint now);
  // The key holds this record of ours. `valid_from`: when we sent the write, so the key got the
  // record at that time or later. nullopt: not known, so the record extends no validity.
  void Settle(const Term& term, LeaderRecord record, std::optional<TimePoint> valid_from,
              TimePoint now);
  void OnSeenByOwner(const LeaderSeen& seen, TimePoint now);
  void RenewIfDue(TimePoint now);
  // Writes a better record when it can: one after which the next leader waits for a shorter time.
  void ImproveIfDue(TimePoint now);
  void ResignIfDue(TimePoint now);
  void Extend(TimePoint valid_from, TimePoint now);
  // Another process leads, or may lead. `found`: what is in the key; `who`: its endpoint, or "".
  void LoseTo(const Term& found, const std::string& who, TimePoint now);
  void StepDownFor(std::string why, bool resigned, int ousted);
  LeaderRecord OwnRecord(Duration longest_validity, TimePoint now) const;

  void Say(Action action) { actions_.push_back(std::move(action)); }
  void Log(std::string text) { Say(Note{std::move(text)}); }

  const Options options_;
  Role role_ = Role::kStandby;
  bool began_ = false;
  bool known_ = false;  // the leader key has been read
  Term term_;
  std::optional<LeaderRecord> leader_;
  Duration longest_seen_{};  // validity in any record that was seen, of other clusters too
  TimePoint term_seen_at_;
  TimePoint next_read_;
  TimePoint next_put_;     // not before
  TimePoint takeover_at_;  // of a standby
  std::string reason_;     // why it takes over, as it was logged
  PeerWatch peer_;
  TakeoverPacing pacing_;
  std::optional<OwnPut> put_;
  // As leader:
  TimePoint valid_until_{};
  Renewals renewals_;
  Hold hold_;
  TimePoint resign_by_;
  std::vector<Action> actions_;  // of this Step
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_LEADERSHIP_LEADERSHIP_H_
