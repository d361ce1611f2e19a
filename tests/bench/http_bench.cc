// The cost of /metrics and the page for a rendezvous. `ddprun rendezvous --http` runs in a process
// of its own; the simulated agents, a scraper and the viewers run in this one.
//
//     build/bin/http_bench                          64 jobs of 64 nodes, 256 viewers
//     build/bin/http_bench --jobs 4 --nodes 16 --seconds 2 --turns 2 --viewers 16
//
// --nodes is the number of nodes of all jobs together.
//
// The times of heartbeats are measured in slices of 2 s, in turns without scrapes and with one
// scrape a second. The daemon's CPU time is measured in turns without and with viewers. Half of the
// viewers look at the list of jobs, the others at single jobs. Every agent sends a heartbeat a
// second, each with another step, so that the state of every job changes. Exits 1 when a bound is
// broken.
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/simulated_agents.h"
#include "tests/support/http_client.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace {

using std::chrono::seconds;

constexpr double kMostScrapeMs = 100;
constexpr double kMostScrapeMib = 2;
constexpr double kMostTimesWithout = 1.1;  // heartbeats with scrapes, 99th percentile
constexpr double kMostViewersCpu = 0.2;    // of a core, more than without viewers
constexpr int kMostViewers = 256;          // as docs/page.md says
constexpr int kScrapes = 5;
constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr seconds kFresh(2);    // an answer is shared for a second
constexpr seconds kSlice(2);    // with two scrapes, or without one
constexpr seconds kLease(120);  // long: a slow heartbeat loses no agent

struct Flags {
  int jobs = 64;
  int nodes = 4096;  // of all jobs
  int viewers = kMostViewers;
  int seconds = 10;  // of a turn
  int turns = 5;
  std::string ddprun = DDPRUN_BIN_DIR "/ddprun";
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "http_bench: %s\n", what.c_str());
  std::exit(1);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double P99(std::vector<double> values) {
  if (values.empty()) Die("no heartbeat was answered");
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

std::string NameOf(int job) { return absl::StrCat("job-", 1000 + job); }

// The jobs. Their agents only send heartbeats.
class Jobs {
 public:
  Jobs(const Flags& flags, const std::string& endpoint)
      : channels_(OpenChannels(endpoint, flags.jobs, nullptr)) {
    for (int i = 0; i < flags.jobs; ++i) {
      jobs_.push_back(std::make_unique<SimulatedAgents>(
          SimulatedAgents::Options{
              .job = NameOf(i), .agents = flags.nodes / flags.jobs, .workers = 8, .lease = kLease},
          std::vector{channels_[static_cast<std::size_t>(i)]}));
      jobs_.back()->JoinAll();
      jobs_.back()->PrepareAll();
      jobs_.back()->Tell(SimulatedAgents::Tells::kProgress);
    }
  }

  // Adds the times of the heartbeats within this time, in milliseconds.
  void AddHeartbeats(seconds length, std::vector<double>* times) {
    for (const auto& job : jobs_) job->TakeHeartbeatTimes();
    jobs_.front()->Idle(length);
    for (const auto& job : jobs_) {
      for (const auto& [sent, answered] : job->TakeHeartbeatTimes()) {
        times->push_back(Milliseconds(answered - sent).count());
      }
    }
  }

  void Idle(seconds length) { jobs_.front()->Idle(length); }

 private:
  const std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<SimulatedAgents>> jobs_;
};

struct Scrape {
  double ms = 0;
  double mib = 0;
};

Scrape ScrapeOnce(int port) {
  const auto begin = BenchClock::now();
  const std::string answer =
      Ask(port, Get("/metrics", absl::StrCat("Authorization: Bearer ", kToken, "\r\n")));
  const double ms = Milliseconds(BenchClock::now() - begin).count();
  if (!absl::StartsWith(answer, "HTTP/1.1 200 ")) Die("a scrape: " + answer.substr(0, 200));
  return {ms, static_cast<double>(answer.size()) / (1 << 20)};
}

// Scrapes once a second while it lives. A real scraper runs on another host, and takes no CPU from
// the rendezvous: this one runs only where a CPU is idle.
class Scraper {
 public:
  explicit Scraper(int port)
      : thread_([this, port] {
          const sched_param none{};
          sched_setscheduler(0, SCHED_IDLE, &none);
          for (auto next = BenchClock::now(); !ends_; next += seconds(1)) {
            ScrapeOnce(port);
            while (!ends_ && BenchClock::now() < next + seconds(1)) {
              std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the pace of scrapes
            }
          }
        }) {}
  ~Scraper() {
    ends_ = true;
    thread_.join();
  }
  Scraper(const Scraper&) = delete;
  Scraper& operator=(const Scraper&) = delete;

 private:
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

// Browsers that follow the page while this object lives. One thread reads what all of them receive.
class Viewers {
 public:
  Viewers(int port, const std::string& session, const Flags& flags) {
    for (int i = 0; i < flags.viewers; ++i) {
      const std::string query = i % 2 == 0 ? "" : "?job=" + NameOf(i / 2 % flags.jobs);
      auto viewer = std::make_unique<HttpClient>(port);
      viewer->Say(Get("/api/events" + query, session));
      if (!viewer->HearUntil("event: ")) Die("a viewer: " + viewer->heard().substr(0, 200));
      polled_.push_back({viewer->fd(), POLLIN, 0});
      viewers_.push_back(std::move(viewer));
    }
    thread_ = std::thread([this] { Read(); });
  }
  ~Viewers() {
    ends_ = true;
    thread_.join();
  }
  Viewers(const Viewers&) = delete;
  Viewers& operator=(const Viewers&) = delete;

  double received_mib() const { return static_cast<double>(received_) / (1 << 20); }

 private:
  void Read() {
    std::vector<char> buffer(1 << 18);
    while (!ends_) {
      poll(polled_.data(), polled_.size(), 100);
      for (const pollfd& one : polled_) {
        if (one.revents == 0) continue;
        const ssize_t got = recv(one.fd, buffer.data(), buffer.size(), 0);
        if (got <= 0) Die("a viewer was cut off");
        received_ += static_cast<std::uint64_t>(got);
      }
    }
  }

  std::vector<std::unique_ptr<HttpClient>> viewers_;
  std::vector<pollfd> polled_;
  std::atomic<std::uint64_t> received_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class Bench {
 public:
  explicit Bench(const Flags& flags)
      : flags_(flags),
        daemon_(Command()),
        port_(daemon_.http_port()),
        session_(SignIn()),
        jobs_(flags, daemon_.endpoint()) {}

  int Run() {
    std::printf("%d jobs, %d nodes, 1 heartbeat/s each\n", flags_.jobs, flags_.nodes);
    jobs_.Idle(seconds(2));  // until every agent has reported a step
    Scrapes();
    Heartbeats();
    ViewersCpu();
    if (flags_.viewers == kMostViewers) OneTooMany();
    return broken_ == 0 ? 0 : 1;
  }

 private:
  std::vector<std::string> Command() {
    const std::string tokens = folder_ / "tokens";
    std::ofstream(tokens) << kToken << "\n";
    std::filesystem::permissions(tokens, std::filesystem::perms::owner_read);
    return RendezvousCommand(
        {"--insecure", "--http", "127.0.0.1:0", "--http-read-token-file", tokens}, flags_.ddprun);
  }

  // The viewers need a session: only some of their places are for viewers without one.
  std::string SignIn() const {
    Program page(
        {flags_.ddprun, "page", "--quiet", "--insecure", "--rdzv-endpoint", daemon_.endpoint()});
    page.ExitCode();
    const std::string link = page.out();
    const std::string code =
        link.substr(link.find("#code=") + 6, link.find('\n') - link.find("#code=") - 6);
    const std::string answer =
        Ask(port_, Post("/api/login", absl::StrCat(R"({"code":")", code, R"("})")));
    const std::size_t token = answer.find(R"("token":")");
    if (token == std::string::npos) Die("no session: " + answer);
    const std::size_t begin = token + 9;
    return absl::StrCat("Authorization: Bearer ",
                        answer.substr(begin, answer.find('"', begin) - begin), "\r\n");
  }

  void Scrapes() {
    std::vector<double> times;
    double mib = 0;
    for (int i = 0; i < kScrapes; ++i) {
      jobs_.Idle(kFresh);
      const Scrape scrape = ScrapeOnce(port_);
      times.push_back(scrape.ms);
      mib = scrape.mib;
    }
    std::printf("a scrape of /metrics: median %.1f ms %s (at most %.0f), longest %.1f ms; ",
                Median(times), Verdict(Median(times), kMostScrapeMs), kMostScrapeMs,
                *std::max_element(times.begin(), times.end()));
    std::printf("%.2f MiB %s (at most %.0f)\n", mib, Verdict(mib, kMostScrapeMib), kMostScrapeMib);
  }

  // Short slices alternate, and the heartbeats of each kind are judged together. So other load of
  // the machine affects both kinds alike.
  void Heartbeats() {
    std::vector<double> without;
    std::vector<double> with;
    for (int done = 0; done < flags_.seconds * flags_.turns; done += kSlice.count()) {
      jobs_.AddHeartbeats(kSlice, &without);
      const Scraper scraper(port_);
      jobs_.AddHeartbeats(kSlice, &with);
    }
    const double times = P99(with) / P99(without);
    std::printf(
        "heartbeats, p99: %.2f ms without scrapes, %.2f ms with one a second: ×%.2f %s "
        "(at most %.1f)\n",
        P99(without), P99(with), times, Verdict(times, kMostTimesWithout), kMostTimesWithout);
  }

  void ViewersCpu() {
    std::vector<double> without;
    std::vector<double> with;
    double mib = 0;
    for (int turn = 0; turn < flags_.turns; ++turn) {
      without.push_back(ShareOfACore());
      const Viewers viewers(port_, session_, flags_);
      jobs_.Idle(seconds(2));
      const double before = viewers.received_mib();
      with.push_back(ShareOfACore());
      mib = (viewers.received_mib() - before) / flags_.seconds;
    }
    const double more = Median(with) - Median(without);
    std::printf(
        "%d viewers: the rendezvous takes %.1f %% of a core, %.1f %% without them: %.1f %% "
        "more %s (at most %.0f); they are sent %.2f MiB/s\n",
        flags_.viewers, Median(with) * 100, Median(without) * 100, more * 100,
        Verdict(more, kMostViewersCpu), kMostViewersCpu * 100, mib);
  }

  double ShareOfACore() {
    const double before = daemon_.cpu_seconds();
    jobs_.Idle(seconds(flags_.seconds));
    return (daemon_.cpu_seconds() - before) / flags_.seconds;
  }

  void OneTooMany() {
    const Viewers viewers(port_, session_, flags_);
    const std::string answer = Ask(port_, Get("/api/events", session_));
    const bool told = absl::StartsWith(answer, "HTTP/1.1 503 ") &&
                      absl::StrContains(answer, absl::StrCat(kMostViewers, " viewers"));
    std::printf("viewer %d is told: %s\n", kMostViewers + 1, Verdict(told ? 0 : 1, 0));
  }

  const char* Verdict(double value, double bound) {
    if (value <= bound) return "PASS";
    ++broken_;
    return "FAIL";
  }

  const Flags flags_;
  const TempDir folder_;
  const BenchServer daemon_;
  const int port_;
  const std::string session_;  // its header
  Jobs jobs_;
  int broken_ = 0;
};

int Main(int argc, char** argv) {
  // As in launcher/main.cc, for the agents too.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("What /metrics and the page cost a rendezvous.");
  Flags flags;
  app.add_option("--jobs", flags.jobs, "Jobs")->check(CLI::PositiveNumber);
  app.add_option("--nodes", flags.nodes, "Nodes of all jobs")->check(CLI::PositiveNumber);
  app.add_option("--viewers", flags.viewers, "Viewers of the page")->check(CLI::Range(1, 256));
  app.add_option("--seconds", flags.seconds, "Of each turn")->check(CLI::PositiveNumber);
  app.add_option("--turns", flags.turns, "Of each kind")->check(CLI::PositiveNumber);
  app.add_option("--ddprun", flags.ddprun, "The program that is measured");
  CLI11_PARSE(app, argc, argv);
  if (flags.nodes < flags.jobs) Die("each job needs a node");
  RaiseDescriptorLimit();
  return Bench(flags).Run();
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) { return ddprun::Main(argc, argv); }
