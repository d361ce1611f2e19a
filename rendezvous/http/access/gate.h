// Gate: who may look at the page and act on it.
//
// Whoever runs an operator's command asks for a code (`ddprun page`), over gRPC and with the
// credentials of all commands. The code opens one session within a minute. A session's secret
// travels as the connection allows:
//
//     off loopback, over TLS    a cookie __Host-ddprun: no other site, no script and no other host
//                               gets it; what acts must show the CSRF token as well
//     on loopback               Authorization: Bearer. A cookie there would go to every port of the
//                               host: cookies know none
//
// Thread-safe. Time and randomness come in as arguments.
#ifndef DDPRUN_RENDEZVOUS_HTTP_ACCESS_GATE_H_
#define DDPRUN_RENDEZVOUS_HTTP_ACCESS_GATE_H_

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/auth/tokens.h"
#include "rendezvous/core/types.h"
#include "rendezvous/http/access/grants.h"
#include "rendezvous/http/access/viewer.h"
#include "rendezvous/http/server/message.h"

namespace ddprun::http {

// How the secret of a session travels on the connection of a request.
enum class SessionBy { kBearer, kCookie };
SessionBy SessionByOf(const Request& request);

// Whether another site's page has made the request, as far as the browser tells.
bool IsCrossSite(const Request& request);

class Gate {
 public:
  static constexpr std::chrono::seconds kCodeLifetime{60};
  static constexpr std::chrono::hours kSessionLifetime{12};
  static constexpr const char* kCookie = "__Host-ddprun";
  static constexpr const char* kCsrfHeader = "x-ddprun-csrf";

  struct Options {
    bool is_private = false;           // neighbours are strangers
    std::vector<auth::Token> readers;  // of metrics
    std::chrono::seconds session_lifetime = kSessionLifetime;
    // So many random bytes. Any thread.
    std::function<std::string(std::size_t)> random;
  };
  explicit Gate(Options options);

  // For a link: good once, for kCodeLifetime.
  std::string NewCode(const std::string& owner, TimePoint now);

  struct Session {
    std::string secret;
    std::string csrf;
  };
  // Nothing for a code that is none of ours, was used, or has expired.
  std::optional<Session> SignIn(const std::string& code, TimePoint now);
  // Ends the session of this request, on all its connections.
  void SignOut(const Request& request, TimePoint now);

  Viewer Identify(const Request& request, TimePoint now) const;

  // Whether this request may change something. Errors: PermissionDenied, for people.
  absl::Status CheckAction(const Request& request, TimePoint now) const;

 private:
  std::string NewSecret() const;
  static std::string SessionSecretOf(const Request& request);
  std::optional<Grant> FindSession(const Request& request, TimePoint now) const;
  const auth::Token* FindReader(const std::string& bearer) const;

  const Options options_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Grants codes_;
  Grants sessions_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_ACCESS_GATE_H_
