#include "rendezvous/http/page/page_service.h"

#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "rendezvous/core/measures/refusal_reasons.h"
#include "rendezvous/http/page/answers.h"
#include "rendezvous/http/page/clock.h"
#include "rendezvous/http/page/page_source.h"
#include "rendezvous/stacks/stack_text.h"
#include "rendezvous/stacks/stack_tree.h"
#include "rendezvous/wire/limits.h"

namespace ddprun::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNonceBytes = 16;

// The members of a body that is a JSON object.
class Body {
 public:
  explicit Body(const Request& request) : json_(Json::parse(request.body, nullptr, false)) {}

  std::string Text(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : "";
  }
  bool IsOn(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_boolean() && found->get<bool>();
  }

 private:
  const Json json_;
};

bool IsName(const std::string& text, std::size_t most) {
  return !text.empty() && text.size() <= most;
}

// True if the request carries a session's secret or a token, valid or not.
bool ShowsSecret(const Request& request) {
  return !request.Header("authorization").empty() ||
         absl::StrContains(request.Header("cookie"), Gate::kCookie);
}

LogService WithFull(LogService logs, std::function<void(const std::string& why)> full) {
  logs.full = std::move(full);
  return logs;
}

std::pair<std::string, std::string> Cookie(const std::string& secret, std::chrono::seconds age) {
  return {"Set-Cookie", absl::StrCat(Gate::kCookie, "=", secret, "; Path=/; Max-Age=", age.count(),
                                     "; Secure; HttpOnly; SameSite=Strict")};
}

SharedAnswers::Answer Shared(absl::StatusOr<std::string> text) {
  if (!text.ok()) return text.status();
  return std::make_shared<const std::string>(*std::move(text));
}

Response StatesAnswer(const SharedAnswers::Answer& json) {
  return json.ok() ? JsonAnswer(**json) : ErrorAnswer(json.status());
}

JobLoop::AnswerCallback AnswerTo(std::shared_ptr<Responder> responder) {
  return [responder = std::move(responder)](const absl::StatusOr<std::string>& result) {
    responder->Send(result.ok() ? JsonAnswer(Json{{"text", *result}})
                                : ErrorAnswer(result.status()));
  };
}

Response StacksAnswer(const absl::StatusOr<JobLoop::Stacks>& stacks) {
  if (!stacks.ok()) return ErrorAnswer(stacks.status());
  const auto tree = StackTree::Decode(stacks->tree);
  if (!tree.ok()) return ErrorAnswer(absl::InternalError(tree.status().message()));
  return JsonAnswer(Json{{"text", ToText(*tree, {})}, {"missing", stacks->missing}});
}

}  // namespace

struct PageService::Route {
  const char* method;
  const char* path;
  Needs needs;
  void (PageService::*serve)(Call& call);
};

struct PageService::Refusal {
  const char* reason;
  Response answer;
};

const PageService::Route PageService::kRoutes[] = {
    {"GET", "/", Needs::kNothing, &PageService::Page},
    {"GET", "/healthz", Needs::kNothing, &PageService::Health},
    {"GET", "/readyz", Needs::kNothing, &PageService::Ready},
    {"GET", "/metrics", Needs::kMetrics, &PageService::ShowMetrics},
    {"POST", "/api/login", Needs::kNothing, &PageService::LogIn},
    {"POST", "/api/logout", Needs::kOwner, &PageService::LogOut},
    {"GET", "/api/session", Needs::kNothing, &PageService::Session},
    {"GET", "/api/jobs", Needs::kStates, &PageService::Jobs},
    {"GET", "/api/job", Needs::kStates, &PageService::Job},
    {"GET", "/api/events", Needs::kStates, &PageService::Events},
    {"GET", "/api/logs", Needs::kOwner, &PageService::Logs},
    {"GET", "/api/stacks", Needs::kOwner, &PageService::Stacks},
    {"POST", "/api/stop", Needs::kOwner, &PageService::Stop},
    {"POST", "/api/drain", Needs::kOwner, &PageService::Drain},
};

PageService::PageService(Options options)
    : options_(std::move(options)),
      gate_(options_.gate),
      logs_(WithFull(
          options_.logs,
          [this](const std::string& why) { CountRefusal(refusal::kHttpTooManyLogs, why); })),
      feed_({options_.loop, options_.events, options_.daemon,
             [this](TimePoint now) { logs_.EndOverdue(now); },
             [this](const std::string& why) { CountRefusal(refusal::kHttpTooManyViewers, why); }}),
      states_(
          [this](const ViewKey& key, const SharedAnswers::Done& done) {
            feed_.Get(key,
                      [done](absl::StatusOr<std::string> json) { done(Shared(std::move(json))); });
          },
          &Now),
      metrics_(
          [this](const ViewKey& key, const SharedAnswers::Done& done) {
            options_.metrics(key.redacted ? std::nullopt : std::optional(key.owner),
                             [done](std::string text) { done(Shared(std::move(text))); });
          },
          &Now) {}

std::string PageService::NewCode(const std::string& owner) { return gate_.NewCode(owner, Now()); }

void PageService::Serve(Request request, std::shared_ptr<Responder> responder) {
  const Route* found = nullptr;
  bool is_path = false;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : kRoutes) {
    if (request.target_path != route.path) continue;
    is_path = true;
    if (method == route.method) found = &route;
  }
  const Viewer viewer = gate_.Identify(request, Now());
  if (auto refusal = RefusalOf(request, viewer, found, is_path)) {
    return Refuse(request, responder.get(), *std::move(refusal));
  }
  Call call{std::move(request), viewer, std::move(responder)};
  (this->*found->serve)(call);
}

std::optional<PageService::Refusal> PageService::RefusalOf(const Request& request,
                                                           const Viewer& viewer, const Route* route,
                                                           bool is_path) const {
  if (route == nullptr) {
    return Refusal{refusal::kHttpNoSuchPage,
                   is_path ? ErrorAnswer(405, "this path needs another method")
                           : ErrorAnswer(404, "there is no such page")};
  }
  // A link on another site may lead to the page itself, and to nothing else.
  if (route->path != std::string("/") && IsCrossSite(request)) {
    return Refusal{refusal::kHttpCrossSite,
                   ErrorAnswer(403, "this request comes from the page of another site")};
  }
  // A scraper whose token has become invalid gets an error. As a neighbour it would get the metrics
  // without host names, and all its time series would change.
  if (route->needs == Needs::kMetrics && viewer.kind == Viewer::Kind::kNeighbour &&
      !request.Header("authorization").empty()) {
    return Refusal{
        refusal::kHttpWrongToken,
        ErrorAnswer(401, "Authorization: Bearer TOKEN belongs to no session and no reader")};
  }
  if (!MayUse(viewer, route->needs)) {
    return Refusal{ShowsSecret(request) && viewer.kind != Viewer::Kind::kScraper
                       ? refusal::kHttpWrongToken
                       : refusal::kHttpNoSession,
                   ErrorAnswer(403, "sign in first: `ddprun page` prints a link for this")};
  }
  if (route->method != std::string("POST")) return std::nullopt;
  // A form on another site cannot send this content type.
  if (!absl::StartsWith(request.Header("content-type"), "application/json")) {
    return Refusal{refusal::kHttpContentType,
                   ErrorAnswer(415, "expected a body of type application/json")};
  }
  if (route->needs != Needs::kOwner) return std::nullopt;
  if (const absl::Status allowed = gate_.CheckAction(request, Now()); !allowed.ok()) {
    return Refusal{refusal::kHttpCsrf, ErrorAnswer(allowed)};
  }
  return std::nullopt;
}

void PageService::Refuse(const Request& request, Responder* responder, Refusal refusal) const {
  // Without the path: it is a stranger's text.
  CountRefusal(refusal.reason, absl::StrCat(request.peer, ": ", refusal.answer.status));
  responder->Send(std::move(refusal.answer));
}

void PageService::CountRefusal(const char* reason, const std::string& detail) const {
  if (options_.refused) options_.refused(reason, absl::StrCat("http: ", detail));
}

void PageService::RefuseName(const Call& call, const char* field) const {
  Refuse(call.request, call.responder.get(),
         {refusal::kHttpMalformed, ErrorAnswer(400, absl::StrCat(field, ": expected a name"))});
}

void PageService::RefuseFull(const Call& call) const {
  Refuse(call.request, call.responder.get(),
         {refusal::kHttpTooManyWaiting,
          ErrorAnswer(503, "too many requests wait for an answer: ask again in a second")});
}

// ---- for everybody ----

// A standby has no job to show.
void PageService::ShowLeader(Call& call, const std::string& leader) {
  call.responder->Send(
      {.status = 503,
       .body = leader.empty() ? std::string("this rendezvous stands by: no leader is known\n")
                              : absl::StrCat("this rendezvous stands by: the leader is at ", leader,
                                             "; its page is at the port of its --http\n"),
       .headers = {{"Refresh", "2"}}});
}

void PageService::Page(Call& call) {
  if (const auto leadership = options_.daemon().leadership; leadership && !leadership->leads) {
    return ShowLeader(call, leadership->leader);
  }
  const std::string nonce = absl::WebSafeBase64Escape(options_.gate.random(kNonceBytes));
  call.responder->Send(
      {.status = 200,
       .content_type = "text/html; charset=utf-8",
       .body = absl::StrReplaceAll(PageSource(), {{"__NONCE__", nonce}}),
       .headers = {{"Content-Security-Policy",
                    absl::StrCat("default-src 'none'; script-src 'nonce-", nonce,
                                 "'; style-src 'nonce-", nonce,
                                 "'; img-src data:; connect-src 'self'; base-uri 'none'; "
                                 "form-action 'none'; frame-ancestors 'none'")}}});
}

void PageService::Health(Call& call) { call.responder->Send({.body = "ok\n"}); }

// A standby is ready while etcd answers: then it can take over.
void PageService::Ready(Call& call) {
  const auto answer = [responder = call.responder](const absl::Status& status) {
    if (status.ok()) return responder->Send({.body = "ok\n"});
    responder->Send({.status = 503, .body = absl::StrCat("not ready: ", status.message(), "\n")});
  };
  const DaemonStatus daemon = options_.daemon();
  const auto& leadership = daemon.leadership;
  if (leadership &&
      !(leadership->leads ? leadership->valid_for > Duration(0) : leadership->reached)) {
    return answer(absl::UnavailableError("etcd does not answer"));
  }
  if (daemon.descriptor_limit > 0 && daemon.descriptors > daemon.descriptor_limit) {
    return answer(absl::ResourceExhaustedError(
        absl::StrCat("agents are refused: ", daemon.descriptors, " descriptors are open, of ",
                     daemon.descriptor_limit)));
  }
  if (leadership && !leadership->leads) return answer(absl::OkStatus());
  options_.loop->CheckReady(answer);
}

void PageService::LogIn(Call& call) {
  const auto session = gate_.SignIn(Body(call.request).Text("code"), Now());
  if (!session) {
    return Refuse(call.request, call.responder.get(),
                  {refusal::kHttpWrongCode,
                   ErrorAnswer(403,
                               "this link was used, or is older than a minute: `ddprun page` "
                               "prints a new one")});
  }
  Json json = {{"csrf", session->csrf},
               {"expires_ms", std::chrono::milliseconds(options_.gate.session_lifetime).count()}};
  const bool by_cookie = SessionByOf(call.request) == SessionBy::kCookie;
  if (!by_cookie) json["token"] = session->secret;
  Response answer = JsonAnswer(json);
  if (by_cookie) {
    answer.headers.push_back(Cookie(session->secret, options_.gate.session_lifetime));
  }
  call.responder->Send(std::move(answer));
}

void PageService::LogOut(Call& call) {
  gate_.SignOut(call.request, Now());
  Response answer = JsonAnswer(Json{{"text", "signed out"}});
  if (SessionByOf(call.request) == SessionBy::kCookie) {
    answer.headers.push_back(Cookie("", std::chrono::seconds(0)));
  }
  call.responder->Send(std::move(answer));
  feed_.Run([] {});  // the feed's next turn ends the streams of the session
}

void PageService::Session(Call& call) {
  const bool signed_in = call.viewer.signed_in();
  Json json = {{"signed_in", signed_in}, {"may_act", signed_in}};
  if (MayUse(call.viewer, Needs::kStates)) json["version"] = options_.daemon().version;
  if (signed_in) json["csrf"] = call.viewer.csrf;
  call.responder->Send(JsonAnswer(json));
}

// ---- states ----

void PageService::ShowMetrics(Call& call) {
  if (!options_.metrics) return call.responder->Send(ErrorAnswer(404, "there are no metrics"));
  const bool accepted =
      metrics_.Get(call.Key(""), [responder = call.responder](const SharedAnswers::Answer& text) {
        responder->Send({.status = 200,
                         .content_type = "text/plain; version=0.0.4; charset=utf-8",
                         .body = **text});
      });
  if (!accepted) RefuseFull(call);
}

void PageService::Jobs(Call& call) {
  const bool accepted =
      states_.Get(call.Key(""), [responder = call.responder](const SharedAnswers::Answer& json) {
        responder->Send(StatesAnswer(json));
      });
  if (!accepted) RefuseFull(call);
}

void PageService::Job(Call& call) {
  const std::string job = call.request.Query("job");
  if (!IsName(job, wire::kMaxJobBytes)) return RefuseName(call, "job");
  const bool accepted =
      states_.Get(call.Key(job), [responder = call.responder](const SharedAnswers::Answer& json) {
        responder->Send(StatesAnswer(json));
      });
  if (!accepted) RefuseFull(call);
}

void PageService::Events(Call& call) {
  const std::string job = call.request.Query("job");
  if (job.size() > wire::kMaxJobBytes) return RefuseName(call, "job");
  feed_.Watch(call.Key(job), call.viewer.until, call.responder);
}

// ---- for the owner ----

void PageService::Logs(Call& call) {
  if (!logs_.exist()) return call.responder->Send(ErrorAnswer(404, "there are no logs here"));
  auto wanted = LogRequestOf(call.request);
  if (!wanted.ok()) {
    return Refuse(call.request, call.responder.get(),
                  {refusal::kHttpMalformed, ErrorAnswer(wanted.status())});
  }
  logs_.Begin(call.viewer.owner, call.viewer.until, *std::move(wanted), call.responder);
}

void PageService::Stacks(Call& call) {
  const std::string job = call.request.Query("job");
  if (!IsName(job, wire::kMaxJobBytes)) return RefuseName(call, "job");
  options_.loop->GetStacks(
      call.viewer.owner, job,
      [this, responder = call.responder](absl::StatusOr<JobLoop::Stacks> stacks) {
        feed_.Run(
            [responder, stacks = std::move(stacks)] { responder->Send(StacksAnswer(stacks)); });
      });
}

void PageService::Stop(Call& call) {
  const Body body(call.request);
  const std::string job = body.Text("job");
  if (!IsName(job, wire::kMaxJobBytes)) return RefuseName(call, "job");
  options_.loop->StopJob(call.viewer.owner, job, body.IsOn("save"), AnswerTo(call.responder));
}

void PageService::Drain(Call& call) {
  const Body body(call.request);
  const std::string job = body.Text("job");
  const std::string host = body.Text("host");
  if (!IsName(job, wire::kMaxJobBytes)) return RefuseName(call, "job");
  if (!IsName(host, wire::kMaxHostBytes)) return RefuseName(call, "host");
  options_.loop->DrainNode(call.viewer.owner, job, host, AnswerTo(call.responder));
}

}  // namespace ddprun::http
