#include "rendezvous/http/access/gate.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/http/server/host_names.h"

namespace ddprun::http {
namespace {

constexpr std::size_t kSecretBytes = 24;
constexpr std::size_t kMostCodesOfOwner = 64;
constexpr std::size_t kMostSessionsOfOwner = 64;
constexpr std::size_t kMost = 4096;

std::string BearerOf(const Request& request) {
  const std::string authorization = request.Header("authorization");
  absl::string_view rest = authorization;
  return absl::ConsumePrefix(&rest, "Bearer ") ? std::string(rest) : std::string();
}

std::string CookieOf(const Request& request, absl::string_view name) {
  const std::string cookies = request.Header("cookie");
  for (absl::string_view cookie : absl::StrSplit(cookies, ';')) {
    cookie = absl::StripAsciiWhitespace(cookie);
    if (absl::ConsumePrefix(&cookie, name) && absl::ConsumePrefix(&cookie, "=")) {
      return std::string(cookie);
    }
  }
  return "";
}

// A proxy on this host may forward requests of other hosts. Some proxies name the client in a
// header.
bool IsForSomebodyElse(const Request& request) {
  for (const char* name : {"forwarded", "x-forwarded-for", "x-real-ip", "via"}) {
    if (!request.Header(name).empty()) return true;
  }
  return false;
}

bool IsNeighbour(const Request& request) {
  return request.loopback && IsLoopbackName(HostOf(request.Header("host"))) &&
         !IsForSomebodyElse(request);
}

}  // namespace

SessionBy SessionByOf(const Request& request) {
  return request.tls && !request.loopback ? SessionBy::kCookie : SessionBy::kBearer;
}

bool IsCrossSite(const Request& request) {
  const std::string site = request.Header("sec-fetch-site");
  // "same-site" is for example a page at another port of this host.
  if (site == "cross-site" || site == "same-site") return true;
  const std::string origin = request.Header("origin");
  if (origin.empty()) return false;
  const std::string ours = absl::StrCat(request.tls ? "https://" : "http://",
                                        absl::AsciiStrToLower(request.Header("host")));
  return absl::AsciiStrToLower(origin) != ours;
}

Gate::Gate(Options options)
    : options_(std::move(options)),
      codes_(kMostCodesOfOwner, kMost),
      sessions_(kMostSessionsOfOwner, kMost) {}

std::string Gate::NewSecret() const {
  return absl::WebSafeBase64Escape(options_.random(kSecretBytes));
}

std::string Gate::NewCode(const std::string& owner, TimePoint now) {
  std::string code = NewSecret();
  const std::lock_guard lock(mutex_);
  codes_.Add(code, {.owner = owner, .until = now + kCodeLifetime}, now);
  return code;
}

std::optional<Gate::Session> Gate::SignIn(const std::string& code, TimePoint now) {
  Session session{NewSecret(), NewSecret()};
  const std::lock_guard lock(mutex_);
  auto grant = codes_.Take(code, now);
  if (!grant) return std::nullopt;
  sessions_.Add(session.secret,
                {std::move(grant->owner), session.csrf, now + options_.session_lifetime}, now);
  return session;
}

void Gate::SignOut(const Request& request, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (const auto session = sessions_.Take(SessionSecretOf(request), now)) session->until.SignOut();
}

std::string Gate::SessionSecretOf(const Request& request) {
  return SessionByOf(request) == SessionBy::kCookie ? CookieOf(request, kCookie)
                                                    : BearerOf(request);
}

std::optional<Grant> Gate::FindSession(const Request& request, TimePoint now) const {
  const std::string secret = SessionSecretOf(request);
  if (secret.empty()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return sessions_.Find(secret, now);
}

const auth::Token* Gate::FindReader(const std::string& bearer) const {
  const auth::Token* found = nullptr;
  for (const auth::Token& token : options_.readers) {
    if (auth::EqualInConstantTime(token.secret, bearer)) found = &token;
  }
  return found;
}

Viewer Gate::Identify(const Request& request, TimePoint now) const {
  if (const auto session = FindSession(request, now)) {
    return {Viewer::Kind::kSignedIn, session->owner, session->until, session->csrf};
  }
  if (const auth::Token* const reader = FindReader(BearerOf(request))) {
    // A token without a name may read the metrics of all jobs.
    const bool of_all = reader->name == auth::Token().name;
    return {Viewer::Kind::kScraper, of_all ? "" : absl::StrCat("token:", reader->name)};
  }
  const bool neighbour = !options_.is_private && IsNeighbour(request);
  return {neighbour ? Viewer::Kind::kNeighbour : Viewer::Kind::kStranger};
}

absl::Status Gate::CheckAction(const Request& request, TimePoint now) const {
  if (IsCrossSite(request)) {
    return absl::PermissionDeniedError("this request comes from the page of another site");
  }
  // A bearer token needs no CSRF token: a browser sends it only if the page's script adds it.
  if (SessionByOf(request) == SessionBy::kBearer) return absl::OkStatus();
  const auto session = FindSession(request, now);
  if (session && auth::EqualInConstantTime(session->csrf, request.Header(kCsrfHeader))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError("the header X-Ddprun-Csrf does not show the session's token");
}

}  // namespace ddprun::http
