// TlsWatch: calls TlsIdentity::Refresh every second, on a thread of its own. So a disk that does
// not answer delays no other thread.
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
  // `ok`: `text` says that new files are in use. Not `ok`: `text` says why the new files are not
  // used. Called on the watch's thread; must not block.
  using Log = std::function<void(bool ok, const std::string& text)>;

  TlsWatch(std::shared_ptr<TlsIdentity> identity, Log log,
           std::chrono::milliseconds interval = std::chrono::seconds(1));
  // Once it returns, `log` is not called again. Waits at most a second for a disk that does not
  // answer.
  ~TlsWatch();
  TlsWatch(const TlsWatch&) = delete;
  TlsWatch& operator=(const TlsWatch&) = delete;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_WATCH_H_
