// Gate: decides who is allowed to see the page and to act on it.
//
// An operator's command (`ddprun page`) asks for a code, over gRPC and with the usual credentials.
// The code opens one session, within a minute. The browser sends the session's secret in one of two
// ways:
//
//     off loopback, over TLS    a cookie __Host-ddprun, which the browser hides from scripts and
//                               sends to no other site or host; actions must also show the CSRF
//                               token
//     on loopback               Authorization: Bearer. Browsers send a loopback cookie to every
//                               port of the host
//
// Thread-safe. Time comes in as an argument.
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

// How the connection of a request carries the session's secret.
enum class SessionBy { kBearer, kCookie };
SessionBy SessionByOf(const Request& request);

// Whether another site's page made the request, according to the browser's headers.
bool IsCrossSite(const Request& request);

class Gate {
 public:
  static constexpr std::chrono::seconds kCodeLifetime{60};
  static constexpr std::chrono::hours kSessionLifetime{12};
  static constexpr const char* kCookie = "__Host-ddprun";
  static constexpr const char* kCsrfHeader = "x-ddprun-csrf";

  struct Options {
    bool is_private = false;           // a caller on this host without credentials is a stranger
    std::vector<auth::Token> readers;  // tokens that may read metrics
    std::chrono::seconds session_lifetime = kSessionLifetime;
    // Returns this many random bytes. Called from any thread.
    std::function<std::string(std::size_t)> random;
  };
  explicit Gate(Options options);

  // A code for a link: good once, within kCodeLifetime.
  std::string NewCode(const std::string& owner, TimePoint now);

  struct Session {
    std::string secret;
    std::string csrf;
  };
  // nullopt: the code is unknown, was used, or has expired.
  std::optional<Session> SignIn(const std::string& code, TimePoint now);
  // Ends the session of this request, on all its connections.
  void SignOut(const Request& request, TimePoint now);

  Viewer Identify(const Request& request, TimePoint now) const;

  // OK unless another site's page may have made this request. Identify says who makes it. Error:
  // PermissionDenied, for people.
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
