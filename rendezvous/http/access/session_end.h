// SessionEnd: the end of a session, by time or by signing out. Copies share the same session. Any
// thread.
#ifndef DDPRUN_RENDEZVOUS_HTTP_ACCESS_SESSION_END_H_
#define DDPRUN_RENDEZVOUS_HTTP_ACCESS_SESSION_END_H_

#include <atomic>
#include <memory>

#include "rendezvous/core/types.h"

namespace ddprun::http {

class SessionEnd {
 public:
  SessionEnd(TimePoint until = TimePoint::max()) : until_(until) {}  // NOLINT: implicit

  void SignOut() const { *signed_out_ = true; }
  bool IsOver(TimePoint now) const { return *signed_out_ || until_ <= now; }

 private:
  TimePoint until_;
  std::shared_ptr<std::atomic<bool>> signed_out_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_ACCESS_SESSION_END_H_
