// PageService: the routes of the daemon's page. docs/page.md lists them.
//
// Every request passes the Gate here, and only here.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_SERVICE_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_SERVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/http/access/gate.h"
#include "rendezvous/http/page/log_views.h"
#include "rendezvous/http/page/shared_answers.h"
#include "rendezvous/http/page/state_feed.h"
#include "rendezvous/http/server/http_server.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/job/job_loop.h"

namespace ddprun::http {

class PageService {
 public:
  // Makes the text for Prometheus, with the jobs of `owner`; empty: all jobs. nullopt: the caller
  // has no credentials, and gets all jobs without host names. Called from any thread; must not
  // block; calls `done` from any thread.
  using Metrics =
      std::function<void(std::optional<std::string> owner, std::function<void(std::string)> done)>;

  struct Options {
    JobLoop* loop = nullptr;  // not owned; outlives this object; shut down after it
    std::shared_ptr<EventLog> events;
    std::function<DaemonStatus()> daemon;  // any thread
    Gate::Options gate;
    Metrics metrics{};    // empty: there is no /metrics
    LogService logs{};    // empty: there is no /api/logs
    OnRefused refused{};  // of each request that is refused. Any thread; may be empty
  };
  explicit PageService(Options options);
  PageService(const PageService&) = delete;
  PageService& operator=(const PageService&) = delete;

  // The HttpServer's handler.
  void Serve(Request request, std::shared_ptr<Responder> responder);

  // A code for a link, for an authenticated operator. Any thread.
  std::string NewCode(const std::string& owner);

  // Tells the viewers that the feed ends. Order of shutdown: this object, the HttpServer, the
  // JobLoop.
  void Shutdown() { feed_.Shutdown(); }

 private:
  struct Call {
    Request request;
    Viewer viewer;
    std::shared_ptr<Responder> responder;

    ViewKey Key(const std::string& job) const { return {viewer.owner, job, viewer.redacted()}; }
  };
  struct Route;
  struct Refusal;
  static const Route kRoutes[];

  // Why this request is refused; nullopt: it is not. `route`: null if no route has this path and
  // method. `is_path`: a route has this path.
  std::optional<Refusal> RefusalOf(const Request& request, const Viewer& viewer, const Route* route,
                                   bool is_path) const;
  // Answers with the refusal, and counts it.
  void Refuse(const Request& request, Responder* responder, Refusal refusal) const;
  void RefuseName(const Call& call, const char* field) const;  // is not a valid name
  void RefuseFull(const Call& call) const;                     // too many wait for an answer
  void CountRefusal(const char* reason, const std::string& detail) const;

  void Page(Call& call);
  void ShowLeader(Call& call, const std::string& leader);
  void Health(Call& call);
  void Ready(Call& call);
  void ShowMetrics(Call& call);
  void LogIn(Call& call);
  void LogOut(Call& call);
  void Session(Call& call);
  void Jobs(Call& call);
  void Job(Call& call);
  void Events(Call& call);
  void Logs(Call& call);
  void Stacks(Call& call);
  void Stop(Call& call);
  void Drain(Call& call);

  const Options options_;
  Gate gate_;
  LogViews logs_;
  StateFeed feed_;
  SharedAnswers states_;   // JSON made by feed_
  SharedAnswers metrics_;  // keys without a job
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_SERVICE_H_
