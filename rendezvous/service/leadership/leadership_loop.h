// LeadershipLoop: carries out the decisions of Leadership: this rendezvous leads or stands by.
//
// One thread handles events and deadlines, and never blocks. Slow work runs elsewhere. Reads and
// renewals of the leader key have threads of their own, so no renewal waits behind a write of the
// job records. The leader key is written in the queue of the job records' writes (`in_order`),
// after all earlier ones. One more thread reads the jobs.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADERSHIP_LOOP_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADERSHIP_LOOP_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rendezvous/leadership/leadership.h"
#include "rendezvous/service/job/serial_executor.h"
#include "rendezvous/service/leadership/leader_board.h"
#include "rendezvous/service/leadership/leader_key.h"
#include "rendezvous/service/leadership/peer_link.h"
#include "rendezvous/service/leadership/validity.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class LeadershipLoop {
 public:
  // The effects on the rest of the rendezvous. Whatever the functions use must outlive the loop.
  // They are called on the loop's thread and must not block, unless the comment says otherwise.
  struct Effects {
    // Runs the task in the order of the job records' writes: after all earlier writes, before
    // all later writes. The task may block.
    std::function<void(std::function<void()>)> in_order;
    // Called from within `in_order`: later writes of the job records belong to this term.
    std::function<void(Term)> set_writer;
    // Reads the jobs and serves them; no lease ends before `hold` + the job's lease. If etcd was
    // `restored`, no generation forms before that either. Blocks. Called on a thread of its own,
    // and again after an error that may pass.
    std::function<absl::Status(Term, Duration hold, bool restored)> lead;
    std::function<void(Term)> change_term;
    // Validity begins to hold.
    std::function<void()> on_valid;
    // The endpoint of the other leader; "": not known.
    std::function<void(const std::string& endpoint)> set_leader;
    // This process serves no more.
    std::function<void(const Leadership::StepDown&)> step_down;
    // A retry cannot help. DataLoss: the jobs cannot be read. Unauthenticated, PermissionDenied:
    // etcd has refused this process from the start, or refuses to let it write the leader key. Any
    // thread; may come again.
    std::function<void(const absl::Status&)> cannot_lead;
    std::function<void(std::string_view)> log;  // any thread
  };
  struct Options {
    Leadership::Options leadership;
    std::shared_ptr<LeaderBoard> board;
    Validity* validity;    // outlives the loop
    const LeaderKey* key;  // outlives the loop
    PeerLink::Credentials to_peers;
  };

  LeadershipLoop(Options options, Effects effects);
  // Stops. Its tasks that are still in `in_order` do nothing after that.
  ~LeadershipLoop();
  LeadershipLoop(const LeadershipLoop&) = delete;
  LeadershipLoop& operator=(const LeadershipLoop&) = delete;

  void Start();
  // Waits for pending reads, renewals and `lead`; each has a time limit. Does not resign. After it
  // returns, only a task that is still in `in_order` may call effects: `set_writer`, `log`,
  // `cannot_lead`. Idempotent.
  void Stop();

  // For the events RightLost and EndAsked. Any thread; does not block.
  void Post(Leadership::Event event) { executor_.Post(std::move(event)); }

 private:
  struct TakenUp {};  // the jobs are served
  using Event = std::variant<Leadership::Event, TakenUp>;
  using Executor = SerialExecutor<Event>;
  // The failures of one kind of calls. They are logged only if they last longer than an election of
  // etcd.
  struct Trouble {
    // Takes the result of a call at `now`. Returns the line to log: `bad` and the reason, once;
    // `good` when calls succeed again; else "".
    std::string Line(const absl::Status& status, TimePoint now, absl::string_view bad,
                     absl::string_view good);

    std::optional<TimePoint> since;
    bool logged = false;
  };

  // Checked by the tasks of `in_order`, which may run after the loop's end.
  struct Gate {
    std::mutex mutex;
    bool open = true;  // guarded by mutex
  };

  class Handler final : public Executor::Handler {
   public:
    explicit Handler(LeadershipLoop* loop) : loop_(loop) {}
    TimePoint Handle(std::vector<Event>& events, TimePoint now) override;
    void HandleLast(std::vector<Event>&, TimePoint) override {}

   private:
    LeadershipLoop* const loop_;
  };

  void Step(const Leadership::Event& event);
  void Perform(const Leadership::ReadLeader&);
  void Perform(const Leadership::WatchPeer& watch) { peer_.Watch(watch.endpoint); }
  void Perform(const Leadership::PutLeader& put);
  void Perform(const Leadership::Renew& renew);
  void Perform(const Leadership::Lead& lead);
  void Perform(const Leadership::ChangeTerm& change) { effects_.change_term(change.term); }
  void Perform(const Leadership::SetValidUntil& valid);
  void Perform(const Leadership::StepDown& down) { effects_.step_down(down); }
  void Perform(const Leadership::Note& note) { effects_.log(note.text); }

  // On other threads.
  void Put(const Leadership::PutLeader& put);
  // Reads the key until etcd answers: nothing may be written before the key's owner is known.
  void ReadBack(const Leadership::PutLeader& put);
  void TakeUp(const Leadership::Lead& lead);
  // False: the loop ends.
  bool Sleep(Duration duration);
  // Takes the result of a call to etcd. Logs once that etcd does not answer, and once that it
  // answers again.
  void OnAnswer(const absl::Status& status);
  // The same for a write of the leader key.
  void OnPut(const absl::Status& status);

  // Publishes this process's state on the board.
  void Publish();
  Leading WhoLeads() const;

  const Options options_;
  const Effects effects_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();

  // Of the loop's thread.
  Leadership leadership_;
  bool was_valid_ = false;
  bool taken_up_ = false;
  std::string known_leader_;

  // Wakes sleeping threads at the end.
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  bool shutdown_ = false;
  Trouble trouble_;      // no answers
  Trouble put_trouble_;  // answers, but the leader key cannot be written
  // Once etcd has answered, a later refusal does not end the process: somebody may undo a change of
  // etcd's users or certificates. The exception is PermissionDenied for a write of the leader key.
  bool was_answered_ = false;

  Handler handler_{this};
  PeerLink peer_;
  Executor executor_{&handler_};
  std::unique_ptr<etcd::Watch> watch_;  // from Start to Stop; only they use it
  TaskQueue takeover_{"ddprun-lead"};
  TaskQueue reads_{"ddprun-renew", 4};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADERSHIP_LOOP_H_
