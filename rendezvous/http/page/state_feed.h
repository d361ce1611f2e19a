// StateFeed: makes the data that the page shows, once for all viewers of the same data.
//
// A view is the JSON of one job, or of the list of jobs, for one owner. It is made on request.
// While somebody watches it, it is made once a second, and sent if it has changed. If only ages
// have changed, it is sent every 5 s. A large view, or a view with many viewers, is made less
// often, but at least every 30 s. So it usually costs at most a few percent of a core and 16 MiB a
// second. Viewers get events at once.
//
// StateFeed has a thread of its own, which asks the JobLoop, makes the JSON, and follows the
// EventLog. Any thread may call the members. All return at once, except Shutdown.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_STATE_FEED_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_STATE_FEED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/core/types.h"
#include "rendezvous/http/access/session_end.h"
#include "rendezvous/http/page/page_json.h"
#include "rendezvous/http/page/view.h"
#include "rendezvous/http/server/responder.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/job/job_loop.h"
#include "rendezvous/service/job/serial_executor.h"

namespace ddprun::http {

class StateFeed {
 public:
  static constexpr std::size_t kMostViewers = 256;
  // Of these, reserved for signed-in viewers.
  static constexpr std::size_t kReserved = 64;

  struct Options {
    JobLoop* loop;  // not owned; outlives this object
    std::shared_ptr<EventLog> events;
    std::function<DaemonStatus()> daemon;
    // Called on the feed's thread, once in each StepRates::kInterval. Must not block. May be empty.
    std::function<void(TimePoint now)> on_turn{};
    // Called on the feed's thread when a viewer is refused because there are too many. Must not
    // block. May be empty.
    std::function<void(const std::string& why)> on_full{};
  };
  explicit StateFeed(Options options);
  ~StateFeed() { Shutdown(); }
  StateFeed(const StateFeed&) = delete;
  StateFeed& operator=(const StateFeed&) = delete;

  // `done` gets the JSON. NotFound: the viewer sees no such job. Unavailable: the rendezvous may
  // not answer now. Called on the feed's thread.
  void Get(ViewKey key, std::function<void(absl::StatusOr<std::string>)> done);

  // Answers with server-sent events until the viewer leaves or reads too slowly, the session is
  // over (`until`), the job is forgotten, the rendezvous may not answer, or the feed ends. 404 if
  // the viewer sees no such job, 503 if there are too many viewers or no answer is possible.
  void Watch(ViewKey key, SessionEnd until, std::shared_ptr<Responder> responder);

  // Runs `task` on the feed's thread: for answers that take a while to make.
  void Run(std::function<void()> task);

  // Tells the viewers that the feed ends, and waits for the end of the feed's thread, so do not
  // call it on that thread. Idempotent; call it before the JobLoop's shutdown.
  void Shutdown();

 private:
  using Task = std::function<void()>;
  using Executor = SerialExecutor<Task>;
  class Handler final : public Executor::Handler {
   public:
    explicit Handler(StateFeed* feed) : feed_(feed) {}
    TimePoint Handle(std::vector<Task>& tasks, TimePoint now) override;
    void HandleLast(std::vector<Task>& tasks, TimePoint now) override;

   private:
    StateFeed* const feed_;
  };
  // Receives the JSON of the JobLoop's answer, or its error.
  using Made = std::function<void(const absl::StatusOr<nlohmann::ordered_json>& json)>;
  // A viewer who waits for the first version of a view.
  struct Newcomer {
    SessionEnd until;
    std::shared_ptr<Responder> responder;
  };
  struct Watched {
    View view;
    std::vector<Newcomer> newcomers;
    std::size_t size() const { return view.size() + newcomers.size(); }
  };

  void Make(const ViewKey& key, Made made);
  // Both consume `jobs`.
  nlohmann::ordered_json ListOf(const ViewKey& key, std::vector<JobLoop::Summary>* jobs);
  absl::StatusOr<nlohmann::ordered_json> JobOf(const ViewKey& key, std::vector<JobStatus>* jobs);
  // `state`: the first version that the newcomers get.
  void AdmitNewcomers(const ViewKey& key, const Stream::Piece& state, Watched* watched);
  std::string HistoryOf(const ViewKey& key) const;
  void Refresh(const ViewKey& key, View* view, TimePoint now);
  void OnMade(const ViewKey& key, const absl::StatusOr<nlohmann::ordered_json>& json,
              Duration cost);
  void ReadLog();
  void OnLine(const EventLog::Line& line);
  void TakeSample(const std::vector<JobLoop::Summary>& jobs);
  TimePoint Tick(TimePoint now);

  const Options options_;
  std::uint64_t follower_ = 0;
  std::atomic<bool> log_has_more_{false};
  // Used by the feed's thread only.
  std::uint64_t place_ = 0;  // in the EventLog
  std::map<std::string, JobPast> pasts_;
  std::map<ViewKey, Watched> views_;
  std::uint64_t newest_viewer_ = 0;
  TimePoint next_turn_{};
  TimePoint next_sample_{};
  bool sampling_ = false;

  Handler handler_{this};
  Executor executor_{&handler_};  // last: its thread uses everything above
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_STATE_FEED_H_
