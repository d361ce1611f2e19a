// What ended a generation: one root cause out of all that was reported.
//
// When one worker dies, the collectives of its peers fail within milliseconds, and so do they.
// Which of them was first cannot be told by clocks: nodes' clocks differ by more than that. It is
// told by what each failure says of itself, and only then by the order in which the rendezvous
// heard of them.
#ifndef DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_
#define DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/core/messages.h"

namespace ddprun {

// ERROR kinds that agents give to a worker that could not be started: its command cannot be
// executed; or there was no room for it this time (processes, descriptors, its folder for logs).
inline constexpr char kErrorExec[] = "exec";
inline constexpr char kErrorSpawn[] = "spawn";

// The worker says `ERROR=collective`, or its last words are those of a lost connection and it ended
// by exit() or abort(): it failed because a peer did.
bool IsVictim(const WorkerExited& exit);

// A port was taken that the worker wanted to listen on, as a rule MASTER_PORT: another generation
// has another one. The worker says `ERROR=bind`; or it says no kind, and an exception of Python's
// or C++'s ended it that tells so (EADDRINUSE).
bool IsTakenPort(const WorkerExited& exit);

// Why a generation whose store an agent serves ended with this cause, and will not where rank 0's
// worker serves it; "": that is not why. Two kinds of program cannot use an agent's store: one that
// listens on MASTER_PORT itself, and one that looks for the store at another port, where torch
// makes every rank a client and nobody listens.
std::string WhyNoAgentStore(const RootCause& cause, int master_port);

// Gloo ended the worker: a peer sent more bytes in a collective than this rank has room for. One of
// the two has entered it with a wrong size; Gloo does not say who the peer is.
bool IsMismatchOfSizes(const WorkerExited& exit);

// The worker was ended by a collective, so that calls that do not match may be the reason.
bool MayBeOfAMismatch(const RootCause& cause);

// What went wrong in one generation, in the order in which the rendezvous saw it. A value: the
// JobMachine has one, and makes a new one for each generation.
class Incidents {
 public:
  explicit Incidents(Generation generation = {}) : generation_(generation) {}

  // A worker ended by itself, with whatever result.
  void AddExit(const std::string& host, NodeRank node_rank, const WorkerExited& exit);
  // A node's connection broke. Counts from now if the node is lost later.
  void AddSuspicion(AgentId agent_id, const std::string& host, NodeRank node_rank);
  // It came back in time.
  void ClearSuspicion(AgentId agent_id);
  // A node is out; `kind` is kNodeLost or kNodeLeft.
  void AddNode(AgentId agent_id, RootCause::Kind kind, const std::string& host, NodeRank node_rank,
               const std::string& reason);

  // No rank moves, and a worker is what the others wait for: a cause of kHung.
  void AddHang(RootCause cause);

  // A node has ended its workers because of something that is still to be heard of: it is the cause
  // only if nothing else turns out to be.
  void AddFollower(AgentId agent_id, const std::string& host, NodeRank node_rank,
                   const std::string& reason);

  // Something failed: the generation cannot succeed.
  bool any() const;
  // Something failed, but so far only victims are known, and no node is suspected either: the cause
  // is still to be heard of.
  bool OnlyVictims() const;

  // The first that is not a victim, else a worker that left early, else the first of all; nullopt
  // when nothing failed.
  std::optional<RootCause> FindRootCause() const;

 private:
  struct Incident {
    RootCause cause;         // without victims
    AgentId agent_id;        // of a node
    bool suspected = false;  // not lost yet
    bool victim = false;     // it failed, or its workers were ended, because of something else
    bool cleared = false;    // it came back: as if it were not here
    bool from_suspicion = false;
  };

  void DropCleared();

  Generation generation_;
  std::vector<Incident> incidents_;
  std::optional<WorkerFailure> first_success_;
  // Counted, because a job may have thousands of victims.
  int suspected_ = 0;
  int cleared_ = 0;
  int victims_ = 0;
  bool failed_ = false;                                          // a worker
  bool failed_itself_ = false;                                   // one that is no victim
  std::unordered_map<std::uint64_t, std::size_t> suspicion_of_;  // agent_id -> in incidents_
};

// The end of `lines` that fits into `max_lines` and `max_bytes`: older lines go first. If the
// newest line alone is longer than `max_bytes`, its own end is kept. Bytes stay as they are.
std::vector<std::string> NewestLines(const std::vector<std::string>& lines, std::size_t max_lines,
                                     std::size_t max_bytes);

// True for failures that a restart cannot cure: the command cannot be executed; the folder of
// checkpoints is another training's; a state cannot be loaded.
bool IsPermanent(const RootCause& cause);

// A worker ended because there is a state of the training and it cannot be loaded.
bool IsUnreadableState(const RootCause& cause);

// True where a worker ended by its own doing: an exit code, a signal of its own such as SIGSEGV,
// too much memory (the kernel's OOM killer). False for a signal that somebody sent, a node, a
// victim.
bool MadeByWorker(const RootCause& cause);

// True when the membership changed: such a cause spends no restart.
bool IsMembershipChange(const RootCause& cause);

// What the job ends with when this cause ends it: the worker's code or 128 + signal; for one that
// left early its first victim's; for one that hung 134, as SIGABRT gives; for a node 69; for an
// unreadable state 66.
int ExitCodeOf(const RootCause& cause);

// As programs read it: "worker_failed".
const char* NameOf(RootCause::Kind kind);

// "rank 3 (local rank 1, pid 4242) on n2: SIGKILL after step 120", "n2 was lost: its agent was
// killed".
// `why`: what else is known of it; may be empty.
std::string Describe(const WorkerFailure& failure, const std::string& why = "");
std::string Describe(const RootCause& cause);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_
