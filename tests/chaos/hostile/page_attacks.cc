#include "tests/chaos/hostile/page_attacks.h"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "tests/support/http_client.h"
#include "tests/support/program.h"

namespace ddprun {
namespace {

constexpr int kViewers = 1000;
constexpr int kMostViewers = 192;  // the limit of viewers without a session
constexpr int kScrapers = 64;
constexpr int kScrapes = 50;  // for each scraper
constexpr int kDripMs = 200;
constexpr std::chrono::seconds kMostForAHead{20};  // a head has 10 s, and the machine is busy
const std::string kStop = R"({"job":"live","save":false})";
const std::string kJson = "Content-Type: application/json\r\n";

// "HTTP/1.1 403 Forbidden..." → "403"; "closed" if there is no answer.
std::string StatusOf(const std::string& answer) {
  return answer.size() < 12 ? "closed" : answer.substr(9, 3);
}

// The first text between `begin` and `end`; throws if there is none.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) throw std::runtime_error("no " + begin + " in: " + text);
  const std::size_t from = at + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

// This program plays a thousand clients.
void RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

PageAttacks::PageAttacks(LiveJob* job, std::vector<std::string> flags) : job_(job) {
  RaiseDescriptorLimit();
  port_ = std::stoi(Between(job_->Out(), "page on http://127.0.0.1:", "/"));
  std::vector<std::string> argv = {DdprunPath(), "page", "live", "--rdzv-endpoint",
                                   job_->endpoint()};
  argv.insert(argv.end(), flags.begin(), flags.end());
  Program page(argv);
  page.ExitCode();
  login_ = R"({"code":")" + Between(page.out(), "#code=", "&") + R"("})";
  const std::string token = Between(Ask(port_, Post("/api/login", login_)), R"("token":")", "\"");
  session_ = "Authorization: Bearer " + token + "\r\n";
}

void PageAttacks::HugeBody(Verdicts& verdicts) const {
  verdicts.Add("page: a body of 1 MiB", "413",
               StatusOf(Ask(port_, Post("/api/stop", std::string(1 << 20, 'x'), kJson))));
}

void PageAttacks::HugeBodyInPieces(Verdicts& verdicts) const {
  std::string request =
      "POST /api/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + kJson +
      "\r\n";
  for (int i = 0; i < 256; ++i) request += "1000\r\n" + std::string(0x1000, 'x') + "\r\n";
  verdicts.Add("page: a body of 1 MiB in pieces", "413",
               StatusOf(Ask(port_, request + "0\r\n\r\n")));
}

void PageAttacks::HugeHead(Verdicts& verdicts) const {
  const std::string head = "X-Odd: " + std::string(64 << 10, 'x') + "\r\n";
  verdicts.Add("page: a head of 64 KiB", "431", StatusOf(Ask(port_, Get("/", head))));
}

void PageAttacks::PathTricks(Verdicts& verdicts, unsigned which) const {
  static constexpr const char* kTricks[] = {"/../etc/passwd",
                                            "/%2e%2e/%2e%2e/etc/passwd",
                                            "/api/..%2f..%2fetc/passwd",
                                            "http://evil.example/",
                                            "/%00",
                                            "/api/jobs%0d%0aX: y"};
  verdicts.Add("page: a path with a trick", "400",
               StatusOf(Ask(port_, Get(kTricks[which % std::size(kTricks)]))));
}

void PageAttacks::ForeignHost(Verdicts& verdicts) const {
  verdicts.Add("page: a name of another site (rebinding)", "421",
               StatusOf(Ask(port_, "GET /api/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n")));
}

void PageAttacks::CrossSitePost(Verdicts& verdicts) const {
  const std::string headers = session_ + kJson + "Origin: http://evil.example\r\n";
  verdicts.Add("page: an order from another site", "403",
               StatusOf(Ask(port_, Post("/api/stop", kStop, headers))));
}

void PageAttacks::OrderOfAnotherSitesScript(Verdicts& verdicts) const {
  const std::string headers = session_ + kJson + "Sec-Fetch-Site: cross-site\r\n";
  verdicts.Add("page: an order of another site's script", "403",
               StatusOf(Ask(port_, Post("/api/stop", kStop, headers))));
}

void PageAttacks::FormOfAnotherSite(Verdicts& verdicts) const {
  const std::string headers = session_ + "Content-Type: text/plain\r\n";
  verdicts.Add("page: an order of a form's type", "415",
               StatusOf(Ask(port_, Post("/api/stop", kStop, headers))));
}

void PageAttacks::UsedCode(Verdicts& verdicts) const {
  verdicts.Add("page: a used code", "403", StatusOf(Ask(port_, Post("/api/login", login_))));
}

void PageAttacks::GuessedSession(Verdicts& verdicts) const {
  const std::string guessed = "Authorization: Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n";
  verdicts.Add("page: a guessed session reads stacks", "403",
               StatusOf(Ask(port_, Get("/api/stacks?job=live", guessed))));
}

void PageAttacks::StopsWithoutASession(Verdicts& verdicts) const {
  verdicts.Add("page: an order without a session", "403",
               StatusOf(Ask(port_, Post("/api/stop", kStop, kJson))));
}

void PageAttacks::OtherOwner(Verdicts& verdicts) const {
  Program page({DdprunPath(), "page", "--rdzv-endpoint", job_->endpoint(), "--token-file",
                job_->folder() + "/bob", "--quiet"});
  page.ExitCode();
  const std::string code = Between(page.out(), "#code=", "\n");
  const std::string login = R"({"code":")" + code + R"("})";
  const std::string token = Between(Ask(port_, Post("/api/login", login)), R"("token":")", "\"");
  const std::string headers = "Authorization: Bearer " + token + "\r\n" + kJson;
  verdicts.Add("page: an order of another owner", "404",
               StatusOf(Ask(port_, Post("/api/stop", kStop, headers))));
}

void PageAttacks::DrippingHead(Verdicts& verdicts) const {
  const auto begin = std::chrono::steady_clock::now();
  HttpClient client(port_);
  client.Say("GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
  pollfd heard{client.fd(), POLLIN, 0};
  while (poll(&heard, 1, kDripMs) == 0) client.Say("x");
  const auto took = std::chrono::steady_clock::now() - begin;
  client.HearAll();
  verdicts.Add("page: a head of a byte now and then", "408",
               took < kMostForAHead ? StatusOf(client.heard()) : "too late");
}

void PageAttacks::ScrapeStorm(Verdicts& verdicts) const {
  std::vector<std::unique_ptr<HttpClient>> scrapers;
  for (int i = 0; i < kScrapers; ++i) {
    scrapers.push_back(std::make_unique<HttpClient>(port_));
    for (int j = 1; j < kScrapes; ++j) scrapers.back()->Say(Get("/metrics"));
    scrapers.back()->Say(Get("/metrics", "Connection: close\r\n"));
  }
  int answers = 0;
  for (const auto& scraper : scrapers) {
    const std::string heard = scraper->HearAll();
    for (const char* const status : {"HTTP/1.1 200 ", "HTTP/1.1 503 "}) {
      for (std::size_t at = heard.find(status); at != std::string::npos;) {
        ++answers;
        at = heard.find(status, at + 1);
      }
    }
  }
  verdicts.Add(
      "page: a storm of scrapes", "all answered",
      answers == kScrapers * kScrapes ? "all answered" : std::to_string(answers) + " answered");
}

void PageAttacks::ThousandViewers(Verdicts& verdicts) const {
  std::vector<std::unique_ptr<HttpClient>> viewers;
  int served = 0;
  int told = 0;
  for (int i = 0; i < kViewers; ++i) {
    viewers.push_back(std::make_unique<HttpClient>(port_));
    viewers.back()->Say(Get("/api/events"));
  }
  for (const auto& viewer : viewers) {
    viewer->HearUntil("\r\n\r\n");
    const std::string status = StatusOf(viewer->heard());
    served += status == "200" ? 1 : 0;
    told += status == "503" ? 1 : 0;
  }
  const bool right = served == kMostViewers && served + told == kViewers;
  verdicts.Add("page: a thousand viewers", "192 served, 808 told",
               right ? "192 served, 808 told"
                     : std::to_string(served) + " served, " + std::to_string(told) + " told");
}

}  // namespace ddprun
