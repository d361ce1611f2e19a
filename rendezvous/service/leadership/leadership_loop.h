// LeadershipLoop: has this rendezvous lead or stand by, as Leadership decides.
//
// One thread handles what happens and the deadlines, and waits for nobody. What may take long runs
// elsewhere: reads and renewals of the leader key on threads of their own, so that no renewal
// stands behind a write of the durable state; the write of the leader key in the queue of these
// writes (`in_order`), whose order it ends; the reading of the jobs on one thread more.
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
  // What it does to the rest of the rendezvous. Each outlives the loop. Where nothing else is said:
  // called on the loop's thread; must not block.
  struct Effects {
    // Has it run after all writes of the durable state that were asked for before, and before those
    // that are asked for later. It may block.
    std::function<void(std::function<void()>)> in_order;
    // From within `in_order`: writes of the durable state are of this term from now on.
    std::function<void(Term)> set_writer;
    // Reads the jobs and serves them; no lease ends before `hold` + the job's lease, and where etcd
    // was `restored` no group forms before. Blocks; on a thread of its own; called again where it
    // fails by an error that may pass.
    std::function<absl::Status(Term, Duration hold, bool restored)> lead;
    std::function<void(Term)> change_term;
    // Validity holds again.
    std::function<void()> on_valid;
    // Where another one leads; "": not known.
    std::function<void(const std::string& endpoint)> set_leader;
    // The last call: this process serves no more. `ousted` as in Leadership.
    std::function<void(const Leadership::StepDown&)> step_down;
    // Trying again does not help. DataLoss: the jobs cannot be read. Unauthenticated,
    // PermissionDenied: etcd has refused us from the start, or refuses us the leader key. Any
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
  // Stops. What `in_order` still runs of it does nothing then.
  ~LeadershipLoop();
  LeadershipLoop(const LeadershipLoop&) = delete;
  LeadershipLoop& operator=(const LeadershipLoop&) = delete;

  void Start();
  // No effect is called any more when it returns, but for `set_writer`. Waits for calls of etcd
  // that go on, each of which has a limit. Leaves the leader key as it is. Idempotent.
  void Stop();

  // RightLost and EndAsked. Any thread; at once.
  void Post(Leadership::Event event) { executor_.Post(std::move(event)); }

 private:
  struct TakenUp {};  // the jobs are served
  using Event = std::variant<Leadership::Event, TakenUp>;
  using Executor = SerialExecutor<Event>;
  // Of one kind of calls. Not worth a line before an election could be over.
  struct Trouble {
    // What is to be logged after an answer at `now`: `bad` and why, once, and `good` when it is
    // over; else "".
    std::string Line(const absl::Status& status, TimePoint now, absl::string_view bad,
                     absl::string_view good);

    std::optional<TimePoint> since;
    bool logged = false;
  };

  // Passed by what `in_order` runs, which may run after the loop's end.
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
  // Reads the key until etcd answers: nothing may be written before it is known whose it is.
  void ReadBack(const Leadership::PutLeader& put);
  void TakeUp(const Leadership::Lead& lead);
  // False: the loop ends.
  bool Sleep(Duration duration);
  // Of etcd. Logs that it does not answer, once, and that it does again.
  void OnAnswer(const absl::Status& status);
  // The same for a write of the leader key.
  void OnPut(const absl::Status& status);

  // Tells others where we are.
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

  // For those who sleep.
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  bool shutdown_ = false;
  Trouble trouble_;      // no answers
  Trouble put_trouble_;  // answers, but the leader key cannot be written
  // Whom etcd has answered once waits for it: what was changed there may be changed back.
  bool was_answered_ = false;

  Handler handler_{this};
  PeerLink peer_;
  Executor executor_{&handler_};
  std::unique_ptr<etcd::Watch> watch_;  // from Start to Stop; the owner's
  TaskQueue takeover_{"ddprun-lead"};
  TaskQueue reads_{"ddprun-renew", 4};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADERSHIP_LOOP_H_
