// TlsWatch: has a TlsIdentity follow its files. It looks at them every second, on a thread of its
// own: a disk that hangs delays nobody else.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_WATCH_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_WATCH_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/auth/tls/identity.h"

namespace ddprun::auth {

class TlsWatch {
 public:
  // `text`: what was taken up, or (not `ok`) why not. On the watch's thread, one call at a time;
  // must not block.
  using Log = std::function<void(bool ok, const std::string& text)>;

  TlsWatch(std::shared_ptr<TlsIdentity> identity, Log log,
           std::chrono::milliseconds interval = std::chrono::seconds(1));
  // `log` is not called any more when it returns. A disk that hangs is waited for for a second.
  ~TlsWatch();
  TlsWatch(const TlsWatch&) = delete;
  TlsWatch& operator=(const TlsWatch&) = delete;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_WATCH_H_
