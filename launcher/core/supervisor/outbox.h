// SupervisorOutbox: the queue of actions that are decided and not yet performed. Pure.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_OUTBOX_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_OUTBOX_H_

#include <deque>
#include <optional>

#include "launcher/core/supervisor/actions.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// Actions keep the order of their decisions, but a heartbeat overtakes all except the Join of its
// session. Actions after ClearNode or OfferPort wait for its answer.
class SupervisorOutbox : private SupervisorActions {
 public:
  void Push(Action action);
  // Puts the action first, because actions after Exit are not performed.
  void PushFirst(Action action);
  // Pushes ClearNode. It is performed only if workers were started since the last ClearNode, or if
  // `always`.
  void Clear(bool always = false, bool may_be_exiting = false);
  // Pushes a Join or Stopped, and OfferPort before it. If no worker runs, scans for states.
  void Report(Send send, bool workers_running);
  // Starts a scan for states if the last result is outdated. No action waits for it.
  void ScanAhead();
  // A request to look at the disk was received. Scans that begin from now on answer it. `run_id` 0:
  // unchanged.
  void Heard(LookId asked, RunId run_id = {}) {
    asked_ = asked;
    if (run_id != RunId{}) run_id_ = run_id;
  }
  // No worker runs: scans for states, even if an earlier scan found some. The rendezvous waits for
  // the result.
  void ScanAgain();
  // Workers start: the node will need clearing, and the last scan becomes outdated.
  void WorkersStart();
  // The session is over: drops its messages.
  void DropMessages();
  // The workers are lost: drops all actions except GenerationEnded. Returns the verdict of a
  // dropped Exit.
  std::optional<Verdict> OnWorkersLost();

  // False: no NodeCleared was awaited.
  bool OnNodeCleared();
  // If the rendezvous waits for the states: the request that this scan answers. Else nullopt.
  std::optional<LookId> OnStatesFound();
  // The request that the scan in progress answers; without such a scan, the request that the last
  // scan answered.
  LookId look() const { return scanning_ ? scan_look_ : found_look_; }
  void OnPortOffered(int port);

  // The next action; nullopt: none, or an answer is awaited.
  std::optional<Action> Next();
  bool empty() const { return held_.empty(); }

 private:
  enum class Awaited { kNothing, kNodeCleared, kPortOffered };
  struct Held {
    Action action;
    Awaited answer = Awaited::kNothing;
    bool always = false;  // perform it even if no worker was started
  };
  // nullopt: no heartbeat is due, or the Join of its session is not sent yet.
  std::optional<Action> NextHeartbeat();
  void MarkPendingStates(Action* action);

  std::deque<Held> held_;
  Awaited awaited_ = Awaited::kNothing;
  bool scanning_ = false;
  bool scan_needed_ = true;
  bool owes_states_ = false;  // a message said that states are pending, or they were requested
  bool again_ = false;        // the scan in progress began too early
  LookId asked_;              // the rendezvous's newest request
  RunId run_id_;              // received with asked_
  LookId scan_look_;
  LookId found_look_;
  bool clear_needed_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_OUTBOX_H_
