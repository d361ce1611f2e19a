// LogViews: the open log views of the page, with their owners. It limits the number of views of one
// owner, so that others can open views, too. A view ends with its session, or when its reader is
// too slow.
//
// Thread-safe. Time comes in as an argument.
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
  // The limit for one owner; all owners share kMaxLogReaders.
  static constexpr std::size_t kMostOfOwner = 32;

  explicit LogViews(LogService service) : service_(std::move(service)) {}
  LogViews(const LogViews&) = delete;
  LogViews& operator=(const LogViews&) = delete;

  bool exist() const { return service_.read != nullptr; }

  // Starts a view and answers the request; 503 if the owner has too many. The view ends with the
  // session.
  void Begin(const std::string& owner, SessionEnd until, LogRequest request,
             const std::shared_ptr<Responder>& responder);

  // Ends the views whose session is over or whose reader is too slow. Call it every few seconds.
  void EndOverdue(TimePoint now);

 private:
  struct Open {
    std::string owner;
    SessionEnd until;
    std::weak_ptr<LogView> view;  // expired: the view has ended
  };

  const LogService service_;
  std::mutex mutex_;
  std::list<Open> open_;  // guarded by mutex_
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_LOG_VIEWS_H_
