// SupervisorOutbox: what was decided and has not been done, and in which order it is done. Pure.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_OUTBOX_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_OUTBOX_H_

#include <deque>
#include <optional>

#include "launcher/core/supervisor/actions.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// The actions, in the order in which they were decided, but for heartbeats, which come first. What
// comes after ClearNode or OfferPort waits for its answer.
class SupervisorOutbox : private SupervisorActions {
 public:
  void Push(Action action);
  // Before all that waits: what comes after Exit is not done.
  void PushFirst(Action action);
  // Where workers were started since it was done last, or `always`.
  void Clear(bool always = false);
  // A Join or Stopped, and before it the port; where no worker runs, the states are looked for.
  void Report(Send send, bool workers_running);
  // Looks for states where what was found is old; nothing waits for it.
  void ScanAhead();
  // What is looked for from now on answers this request too. `run_id` 0: as it was.
  void Heard(LookId asked, RunId run_id = {}) {
    asked_ = asked;
    if (run_id != RunId{}) run_id_ = run_id;
  }
  // No worker runs: looks for states, whatever was found before, and owes them.
  void ScanAgain();
  // They leave things behind, and what was found on the disk will be old.
  void WorkersStart();
  // They were for a session that is over.
  void DropMessages();
  // The workers are lost: what was to be done for them, or waits for what they left behind, cannot
  // be done. That their generation has ended stays true. Returns what the agent was to exit with,
  // where that was decided.
  std::optional<Verdict> OnWorkersLost();

  // False: it was not waited for.
  bool OnNodeCleared();
  // Set: the rendezvous waits for the states. The value names the look that found them.
  std::optional<LookId> OnStatesFound();
  // Of what was found, or of the scan in progress.
  LookId look() const { return scanning_ ? scan_look_ : found_look_; }
  void OnPortOffered(int port);

  // What is to be done next; nullopt: nothing, or it waits for an answer.
  std::optional<Action> Next();
  bool empty() const { return held_.empty(); }

 private:
  enum class Awaited { kNothing, kNodeCleared, kPortOffered };
  struct Held {
    Action action;
    Awaited answer = Awaited::kNothing;
    bool always = false;  // also where nothing seems to need it
  };
  // nullopt: there is none, or the Join of its session has yet to be sent.
  std::optional<Action> NextHeartbeat();
  void MarkPendingStates(Action* action);

  std::deque<Held> held_;
  Awaited awaited_ = Awaited::kNothing;
  bool scanning_ = false;
  bool scan_needed_ = true;
  bool owes_states_ = false;  // a message said that they are pending, or they were asked for
  bool again_ = false;        // the scan in progress began too early
  LookId asked_;              // by the rendezvous, last
  RunId run_id_;              // as it was told with that
  LookId scan_look_;
  LookId found_look_;
  bool clear_needed_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_OUTBOX_H_
