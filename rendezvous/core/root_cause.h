// Which of the reported failures is the root cause of a generation's end.
//
// When one worker dies, the collectives of its peers fail within milliseconds, and the peers end
// too. The clocks of nodes differ by more than that, so they cannot show which worker failed first.
// So each failure is judged by its own report first, and then by the order of the reports.
#ifndef DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_
#define DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/core/messages.h"

namespace ddprun {

// WorkerExited::error_kind of a worker that could not be started. exec: its command cannot be
// executed. spawn: another reason, and a restart may help (no process or descriptor was left, or
// its log folder could not be prepared).
inline constexpr char kErrorExec[] = "exec";
inline constexpr char kErrorSpawn[] = "spawn";

// The worker failed because a peer did. It sent `ERROR=collective`. Or it sent no error kind, ended
// by exit() or abort(), and its error text or last lines report a lost connection.
bool IsVictim(const WorkerExited& exit);

// Another program has the port on which the worker wanted to listen, usually MASTER_PORT. The next
// generation has another port, unless the job names one. The worker sent `ERROR=bind`. Or it sent
// no error kind, and its error text or an exception of Python or C++ reports EADDRINUSE.
bool IsTakenPort(const WorkerExited& exit);

// If torch's store in an agent (docs/store.md) caused this failure: the reason, for people. The
// next generation then uses a store in rank 0's worker. "": the store did not cause it. Two kinds
// of program cannot use an agent's store. One listens on MASTER_PORT itself: its error is about a
// taken port, and names MASTER_PORT or no port. The other looks for the store at another port:
// torch then makes every rank a client, and nobody listens there.
std::string WhyNoAgentStore(const RootCause& cause, int master_port);

// Gloo ended the worker because a peer sent more bytes in a collective than this rank expects. One
// of the two ranks entered the collective with a wrong size; Gloo does not name the peer.
bool IsMismatchOfSizes(const WorkerExited& exit);

// True if collectives that did not match are a possible reason: the worker ended by an error of its
// own. The error text cannot decide it, because the text differs between Gloo, NCCL and their
// versions.
bool MayBeOfAMismatch(const RootCause& cause);

// The failures of one generation, in the order of their reports. A value; the JobMachine makes a
// new one for each generation.
class Incidents {
 public:
  explicit Incidents(Generation generation = {}) : generation_(generation) {}

  // A worker ended by itself, with any result.
  void AddExit(const std::string& host, NodeRank node_rank, const WorkerExited& exit);
  // A node's connection broke. If the node is lost later, this is its place in the order.
  void AddSuspicion(AgentId agent_id, const std::string& host, NodeRank node_rank);
  // The node came back in time.
  void ClearSuspicion(AgentId agent_id);
  // A node is lost or has left; `kind` is kNodeLost or kNodeLeft.
  void AddNode(AgentId agent_id, RootCause::Kind kind, const std::string& host, NodeRank node_rank,
               const std::string& reason);

  // The rendezvous has decided that the job hangs; `cause` (kHung) names the worker that the others
  // wait for.
  void AddHang(RootCause cause);

  // A node has ended its workers, probably because of another failure that is not reported yet. The
  // node is the root cause only if no other cause is found.
  void AddFollower(AgentId agent_id, const std::string& host, NodeRank node_rank,
                   const std::string& reason);

  // True if something failed: the generation cannot succeed.
  bool any() const;
  // True if something failed, but only victims are known and no node is suspected: the cause is not
  // known yet.
  bool OnlyVictims() const;

  // The first failure that is not a victim. If all are victims: the first failure. Exception: if
  // that is a worker's failure, and some worker left early (it exited with 0 while its peers still
  // needed it), it is that worker. nullopt: nothing failed.
  std::optional<RootCause> FindRootCause() const;

 private:
  struct Incident {
    RootCause cause;         // its `victims` are empty
    AgentId agent_id;        // set only if a node failed
    bool suspected = false;  // the node is not lost yet
    bool victim = false;     // another failure caused it
    bool cleared = false;    // the node came back: this entry does not count
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
  bool failed_ = false;         // a worker has failed
  bool failed_itself_ = false;  // a worker that is no victim has failed
  std::unordered_map<std::uint64_t, std::size_t> suspicion_of_;  // agent_id → index in incidents_
};

// The newest of `lines` that fit into `max_lines` and `max_bytes`. If the newest line alone is
// longer than `max_bytes`, its end is kept. Bytes are not changed.
std::vector<std::string> NewestLines(const std::vector<std::string>& lines, std::size_t max_lines,
                                     std::size_t max_bytes);

// True if a restart cannot help: the command cannot be executed, the folder of checkpoints belongs
// to another training, or a state cannot be loaded.
bool IsPermanent(const RootCause& cause);

// True if a worker ended because a state of the training exists and cannot be loaded.
bool IsUnreadableState(const RootCause& cause);

// True if the worker itself caused its end: by an exit code, by a signal such as SIGSEGV, or by its
// use of memory (the kernel's OOM killer). False for SIGKILL, SIGTERM, SIGINT, SIGHUP and
// SIGQUIT, which come from another process; and for a node, a victim, or a hang.
bool MadeByWorker(const RootCause& cause);

// True if a node was lost or left. Such a cause spends no restart.
bool IsMembershipChange(const RootCause& cause);

// The job's exit code if this cause ends the job. A worker that failed: its code, or 128 + signal.
// A worker that left early: the code of its first victim. A hang: 134, like SIGABRT. A node: 69. An
// unreadable state: 66. A checkpoint folder of another training: 77, unless a
// signal ended the worker.
int ExitCodeOf(const RootCause& cause);

// The name for programs: "worker_failed".
const char* NameOf(RootCause::Kind kind);

// "rank 3 (local rank 1, pid 4242) on n2: SIGKILL after step 120", "n2 was lost: its agent was
// killed". `why`: further details; may be empty.
std::string Describe(const WorkerFailure& failure, const std::string& why = "");
std::string Describe(const RootCause& cause);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_ROOT_CAUSE_H_
