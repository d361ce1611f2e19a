// Roster: the agents of one job, and how far each is in the current generation. Pure.
//
// What JobMachine asks all the time is counted as it changes, so that one message costs O(1) with
// any number of nodes; O(n log n) is spent once in a forming. Owned by JobMachine.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_NODES_ROSTER_H_
#define DDPRUN_RENDEZVOUS_MACHINE_NODES_ROSTER_H_

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/core/measures/node_usage.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// How far an agent is in the current generation.
enum class Phase {
  kWaiting,       // joined, or its workers have stopped: free to be assigned; no worker of it runs
  kAssigned,      // got its assignment
  kAcknowledged,  // answered it
  kStarted,       // was told to start; its workers may run
};

// What keeps a node out of the next generation, while it stays in the job.
struct HeldBack {
  std::optional<TimePoint> until;  // LateAdmission
  std::string why;                 // of `until`, for people
  StuckProcesses stuck;            // of it; until they are gone
  TimePoint stuck_told_at;         // when it told of them last

  bool is_stuck() const { return !stuck.processes.empty(); }
  bool any() const { return until.has_value() || is_stuck(); }
};

// How long a node has been in the job.
struct Stay {
  TimePoint since;           // it joined, or its workers were first started after that
  bool has_started = false;  // they were
  bool taken_in = false;     // the others were stopped to take it in; until its workers start
};

// What a node holds of the training, as it was told last.
struct Holdings {
  std::vector<SavedState> states{};
  bool pending = false;     // its disk has yet to answer, or is to be looked at again
  bool answered = false;    // its disk has answered, since the agent joined
  bool has_worked = false;  // set by Roster: workers of the job ran here, since the agent joined
  bool can_look_again = false;
  LookId looked;  // Join::look
  LookId asked;   // in the newest LookAgain of this session
};

// What the workers of a node have told in a generation. Roster::AssignRanks replaces it whole.
struct ToldByWorkers {
  std::set<LocalRank> succeeded{};     // that exited 0
  std::set<LocalRank> ended{};         // that exited with whatever result
  std::optional<std::int64_t> step{};  // the newest that they reported
  bool cannot_save = false;
};

// What of a node the rendezvous persists as it is: JobRecord has it too.
struct NodeRecord {
  AgentId agent_id;
  NodeSpec spec;
  int offered_port = 0;
  NodeRank rank{-1};  // −1: never assigned; kept from one generation to the next
  Rank first_rank;
  bool removed = false;  // set by Roster::SetRemoved: it is out of the next generation
  RolePlace role{};      // set by Roster::AssignRanks: among the workers of the same role

  bool operator==(const NodeRecord&) const = default;
};

struct Node : NodeRecord {
  Phase phase = Phase::kWaiting;  // set by Roster::SetPhase
  bool suspect = false;           // set by Roster::SetSuspect: no session; its lease runs
  bool second = false;            // set by Roster: it waits for who has its rank to be lost
  std::string why_removed = "drained by an operator";
  HeldBack held_back{};  // set by Roster::SetHeldBack
  Stay stay;
  TimePoint heard;                // set by Roster::Heard: when its last message was handled
  ToldByWorkers told{};           // in this generation
  std::int64_t fenced_at_ms = 0;  // Stopped::fenced_at_ms, as it was told last
  Holdings held;                  // set by Roster: pending
  WorkerProgram program{};        // unknown until it has joined again
  NodeUsage usage{};              // as it was told last

  bool done() const { return static_cast<int>(told.succeeded.size()) == spec.worker_count; }
  bool member() const { return phase != Phase::kWaiting; }
  bool free() const { return !member() && !suspect && !second && !held_back.any(); }
};

// Orders names as people do: n2 before n10.
bool NaturalLess(const std::string& a, const std::string& b);

class Roster {
 public:
  Roster() = default;
  Roster(const Roster&) = delete;
  // Nodes stay where they are.
  Roster& operator=(Roster&&) = default;

  // The live node that asks for this rank, or nullptr.
  const Node* HolderOf(NodeRank rank) const;
  // The others that ask for this node's rank and came after it: it is back, and they have to go.
  std::vector<Node*> WaitingForRankOf(const Node& node) const;

  // nullptr when there is no such agent. Nodes stay where they are until they are erased.
  Node* Find(AgentId agent_id);
  Node& Add(Node node, TimePoint now);
  void Erase(Node& node);

  void Heard(Node& node, TimePoint now);
  void SetPhase(Node& node, Phase phase);
  void SetSuspect(Node& node, bool suspect);
  void SetRemoved(Node& node);
  void SetHeldBack(Node& node, HeldBack held_back);
  void SetStatesPending(Node& node, bool pending);
  // Its silence does not matter any more.
  void EndLease(Node& node);

  // Whether an agent has this host name or address.
  bool HasHost(const std::string& host) const;
  bool empty() const { return nodes_.empty(); }
  int size() const { return static_cast<int>(nodes_.size()); }
  int count(Phase phase) const { return counts_[static_cast<int>(phase)]; }
  // Waiting, with a session, not the second of its rank, and not held back.
  int free() const { return free_; }
  // The free nodes that have yet to say what their disk holds.
  int states_pending() const { return states_pending_; }
  int removed() const { return removed_; }
  // That may be in a later generation, each rank that is asked for once.
  int candidates() const { return candidates_; }
  int member_count() const { return size() - count(Phase::kWaiting); }
  // The node with a lease that was silent for longest; nullptr when none has a lease.
  Node* MostSilent();

  // Those without a session, and those that were not heard since then. O(how
  // many they are).
  std::vector<const Node*> Unheard(TimePoint since) const;

  // In the order of their arrival.
  std::list<Node>& nodes() { return nodes_; }
  const std::list<Node>& nodes() const { return nodes_; }
  // Of the last AssignRanks, by node rank; nullptr for one that was erased.
  const std::vector<Node*>& members() const { return members_; }

  // The members of the group, if it formed now: at most `max_nodes` of the free nodes, those with a
  // rank before newcomers. O(n log n).
  std::vector<Node*> NextMembers(int max_nodes);
  // Gives each of NextMembers its node rank, its first rank and its place in its role. Nodes that
  // ask for a rank are ordered by it. Others keep the rank of the last generation if it is below
  // their number; nodes with higher ranks, then newcomers by host name and arrival, fill the holes:
  // so the ranks of a job do not depend on which node booted first, and a node that stays keeps its
  // own. Sets their phase to kAssigned. Returns the world size.
  int AssignRanks(int max_nodes);
  // The members of a generation that was formed before this process began.
  void RestoreMember(Node node, TimePoint now);

 private:
  struct Entry {
    std::list<Node>::iterator node;
    std::optional<std::list<Node*>::iterator> lease;  // in leases_
  };
  void AssignRoleRanks();
  void Count(const Node& node, int by);
  void Claim(Node& node);
  void Unclaim(Node& node);

  std::list<Node> nodes_;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by agent_id
  std::unordered_map<int, std::vector<Node*>>
      claimants_;            // by the rank they ask for; the first has it
  std::list<Node*> leases_;  // the most silent first
  std::set<const Node*> suspects_;
  std::vector<Node*> members_;
  std::array<int, 4> counts_{};  // by phase
  int free_ = 0;
  int states_pending_ = 0;
  int removed_ = 0;
  int candidates_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_NODES_ROSTER_H_
