// Roster: the nodes of one job, and the phase of each node in the current generation. Pure.
//
// Roster updates its counts when a node changes, so most messages cost O(1) with any number
// of nodes. A forming costs O(n log n). Owned by JobMachine.
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

// The phase of a node in the current generation.
enum class Phase {
  kWaiting,       // joined, or its workers have stopped; free() says whether it can be assigned
  kAssigned,      // got its assignment
  kAcknowledged,  // answered it
  kStarted,       // was told to start; its workers may run
};

// Why a node stays in the job but out of the next generation.
struct HeldBack {
  // If `loads` is false: LateAdmission (quarantine.h) holds the node back until this time. If it is
  // true: at this time the node is taken in even if its standbys still load.
  std::optional<TimePoint> until;
  bool loads = false;       // Waiting::start_standbys was sent
  std::string why;          // the reason of `until`, for people
  StuckProcesses stuck;     // processes that SIGKILL has not ended, until they are gone
  TimePoint stuck_told_at;  // when the agent last reported `stuck`

  bool is_stuck() const { return !stuck.processes.empty(); }
  bool any() const { return until.has_value() || is_stuck(); }
};

// How long a node has been in the job.
struct Stay {
  TimePoint since;           // its Join, then the first start of its workers
  bool has_started = false;  // its workers were started since its Join
  bool taken_in = false;     // the other nodes were stopped so that it can join; false once its
                             // workers start
};

// The states that a node holds, by its agent's last report. In a *look*, the agent reads which
// states its disk holds.
struct Holdings {
  std::vector<SavedState> states{};
  bool incomplete = false;  // its disk may hold another state (Join::states_incomplete)
  bool pending = false;     // its disk has not answered yet
  bool answered = false;    // its disk has answered since the agent joined
  bool has_worked =
      false;  // set by Roster: workers of the job have run here since the agent joined
  bool can_look_again = false;  // Join::can_look_again
  LookId looked;                // the look at its disk that found `states` (Join::look)
  LookId asked;                 // of the newest LookAgain in this session
};

// What the workers of a node have reported in a generation. Roster::AssignRanks() replaces it
// whole.
struct ToldByWorkers {
  std::set<LocalRank> succeeded{};     // exited with 0
  std::set<LocalRank> ended{};         // exited, with any result
  std::optional<std::int64_t> step{};  // the newest step that they reported
  bool cannot_save = false;            // the node has answered Save with CannotSave
};

// The part of a node that JobRecord keeps.
struct NodeRecord {
  AgentId agent_id;
  NodeSpec spec;
  int offered_port = 0;
  NodeRank rank{-1};  // in the newest generation that was formed; −1: the node is not in it
  Rank first_rank;
  bool removed = false;  // set by Roster::SetRemoved: stays out of the next generation
  RolePlace role{};  // set by Roster::AssignRanks: its place among the workers of its role (--role)

  bool operator==(const NodeRecord&) const = default;
};

struct Node : NodeRecord {
  Phase phase = Phase::kWaiting;  // set by Roster::SetPhase
  // Set by Roster::SetSuspect: it has no session, or its workers are done and its lease ended.
  bool suspect = false;
  bool second = false;  // set by Roster: another node holds the rank that it asks for
  std::string why_removed = "drained by an operator";
  HeldBack held_back{};  // set by Roster::SetHeldBack
  Stay stay;
  TimePoint heard;                // set by Roster::Heard: when its last message was handled
  ToldByWorkers told{};           // in this generation
  std::int64_t fenced_at_ms = 0;  // the newest Stopped::fenced_at_ms
  Holdings held;                  // `pending` is set by Roster
  WorkerProgram program{};        // of a restored member: unknown until its next Join
  NodeUsage usage{};              // the newest
  // The part of usage.failed_snapshots that is already counted. nullopt: not known, because the
  // agent had joined before (Join::returning).
  std::optional<std::int64_t> counted_snapshots{};

  bool done() const { return static_cast<int>(told.succeeded.size()) == spec.worker_count; }
  bool member() const { return phase != Phase::kWaiting; }
  bool free() const { return !member() && !suspect && !second && !held_back.any(); }
};

// Compares numbers in names by value: n2 before n10.
bool NaturalLess(const std::string& a, const std::string& b);

class Roster {
 public:
  Roster() = default;
  Roster(const Roster&) = delete;
  // Pointers to nodes stay valid.
  Roster& operator=(Roster&&) = default;

  // The first node that is not suspect and asks for this rank; nullptr: none.
  const Node* HolderOf(NodeRank rank) const;
  // Nodes that came later and ask for this node's rank. They must leave when this node comes back.
  std::vector<Node*> WaitingForRankOf(const Node& node) const;

  // nullptr when there is no such agent. The pointer is valid until the node is erased.
  Node* Find(AgentId agent_id);
  Node& Add(Node node, TimePoint now);
  void Erase(Node& node);

  void Heard(Node& node, TimePoint now);
  void SetPhase(Node& node, Phase phase);
  void SetSuspect(Node& node, bool suspect);
  void SetRemoved(Node& node);
  void SetHeldBack(Node& node, HeldBack held_back);
  void SetStatesPending(Node& node, bool pending);
  // Ends the lease of the node: until its next message, its silence has no effect.
  void EndLease(Node& node);

  void SetProgram(Node& node, WorkerProgram program);
  // A node with a known program in this role; nullptr: none. O(1), because every Join calls it.
  const Node* NodeWithProgram(const std::string& role) const;

  // Whether an agent has this host name or address.
  bool HasHost(const std::string& host) const;
  bool empty() const { return nodes_.empty(); }
  int size() const { return static_cast<int>(nodes_.size()); }
  int count(Phase phase) const { return counts_[static_cast<int>(phase)]; }
  // Nodes for which Node::free() is true.
  int free() const { return free_; }
  // Free nodes whose disk has not answered.
  int states_pending() const { return states_pending_; }
  int removed() const { return removed_; }
  // Nodes that may be in a later generation. Nodes that ask for the same rank count once, or not
  // at all if the first of them is removed.
  int candidates() const { return candidates_; }
  int member_count() const { return size() - count(Phase::kWaiting); }
  // The node that has been silent for longest, among those with a lease; nullptr: no node has a
  // lease.
  Node* MostSilent();

  // Suspect nodes, and nodes not heard since `since`. O(size of the result).
  std::vector<const Node*> Unheard(TimePoint since) const;

  // In the order of their arrival.
  std::list<Node>& nodes() { return nodes_; }
  const std::list<Node>& nodes() const { return nodes_; }
  // The members of the last AssignRanks, by node rank; nullptr: that node was erased.
  const std::vector<Node*>& members() const { return members_; }

  // The members of the group if it formed now: at most `max_nodes` free nodes. Nodes with a rank
  // come before newcomers. O(n log n).
  std::vector<Node*> NextMembers(int max_nodes);
  // Gives each of NextMembers its node rank, first rank and place in its role, and sets its phase
  // to kAssigned. Returns the world size. Nodes that ask for ranks are sorted by these ranks. Other
  // nodes keep their rank of the last generation if it is below the number of nodes. The ranks that
  // remain go first to nodes whose earlier rank is too high now, then to newcomers by host name and
  // arrival. So ranks do not depend on which node booted first, and a node that stays keeps its
  // rank. A node that is left out loses its rank: later it must not take the place of a member.
  int AssignRanks(int max_nodes);
  // Adds a member of a generation that an earlier process of the rendezvous formed.
  void RestoreMember(Node node, TimePoint now);

 private:
  struct Entry {
    std::list<Node>::iterator node;
    std::optional<std::list<Node*>::iterator> lease;  // in leases_
  };
  void AssignRoleRanks();
  void NoteProgram(const Node& node);
  void ForgetProgram(const Node& node);
  void Count(const Node& node, int by);
  void Claim(Node& node);
  void Unclaim(Node& node);

  std::list<Node> nodes_;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by agent_id
  std::unordered_map<int, std::vector<Node*>>
      claimants_;  // by the rank that they ask for; the first node holds the rank
  std::unordered_map<std::string, const Node*> with_program_;  // by role; see NodeWithProgram
  std::list<Node*> leases_;                                    // the most silent first
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
