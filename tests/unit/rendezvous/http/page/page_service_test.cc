// The page's routes, over real connections, with a real JobLoop.
#include "rendezvous/http/page/page_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/wire/translate.h"
#include "tests/support/http_client.h"
#include "tests/unit/rendezvous/service/job/job_loop_fixture.h"

namespace ddprun::http {
namespace page_service_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

// A log service that is played by a test.
struct PlayedLogs {
  LogService Service() {
    return {[this](std::string owner, LogRequest request, std::shared_ptr<LogReader> reader) {
              const std::lock_guard lock(mutex);
              asked_owner = std::move(owner);
              asked = std::move(request);
              reading = std::move(reader);
              changed.notify_all();
              return LogReadId{7};
            },
            [this](LogReadId, std::size_t bytes) {
              const std::lock_guard lock(mutex);
              acknowledged += bytes;
              changed.notify_all();
            },
            [this](LogReadId) {
              const std::lock_guard lock(mutex);
              cancelled = true;
              changed.notify_all();
            }};
  }
  template <class Condition>
  bool Wait(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kTestDeadline, condition);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::string asked_owner;
  LogRequest asked;
  std::shared_ptr<LogReader> reading;
  std::size_t acknowledged = 0;
  bool cancelled = false;
};

class PageServiceTest : public JobLoopTest {
 protected:
  PageServiceTest() { StartWith({}); }
  ~PageServiceTest() override { End(); }

  void StartWith(PageService::Options options) {
    End();
    JobLoopOptions loop = Options({.leases = false});
    loop.events = [events = events_](std::string_view job, std::string_view owner,
                                     std::uint32_t requeue_number, const JobEvent& event) {
      events->Add(job, owner, requeue_number, event);
    };
    loop_ = std::make_unique<JobLoop>(std::move(loop));
    options.loop = loop_.get();
    options.events = events_;
    daemon_.version = "1.2.3";
    options.daemon = [this] {
      DaemonStatus status = daemon_;
      status.leadership = leadership_;
      return status;
    };
    options.gate.random = &auth::RandomBytes;
    options.refused = [this](std::string_view reason, const std::string&) {
      const std::lock_guard lock(refused_mutex_);
      refused_.emplace_back(reason);
    };
    page_ = std::make_unique<PageService>(std::move(options));
    auto server = HttpServer::Start({.listen = "127.0.0.1:0", .max_unsent = 4 << 20},
                                    [this](Request request, std::shared_ptr<Responder> responder) {
                                      page_->Serve(std::move(request), std::move(responder));
                                    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void End() {
    if (page_ == nullptr) return;
    page_->Shutdown();
    server_->Shutdown();
    loop_->Shutdown();
    page_.reset();
  }

  int port() const { return server_->port(); }
  // Headers of a session of this owner.
  std::string SignIn(const std::string& owner) {
    const std::string answer = Ask(port(), Post("/api/login", CodeOf(page_->NewCode(owner))));
    const Json json = BodyOf(answer);
    return absl::StrCat("Authorization: Bearer ", json.value("token", ""), "\r\n");
  }
  static std::string CodeOf(const std::string& code) {
    return absl::StrCat(R"({"code":")", code, R"("})");
  }
  static Json BodyOf(const std::string& answer) {
    const std::size_t body = answer.find("\r\n\r\n");
    return Json::parse(body == std::string::npos ? "" : answer.substr(body + 4), nullptr, false);
  }
  static std::string OrderHeaders(const std::string& session) {
    return session + "Content-Type: application/json\r\n";
  }

  // The reason why the request was refused; "": it was not refused.
  std::string Reason(const std::string& request) {
    TakeRefused();
    Ask(port(), request);
    const std::vector<std::string> refused = TakeRefused();
    EXPECT_LE(refused.size(), 1u);
    return refused.empty() ? "" : refused.front();
  }
  std::vector<std::string> TakeRefused() {
    const std::lock_guard lock(refused_mutex_);
    return std::exchange(refused_, {});
  }

  std::mutex refused_mutex_;
  std::vector<std::string> refused_;  // guarded by refused_mutex_
  DaemonStatus daemon_;
  const std::shared_ptr<EventLog> events_ = std::make_shared<EventLog>(EventLog::Options{});
  std::optional<LeadershipStatus> leadership_;  // set it while no request is under way
  std::unique_ptr<PageService> page_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(PageServiceTest, ThePageHasItsOwnNonceEachTime) {
  const std::string answer = Ask(port(), Get("/"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("script-src 'nonce-"));
  EXPECT_THAT(answer, HasSubstr("default-src 'none'"));
  EXPECT_THAT(answer, Not(HasSubstr("unsafe")));
  EXPECT_THAT(answer, Not(HasSubstr("__NONCE__")));
  const std::size_t begin = answer.find("'nonce-") + 7;
  const std::string nonce = answer.substr(begin, answer.find('\'', begin) - begin);
  EXPECT_THAT(answer, HasSubstr("nonce=\"" + nonce + "\""));
  EXPECT_THAT(Ask(port(), Get("/")), Not(HasSubstr(nonce)));
}

TEST_F(PageServiceTest, WhetherItIsThereAnybodyMayAsk) {
  EXPECT_THAT(Ask(port(), Get("/healthz")), EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(Ask(port(), Get("/readyz")), EndsWith("\r\n\r\nok\n"));
}

TEST_F(PageServiceTest, AStandbySaysWhoLeadsAndIsReadyWhileEtcdAnswers) {
  leadership_.emplace();
  leadership_->leader = "h2:29400";
  EXPECT_THAT(Ask(port(), Get("/")),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("the leader is at h2:29400")));
  EXPECT_THAT(Ask(port(), Get("/readyz")), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Ask(port(), Get("/healthz")), EndsWith("\r\n\r\nok\n"));
  leadership_->reached = true;
  EXPECT_THAT(Ask(port(), Get("/readyz")), EndsWith("\r\n\r\nok\n"));
}

TEST_F(PageServiceTest, ALeaderIsReadyWhileItMayAcknowledge) {
  leadership_.emplace();
  leadership_->leads = true;
  leadership_->reached = true;
  EXPECT_THAT(Ask(port(), Get("/readyz")), StartsWith("HTTP/1.1 503 "));
  leadership_->valid_for = std::chrono::seconds(1);
  EXPECT_THAT(Ask(port(), Get("/readyz")), EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(Ask(port(), Get("/")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(PageServiceTest, IsNotReadyWithoutTheLoopOrWithoutDescriptors) {
  loop_->Shutdown();
  EXPECT_THAT(Ask(port(), Get("/readyz")),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("not ready: the rendezvous is shutting "
                                                          "down\n")));
  EXPECT_THAT(Ask(port(), Get("/healthz")), StartsWith("HTTP/1.1 200 "));
  daemon_.descriptors = daemon_.descriptor_limit = 1000;  // the last session that is accepted
  StartWith({});
  EXPECT_THAT(Ask(port(), Get("/readyz")), StartsWith("HTTP/1.1 200 "));
  daemon_.descriptors = 1001;
  StartWith({});
  EXPECT_THAT(Ask(port(), Get("/readyz")),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("1001 descriptors are open, of 1000")));
}

TEST_F(PageServiceTest, WhoSignsOutHearsNothingMore) {
  const std::string ann = SignIn("ann");
  HttpClient viewer(port());
  viewer.Say(Get("/api/events", ann));
  ASSERT_TRUE(viewer.HearUntil("event: jobs\n"));
  EXPECT_THAT(Ask(port(), Post("/api/logout", "{}", OrderHeaders(""))),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Ask(port(), Post("/api/logout", "{}", OrderHeaders(ann))),
              StartsWith("HTTP/1.1 200 "));
  viewer.HearAll();  // the stream ends
  EXPECT_EQ(BodyOf(Ask(port(), Get("/api/session", ann)))["signed_in"], false);
}

TEST_F(PageServiceTest, WhatIsNotThereIsToldSo) {
  EXPECT_THAT(Ask(port(), Get("/api/x")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask(port(), Get("/metrics")), StartsWith("HTTP/1.1 404 "));  // no metrics are set
  EXPECT_THAT(Ask(port(), Post("/api/jobs", "{}")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(port(), Get("/api/job?job=nobodys")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask(port(), Get("/api/events?job=nobodys")), StartsWith("HTTP/1.1 404 "));
}

TEST_F(PageServiceTest, ACodeOpensOneSession) {
  const std::string code = page_->NewCode("");
  const std::string answer = Ask(port(), Post("/api/login", CodeOf(code)));
  EXPECT_EQ(BodyOf(answer)["expires_ms"], 12 * 3600 * 1000);
  EXPECT_THAT(answer, Not(HasSubstr("Set-Cookie")));  // on loopback
  EXPECT_THAT(Ask(port(), Post("/api/login", CodeOf(code))), StartsWith("HTTP/1.1 403 "));
  const std::string session =
      absl::StrCat("Authorization: Bearer ", std::string(BodyOf(answer)["token"]), "\r\n");
  const Json who = BodyOf(Ask(port(), Get("/api/session", session)));
  EXPECT_EQ(who["signed_in"], true);
  EXPECT_EQ(who["version"], "1.2.3");
  EXPECT_EQ(BodyOf(Ask(port(), Get("/api/session")))["signed_in"], false);
}

TEST_F(PageServiceTest, TheOwnerSeesHisJobsWithNames) {
  Joined("ours", 1, 1, "ann");
  Joined("theirs", 2, 1, "bob");
  const std::string ann = SignIn("ann");
  const Json jobs = BodyOf(Ask(port(), Get("/api/jobs", ann)));
  ASSERT_EQ(jobs["jobs"].size(), 1u) << jobs;
  EXPECT_EQ(jobs["jobs"][0]["job"], "ours");
  EXPECT_EQ(jobs["jobs"][0]["nodes"], 1);
  const Json job = BodyOf(Ask(port(), Get("/api/job?job=ours", ann)));
  EXPECT_EQ(job["nodes"]["hosts"][0], "n1");
  EXPECT_THAT(Ask(port(), Get("/api/job?job=theirs", ann)), StartsWith("HTTP/1.1 404 "));
}

TEST_F(PageServiceTest, ANeighbourSeesStatesWithoutNamesAndNothingElse) {
  Joined("ours", 1, 2, "ann");
  const Json job = BodyOf(Ask(port(), Get("/api/job?job=ours")));
  EXPECT_EQ(job["nodes"]["hosts"][0], "node 1");
  EXPECT_EQ(job["reason"], "");
  EXPECT_EQ(BodyOf(Ask(port(), Get("/api/jobs")))["jobs"].size(), 1u);
  for (const std::string& request : {Get("/api/stacks?job=ours"), Get("/api/logs?job=ours&rank=0"),
                                     Post("/api/stop", R"({"job":"ours"})"),
                                     Post("/api/drain", R"({"job":"ours","host":"n1"})")}) {
    EXPECT_THAT(Ask(port(), request), StartsWith("HTTP/1.1 403 ")) << request;
  }
}

TEST_F(PageServiceTest, APrivatePageShowsANeighbourNothing) {
  PageService::Options options;
  options.gate.is_private = true;
  StartWith(std::move(options));
  for (const char* path : {"/api/jobs", "/api/job?job=a", "/api/events", "/metrics"}) {
    EXPECT_THAT(Ask(port(), Get(path)), StartsWith("HTTP/1.1 403 ")) << path;
  }
  EXPECT_THAT(Ask(port(), Get("/healthz")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(port(), Get("/")), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(BodyOf(Ask(port(), Get("/api/session"))).count("version"), 0u);
}

TEST_F(PageServiceTest, AnotherSitesPageIsRefused) {
  const std::string session = SignIn("");
  EXPECT_THAT(Ask(port(), Get("/api/jobs", session + "Sec-Fetch-Site: cross-site\r\n")),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Ask(port(), Post("/api/stop", R"({"job":"a"})",
                               OrderHeaders(session) + "Origin: http://evil.example\r\n")),
              StartsWith("HTTP/1.1 403 "));
  // A form on another site can send this without a preflight request.
  EXPECT_THAT(
      Ask(port(), Post("/api/stop", R"({"job":"a"})", session + "Content-Type: text/plain\r\n")),
      StartsWith("HTTP/1.1 415 "));
  // A link on another site may lead to the page.
  EXPECT_THAT(Ask(port(), Get("/", "Sec-Fetch-Site: cross-site\r\n")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(PageServiceTest, EachRefusalIsCountedByItsReason) {
  PageService::Options options;
  options.metrics = [](auto&&, const std::function<void(std::string)>& done) { done("text\n"); };
  PlayedLogs logs;
  options.logs = logs.Service();
  options.gate.readers = {{"prom", "a-token-that-reads"}};
  StartWith(std::move(options));
  const std::string ann = SignIn("ann");
  const std::string old = "Authorization: Bearer an-old-token\r\n";
  const std::string stop = R"({"job":"a"})";
  EXPECT_EQ(Reason(Get("/")), "");
  EXPECT_EQ(Reason(Get("/metrics")), "");
  EXPECT_EQ(Reason(Get("/metrics", "Authorization: Bearer a-token-that-reads\r\n")), "");
  EXPECT_EQ(Reason(Get("/metrics", old)), "http_wrong_token");
  EXPECT_EQ(Reason(Get("/api/stacks?job=a", old)), "http_wrong_token");
  EXPECT_EQ(Reason(Get("/api/stacks?job=a", "Cookie: __Host-ddprun=x\r\n")), "http_wrong_token");
  EXPECT_EQ(Reason(Get("/api/stacks?job=a")), "http_no_session");
  EXPECT_EQ(Reason(Get("/api/stacks?job=a", "Authorization: Bearer a-token-that-reads\r\n")),
            "http_no_session");
  EXPECT_EQ(Reason(Get("/api/x")), "http_no_such_page");
  EXPECT_EQ(Reason(Post("/api/jobs", "{}")), "http_no_such_page");
  EXPECT_EQ(Reason(Get("/api/jobs", "Sec-Fetch-Site: cross-site\r\n")), "http_cross_site");
  EXPECT_EQ(Reason(Post("/api/stop", stop, ann + "Content-Type: text/plain\r\n")),
            "http_content_type");
  EXPECT_EQ(Reason(Post("/api/stop", "[]", OrderHeaders(ann))), "http_malformed");
  EXPECT_EQ(Reason(Get("/api/logs?job=a", ann)), "http_malformed");
  const std::string code = page_->NewCode("");
  EXPECT_EQ(Reason(Post("/api/login", CodeOf(code))), "");
  EXPECT_EQ(Reason(Post("/api/login", CodeOf(code))), "http_wrong_code");
  EXPECT_EQ(Reason(Post("/api/login", CodeOf("made-up"))), "http_wrong_code");
  End();
}

TEST_F(PageServiceTest, StopAndDrainActOnTheOwnersJobsOnly) {
  const auto agent = Joined("ours", 1, 1, "ann");
  ASSERT_TRUE(agent->WaitFor<Assignment>());
  loop_->OnMessage(agent, HeaderOf("ours", 1), AssignmentAck{});
  ASSERT_TRUE(agent->WaitFor<ddprun::Start>());
  const std::string bob = OrderHeaders(SignIn("bob"));
  const std::string ann = OrderHeaders(SignIn("ann"));
  const std::string stop = R"({"job":"ours","save":false})";
  EXPECT_THAT(Ask(port(), Post("/api/stop", stop, bob)), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask(port(), Post("/api/drain", R"({"job":"ours","host":"n7"})", ann)),
              HasSubstr("there is no node n7"));
  EXPECT_THAT(Ask(port(), Post("/api/stop", "[]", ann)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(port(), Post("/api/stop", "{", ann)), StartsWith("HTTP/1.1 400 "));
  const std::string answer = Ask(port(), Post("/api/stop", stop, ann));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_FALSE(std::string(BodyOf(answer)["text"]).empty());
}

TEST_F(PageServiceTest, AViewerHearsHistoryStateAndWhatHappensNext) {
  const auto agent = Joined("ours", 1, 1, "ann");
  ASSERT_TRUE(agent->WaitFor<Assignment>());
  HttpClient viewer(port());
  viewer.Say(Get("/api/events?job=ours", SignIn("ann")));
  ASSERT_TRUE(viewer.HearUntil("event: job\n"));
  EXPECT_THAT(viewer.heard(), HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(viewer.heard(), HasSubstr("event: history\ndata: [{"));
  EXPECT_THAT(viewer.heard(), HasSubstr(R"("event":"joined","host":"n1")"));
  viewer.Forget();
  loop_->OnMessage(agent, HeaderOf("ours", 1), AssignmentAck{});
  ASSERT_TRUE(viewer.HearUntil(R"("event":"started")"));
  ASSERT_TRUE(viewer.HearUntil(R"("state":"Running")"));
  EXPECT_THAT(viewer.heard(), HasSubstr("event: line\n"));
}

// Red if an error of the JobLoop is taken for a list without jobs.
TEST_F(PageServiceTest, AJobOfARendezvousThatMayNotAnswerIsNotForgotten) {
  Joined("ours", 1, 1, "ann");
  const std::string ann = SignIn("ann");
  HttpClient viewer(port());
  viewer.Say(Get("/api/events?job=ours", ann));
  ASSERT_TRUE(viewer.HearUntil("event: job\n"));
  loop_->Shutdown();
  ASSERT_TRUE(viewer.HearUntil("event: bye\ndata: {\"text\":\"the rendezvous is shutting down\"}"));
  for (const char* const path : {"/api/jobs", "/api/job?job=ours", "/api/events?job=ours"}) {
    // Another request may have had a fresh answer.
    EXPECT_THAT(Ask(port(), Get(path, ann)), StartsWith("HTTP/1.1 503 ")) << path;
  }
}

TEST_F(PageServiceTest, ANeighbourHearsOfNoHost) {
  const auto agent = Joined("ours", 17, 1, "ann");
  ASSERT_TRUE(agent->WaitFor<Assignment>());
  HttpClient viewer(port());
  viewer.Say(Get("/api/events?job=ours"));
  ASSERT_TRUE(viewer.HearUntil("event: job\n"));
  loop_->OnMessage(agent, HeaderOf("ours", 17), AssignmentAck{});
  ASSERT_TRUE(viewer.HearUntil(R"("event":"started")"));
  EXPECT_THAT(viewer.heard(), HasSubstr(R"("event":"joined")"));
  EXPECT_THAT(viewer.heard(), Not(HasSubstr("n17")));
  viewer.Forget();
  Joined("ours", 18, 1, "ann");  // new lines are redacted too
  ASSERT_TRUE(viewer.HearUntil(R"("event":"joined")"));
  ASSERT_TRUE(viewer.HearUntil("event: job\n"));
  EXPECT_THAT(viewer.heard(), Not(HasSubstr("n18")));
}

TEST_F(PageServiceTest, TheListIsTheSameForAllWhoWatchIt) {
  Joined("ours", 1, 2, "ann");
  const std::string ann = SignIn("ann");
  std::vector<std::unique_ptr<HttpClient>> viewers;
  for (int i = 0; i < 8; ++i) {
    viewers.push_back(std::make_unique<HttpClient>(port()));
    viewers.back()->Say(Get("/api/events", ann));
    ASSERT_TRUE(viewers.back()->HearUntil("event: jobs\n"));
  }
  Joined("more", 2, 2, "ann");
  for (const auto& viewer : viewers) EXPECT_TRUE(viewer->HearUntil(R"({"job":"more",)"));
}

TEST_F(PageServiceTest, OneViewerTooManyIsToldSo) {
  rlimit descriptors{};  // both ends of each connection are here
  getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
  StartWith({});
  std::vector<std::unique_ptr<HttpClient>> viewers;
  const auto watch = [&](const std::string& session) {
    viewers.push_back(std::make_unique<HttpClient>(port()));
    viewers.back()->Say(Get("/api/events", session));
    return viewers.back()->HearUntil("event: jobs\n");
  };
  const std::size_t neighbours = StateFeed::kMostViewers - StateFeed::kReserved;
  for (std::size_t i = 0; i < neighbours; ++i) ASSERT_TRUE(watch("")) << i;
  EXPECT_THAT(Ask(port(), Get("/api/events")), StartsWith("HTTP/1.1 503 "));
  const std::string ann = SignIn("ann");
  for (std::size_t i = neighbours; i < StateFeed::kMostViewers; ++i) {
    ASSERT_TRUE(watch(ann)) << i;
  }
  EXPECT_THAT(Ask(port(), Get("/api/events", ann)), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(TakeRefused(), ElementsAre("http_too_many_viewers", "http_too_many_viewers"));
  viewers.erase(viewers.begin());
  // There is room again as soon as the server has noticed the end of a viewer.
  std::string answer;
  do {
    HttpClient next(port());
    next.Say(Get("/api/events"));
    next.HearUntil("\r\n\r\n");
    answer = next.heard();
  } while (!absl::StartsWith(answer, "HTTP/1.1 200 ") && !testing::Test::HasFailure());
}

TEST_F(PageServiceTest, AtItsEndViewersAreToldGoodbye) {
  HttpClient viewer(port());
  viewer.Say(Get("/api/events"));
  ASSERT_TRUE(viewer.HearUntil("event: jobs\n"));
  End();
  EXPECT_THAT(viewer.HearAll(), HasSubstr("event: bye\n"));
}

TEST_F(PageServiceTest, MetricsAreThoseOfWhoAsks) {
  PageService::Options options;
  options.metrics = [](const std::optional<std::string>& owner,
                       const std::function<void(std::string)>& done) {
    done(owner ? absl::StrCat("owner=", *owner, "\n") : "redacted\n");
  };
  options.gate.readers = {{"prom", "a-token-that-reads"}};
  StartWith(std::move(options));
  EXPECT_THAT(Ask(port(), Get("/metrics")), EndsWith("\r\n\r\nredacted\n"));
  EXPECT_THAT(Ask(port(), Get("/metrics", SignIn("ann"))), EndsWith("owner=ann\n"));
  // Not "redacted": an operator must notice that the token of the scraper is not valid any more.
  EXPECT_THAT(Ask(port(), Get("/metrics", "Authorization: Bearer an-old-token\r\n")),
              StartsWith("HTTP/1.1 401 "));
  const std::string answer =
      Ask(port(), Get("/metrics", "Authorization: Bearer a-token-that-reads\r\n"));
  EXPECT_THAT(answer, EndsWith("owner=token:prom\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4"));
}

// A scraper in a tight loop makes the rendezvous collect metrics only once a second.
TEST_F(PageServiceTest, WhoAsksOftenGetsTheSameAnswerForASecond) {
  std::atomic<int> looks{0};
  PageService::Options options;
  options.metrics = [&](const std::optional<std::string>&,
                        const std::function<void(std::string)>& done) {
    done(absl::StrCat("look ", ++looks, "\n"));
  };
  StartWith(std::move(options));
  const TimePoint begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(Ask(port(), Get("/metrics")), HasSubstr("\r\n\r\nlook ")) << i;
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(looks, 1 + std::chrono::duration_cast<std::chrono::seconds>(took).count());
  End();
}

TEST_F(PageServiceTest, ALogIsPassedOnAndAcknowledgedOnceTheBrowserHasIt) {
  PlayedLogs logs;
  PageService::Options options;
  options.logs = logs.Service();
  StartWith(std::move(options));
  HttpClient viewer(port());
  viewer.Say(
      Get("/api/logs?job=ours&rank=3&generation=2&stream=stderr&tail=50&follow=1", SignIn("ann")));
  ASSERT_TRUE(logs.Wait([&] { return logs.reading != nullptr; }));
  EXPECT_EQ(logs.asked_owner, "ann");
  EXPECT_EQ(logs.asked.job, "ours");
  EXPECT_EQ(logs.asked.ranks, std::vector<Rank>{Rank{3}});
  EXPECT_EQ(logs.asked.generation, Generation{2});
  EXPECT_EQ(logs.asked.streams, LogStreams::kStderr);
  EXPECT_EQ(logs.asked.span.lines, 50);
  EXPECT_TRUE(logs.asked.follow);
  logs.reading->OnText({}, "<script>\x1b[31m\n");
  ASSERT_TRUE(viewer.HearUntil("event: text\ndata: \"<script>\\u001b[31m\\n\"\n\n"));
  EXPECT_TRUE(logs.Wait([&] { return logs.acknowledged == 14; }));
  logs.reading->OnSourceEnd({}, "the agent has gone");
  logs.reading->OnEnd(absl::OkStatus());
  EXPECT_THAT(viewer.HearAll(), HasSubstr("event: end\ndata: {\"text\":\"the agent has gone\"}"));
  End();  // until then the page may call `logs`
  EXPECT_FALSE(logs.cancelled);
}

TEST_F(PageServiceTest, ALogThatNobodyReadsAnyMoreIsCancelled) {
  PlayedLogs logs;
  PageService::Options options;
  options.logs = logs.Service();
  StartWith(std::move(options));
  {
    HttpClient viewer(port());
    viewer.Say(Get("/api/logs?job=ours&rank=3", SignIn("ann")));
    ASSERT_TRUE(logs.Wait([&] { return logs.reading != nullptr; }));
  }
  EXPECT_TRUE(logs.Wait([&] { return logs.cancelled; }));
  End();
}

TEST_F(PageServiceTest, ALogEndsWithItsSession) {
  PlayedLogs logs;
  PageService::Options options;
  options.logs = logs.Service();
  options.gate.session_lifetime = std::chrono::seconds(2);
  StartWith(std::move(options));
  HttpClient viewer(port());
  viewer.Say(Get("/api/logs?job=ours&rank=3&follow=1", SignIn("ann")));
  ASSERT_TRUE(logs.Wait([&] { return logs.reading != nullptr; }));
  EXPECT_THAT(viewer.HearAll(), HasSubstr("event: end\ndata: {\"text\":\"you are signed out"));
  EXPECT_TRUE(logs.Wait([&] { return logs.cancelled; }));
  End();
}

TEST_F(PageServiceTest, OneOwnerLeavesPlacesForTheLogsOfOthers) {
  PlayedLogs logs;
  PageService::Options options;
  options.logs = logs.Service();
  StartWith(std::move(options));
  const std::string request = Get("/api/logs?job=ours&rank=3&follow=1", SignIn("ann"));
  std::vector<std::unique_ptr<HttpClient>> viewers;
  for (std::size_t i = 0; i < LogViews::kMostOfOwner; ++i) {
    viewers.push_back(std::make_unique<HttpClient>(port()));
    viewers.back()->Say(request);
    ASSERT_TRUE(viewers.back()->HearUntil("\r\n\r\n"));
    ASSERT_THAT(viewers.back()->heard(), StartsWith("HTTP/1.1 200 "));
  }
  EXPECT_EQ(Reason(request), "http_too_many_logs");
  EXPECT_THAT(Ask(port(), request), StartsWith("HTTP/1.1 503 "));
  HttpClient bob(port());
  bob.Say(Get("/api/logs?job=his&rank=0&follow=1", SignIn("bob")));
  ASSERT_TRUE(bob.HearUntil("\r\n\r\n"));
  EXPECT_THAT(bob.heard(), StartsWith("HTTP/1.1 200 "));
  End();
}

TEST_F(PageServiceTest, AnOddRequestForALogIsRefused) {
  PlayedLogs logs;
  PageService::Options options;
  options.logs = logs.Service();
  StartWith(std::move(options));
  const std::string ann = SignIn("ann");
  for (const char* query :
       {"", "job=a", "rank=1", "job=a&rank=-1", "job=a&rank=x", "job=a&rank=99999999999",
        "job=a&rank=1&stream=/etc/passwd", "job=a&rank=1&tail=-5", "job=a&rank=1&generation=1.5"}) {
    EXPECT_THAT(Ask(port(), Get(absl::StrCat("/api/logs?", query), ann)),
                StartsWith("HTTP/1.1 400 "))
        << query;
  }
}

}  // namespace page_service_test
}  // namespace ddprun::http
