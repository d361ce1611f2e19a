// Round: forms the group of one job, again and again, and decides when the job is over.
//
// A pure state machine. It does no I/O, reads no clock and owns no thread: an event and the time go
// in, messages to agents come out. The same events at the same times give the same messages. Its
// owner (rendezvous/service) calls it from one thread.
//
//     Gathering ──▶ LastCall ──▶ Forming ──▶ Running ──▶ Succeeded
//      ▲  ▲  └──────────────────────▲ │          │
//      │  └───────────────────────────┘          ▼
//      └── Backoff ◀───────────────────────── Draining ──▶ Failed
//
// docs/architecture.md has the diagram with every event.
#ifndef DDPRUN_RENDEZVOUS_CORE_ROUND_H_
#define DDPRUN_RENDEZVOUS_CORE_ROUND_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/restart_governor.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/types.h"

namespace ddprun {

enum class RoundState {
  kGathering,
  kLastCall,
  kForming,
  kRunning,
  kDraining,
  kBackoff,
  kSucceeded,
  kFailed
};
const char* ToString(RoundState state);

struct RoundOptions {
  // A node that was not heard for this long is lost. nullopt: never, for a rendezvous that lives
  // and stops (Ctrl-Z) in the same process as its only agent.
  std::optional<Duration> lease = std::chrono::seconds(3);
  // An agent that does not prepare its assignment for this long is lost.
  Duration forming_timeout = std::chrono::seconds(30);
  // A worker failed because a peer did, and the peer is not known: so long its own failure is
  // waited for, before everybody is stopped.
  Duration victim_grace = std::chrono::seconds(1);
};

class Round {
 public:
  // ---- events ----
  struct Received {
    Header header;
    AgentMessage message;
  };
  struct StreamBroken {
    Incarnation incarnation;
  };
  // Its agent was killed, and so were all of its workers.
  struct AgentGone {
    Incarnation incarnation;
  };
  struct Tick {};
  using Event = std::variant<Received, StreamBroken, AgentGone, Tick>;

  // ---- actions ----
  struct Send {
    Header header;  // header.incarnation is the addressee
    RendezvousMessage message;
    bool operator==(const Send&) const = default;
  };
  // Something a person may want to read, with its reason.
  struct Note {
    std::string text;
    bool operator==(const Note&) const = default;
  };
  using Action = std::variant<Send, Note>;

  Round(std::string job, std::uint32_t epoch, RoundOptions options = {});

  // Handles one event. Never fails: what does not fit is dropped or answered with Refused, and a
  // Note says why.
  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next, or nullopt while nothing is timed.
  std::optional<TimePoint> NextDeadline() const;

  RoundState state() const { return state_; }
  // The job is over; every agent was told. The owner forgets the Round.
  bool finished() const {
    return state_ == RoundState::kSucceeded || state_ == RoundState::kFailed;
  }
  Generation generation() const { return generation_; }
  int restarts_used() const { return governor_ ? governor_->restarts_used() : 0; }

 private:
  // How far an agent is in the current generation.
  enum class Phase {
    kWaiting,   // joined or drained: free to be assigned; no worker of it runs
    kAssigned,  // got its assignment
    kPrepared,  // answered it
    kStarted,   // was told to start; its workers may run
  };
  struct Node {
    Incarnation incarnation;
    NodeSpec spec;
    int offered_port = 0;
    Phase phase = Phase::kWaiting;
    bool suspect = false;  // its stream broke; its workers may still run until the lease is over
    TimePoint heard;       // when its last message was handled
    NodeRank rank{-1};     // −1: never assigned; kept from one generation to the next
    Rank first_rank;
    std::set<LocalRank> succeeded;  // workers that exited 0 in this generation
    std::set<LocalRank> ended;      // workers that exited with whatever result
    bool done() const { return static_cast<int>(succeeded.size()) == spec.worker_count; }
    bool member() const { return phase != Phase::kWaiting; }
  };

  void OnReceived(const Received& received, TimePoint now);
  void OnJoin(const Header& header, const Join& join, TimePoint now);
  // Why a node cannot have the rank it asks for, or "" when it can.
  std::string WhyRankIsRefused(const NodeSpec& node) const;
  std::vector<Node>::iterator PlaceFor(const Node& node);  // in nodes_
  void OnPrepared(Node& node);
  void OnWorkerExited(Node& node, const WorkerExited& exit);
  void OnDrained(Node& node, const Drained& drained);
  void OnLeave(Node& node, const Leave& leave, TimePoint now);
  void OnStreamBroken(const StreamBroken& broken, TimePoint now);
  void OnAgentGone(const AgentGone& gone, TimePoint now);
  void OnTick(TimePoint now);
  void LoseUnprepared(TimePoint now);

  // Takes every transition whose condition holds by now.
  void Advance(TimePoint now);
  void AdvanceGathering(TimePoint now);
  void AdvanceForming(TimePoint now);
  void AdvanceRunning(TimePoint now);
  void AdvanceDraining(TimePoint now);

  void Enter(RoundState next);
  void Gather(TimePoint now);
  void Form(TimePoint now);
  void Drain(const std::string& reason, TimePoint now);
  void OnGenerationEnded(TimePoint now);
  void RecordCause();  // of the current generation, if something failed in it
  // Tells every agent; the causes of the generations that have ended go with it.
  void Finish(Outcome outcome, int exit_code, std::string reason);
  // `node` is out: its workers are gone, or no longer ours. Invalidates references to nodes.
  void Lose(Incarnation incarnation, RootCause::Kind kind, const std::string& why, TimePoint now);

  Node* Find(Incarnation incarnation);
  int CountFree() const;  // live nodes that can be assigned
  std::string FreeHosts() const;
  std::optional<TimePoint> LeaseEnd(const Node& node) const;
  bool HoldsLease(const Node& node) const;
  Header HeaderFor(const Node& node) const;
  void SendTo(const Node& node, RendezvousMessage message);
  void Refuse(const Header& header, std::string reason);
  void Say(std::string text);

  const std::string job_;
  const std::uint32_t epoch_;
  const RoundOptions options_;

  RoundState state_ = RoundState::kGathering;
  std::optional<JobSpec> spec_;  // from the first Join
  std::vector<Node> nodes_;      // members first, by node rank; then by host and arrival
  Generation generation_{-1};    // before the first forming
  std::optional<RestartGovernor> governor_;  // from the first Join
  std::optional<TimePoint> deadline_;        // of the current state
  Incidents incidents_;                      // of the current generation
  bool made_step_ = false;                   // so was a step in it
  TimePoint started_at_;                     // when it was
  Duration ran_{};                           // from then until it began to drain
  std::vector<RootCause> causes_;            // of the generations that have ended; the last 64

  std::vector<Action> actions_;  // of the Step in progress
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_ROUND_H_
