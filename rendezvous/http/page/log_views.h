// LogViews: the logs that are open on the page, whose they are, and for how long. One owner has so
// many at most, so that others find a place too; one ends with its session, and one whose reader
// does not keep up is ended.
//
// Thread-safe. Time as an argument.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_LOG_VIEWS_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_LOG_VIEWS_H_

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rendezvous/core/types.h"
#include "rendezvous/http/page/log_view.h"

namespace ddprun::http {

class LogViews {
 public:
  // Of the kMaxLogReaders that all share.
  static constexpr std::size_t kMostOfOwner = 32;

  explicit LogViews(LogService service) : service_(std::move(service)) {}
  LogViews(const LogViews&) = delete;
  LogViews& operator=(const LogViews&) = delete;

  bool exist() const { return service_.read != nullptr; }

  // Begins to read, and answers; 503 for one too many. Ends with the session.
  void Begin(const std::string& owner, SessionEnd until, LogRequest request,
             const std::shared_ptr<Responder>& responder);

  // Ends those whose session is over and those who do not keep up. To be called every few seconds.
  void EndOverdue(TimePoint now);

 private:
  struct Open {
    std::string owner;
    SessionEnd until;
    std::weak_ptr<LogView> view;  // gone: it has ended
  };

  const LogService service_;
  std::mutex mutex_;
  std::list<Open> open_;  // guarded by mutex_
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_LOG_VIEWS_H_
