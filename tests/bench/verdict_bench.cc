// The cost of merging the stacks of a very large job: for the rendezvous, and for its other jobs.
//
// There are three processes: `ddprun rendezvous`, the simulated agents of the large job, and the
// simulated agents of another job. No rank of the large job moves any more. So the rendezvous asks
// all agents of this job for stacks, merges them, decides, and sends every agent the verdict. The
// simulated agents answer all at once. Real agents take a few tenths of a second, and do not answer
// all together. Real agents run on other machines, so here the process of the large job has the
// lowest priority.
//
// The other job only sends heartbeats. The benchmark compares their times before the question with
// their times while the stacks are merged. To send 16,384 agents the verdict at once takes half a
// second of the two cores; the times of heartbeats meanwhile are printed, too.
//
//     build/bin/verdict_bench                      16,384 agents of 8 workers
//     build/bin/verdict_bench --agents 1024
//
// Exits 1 when a bound is broken, or when the verdict is incomplete or wrong.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "rendezvous/stacks/stack_tree.h"
#include "rendezvous/wire/translate.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/simulated_agents.h"
#include "tests/support/program.h"

namespace ddprun {
namespace {

using std::chrono::seconds;
using Tells = SimulatedAgents::Tells;

constexpr double kMostSeconds = 5;    // until the verdict
constexpr double kMostMib = 300;      // of resident memory, until every agent knows it
constexpr double kMostTimesIdle = 2;  // heartbeats of the other job, 99th percentile
constexpr int kChannels = 64;         // of the large job
constexpr int kLowest = 19;           // priority
constexpr char kReady[] = "ready";    // the other job runs
constexpr int kKinds = 16;            // of nodes
constexpr seconds kLease(120);        // long: a slow heartbeat loses no agent
constexpr seconds kHangTimeout(20);
constexpr seconds kSettle(7);  // all agents have reported a standstill
constexpr seconds kIdle(10);

struct Flags {
  int agents = 16384;
  int workers = 8;
  int heartbeat_seconds = 5;  // of the large job
  std::string ddprun = DDPRUN_BIN_DIR "/ddprun";
  std::string heartbeats_to;  // an endpoint: this is the process of the other job
};

// One rank does not come back from loading data.
int CulpritNode(const Flags& flags) { return flags.agents / 3; }
int CulpritLocalRank(const Flags& flags) { return flags.workers / 3; }

// ---- stacks of a node, as a Python training has them ----

StackFrame Native(const std::string& function, std::uint32_t line = 0) {
  return {function, line == 0 ? "" : "../torch/csrc/distributed/c10d/reducer.cpp", line,
          "libtorch_cpu.so"};
}

// Adds `count` frames of one kind of thread. Their names are as long as C++ names are.
void AddNative(const std::string& component, int count, std::vector<StackFrame>* frames) {
  for (int i = 0; i < count; ++i) {
    frames->push_back(
        Native(absl::StrCat("torch::", component, "::Component", i,
                            "::run(std::shared_ptr<torch::", component, "::State> const&, bool)")));
  }
}

std::vector<StackFrame> MainThread(bool culprit) {
  std::vector<StackFrame> frames;
  for (std::uint32_t i = 0; i < 20; ++i) {
    frames.push_back({absl::StrCat("Trainer.level_", i),
                      absl::StrCat("/opt/train/package/module_", i, ".py"), 100 + i, "python"});
  }
  if (culprit) {
    frames.push_back({"Shards.read", "/opt/train/package/data.py", 88, "python"});
    frames.push_back({"read", "", 0, "libc.so.6"});
    return frames;
  }
  frames.push_back({"Tensor.backward", "/usr/lib/python3/torch/_tensor.py", 488, "python"});
  AddNative("autograd", 14, &frames);
  frames.push_back(Native("c10d::Reducer::finalize_backward()", 1500));
  frames.push_back(Native("c10d::ProcessGroupGloo::AsyncWork::wait(std::chrono::milliseconds)"));
  frames.push_back({"pthread_cond_wait", "", 0, "libc.so.6"});
  return frames;
}

// Twelve threads beside the main one. One of them polls, and its place differs between nodes.
// Another one runs on local rank 0 alone.
StackTree TreeOf(int node, const Flags& flags) {
  StackTree tree;
  for (int local_rank = 0; local_rank < flags.workers; ++local_rank) {
    const auto rank = static_cast<std::uint32_t>(local_rank);
    const bool culprit = node == CulpritNode(flags) && local_rank == CulpritLocalRank(flags);
    tree.Add(rank, ThreadKind::kMain, MainThread(culprit));
    for (int thread = 0; thread < 12; ++thread) {
      if (thread == 11 && local_rank != 0) continue;
      std::vector<StackFrame> frames;
      AddNative(absl::StrCat("thread", thread), 9, &frames);
      if (thread == 0) frames.push_back(Native("poll_once()", 10 + node % kKinds));
      tree.Add(rank, ThreadKind::kOther, frames);
    }
  }
  return tree;
}

// The stacks of every node: copies, with other ranks, of a few trees that were made before.
class Stacks {
 public:
  explicit Stacks(const Flags& flags) : flags_(flags) {
    for (int node = 0; node < kKinds; ++node) usual_.push_back(Make(node));
    culprit_ = Make(CulpritNode(flags));
  }

  v1::StackTree Of(int first_rank) const {
    const int node = first_rank / flags_.workers;
    v1::StackTree tree =
        node == CulpritNode(flags_) ? culprit_ : usual_[static_cast<std::size_t>(node % kKinds)];
    for (v1::StackTree::Node& entry : *tree.mutable_nodes()) {
      for (std::uint32_t& rank : *entry.mutable_ranks()) {
        rank += static_cast<std::uint32_t>(first_rank);
      }
    }
    return tree;
  }
  double kib() const { return static_cast<double>(usual_[0].ByteSizeLong()) / 1024; }

 private:
  // The ranks of the tree begin with 0.
  v1::StackTree Make(int node) const { return wire::ToProto(TreeOf(node, flags_).Encode()); }

  const Flags flags_;
  std::vector<v1::StackTree> usual_;  // by the node's number modulo kKinds
  v1::StackTree culprit_;
};

// ---- the bench ----

double Seconds(BenchClock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Times {
  double p50 = 0;
  double p99 = 0;
  double max = 0;
  std::size_t count = 0;
};

// The times are in ms.
Times TimesOf(const std::vector<SimulatedAgents::HeartbeatTime>& heartbeats,
              BenchClock::time_point from, BenchClock::time_point to) {
  std::vector<double> ms;
  for (const auto& heartbeat : heartbeats) {
    if (heartbeat.answered < from || heartbeat.sent > to) continue;
    ms.push_back(Milliseconds(heartbeat.answered - heartbeat.sent).count());
  }
  if (ms.empty()) return {};
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double quantile) {
    return ms[static_cast<std::size_t>(quantile * static_cast<double>(ms.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.99), at(1), ms.size()};
}

// ---- the other job ----

// Sends heartbeats until it gets SIGTERM, then prints their times, each in ns of the steady clock.
int SendHeartbeats(const std::string& endpoint) {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);  // in all threads that are made from here on
  SimulatedAgents agents(
      {.job = "other", .agents = 64, .heartbeat = std::chrono::milliseconds(100), .lease = kLease},
      OpenChannels(endpoint, 16, nullptr));
  agents.JoinAll();
  agents.PrepareAll();
  std::printf("%s\n", kReady);
  std::fflush(stdout);
  int signo = 0;
  sigwait(&end, &signo);
  for (const auto& [sent, answered] : agents.TakeHeartbeatTimes()) {
    std::printf("%lld %lld\n", static_cast<long long>(sent.time_since_epoch().count()),
                static_cast<long long>(answered.time_since_epoch().count()));
  }
  return 0;
}

class OtherJob {
 public:
  explicit OtherJob(const std::string& endpoint)
      : program_({DDPRUN_BIN_DIR "/verdict_bench", "--heartbeats-to", endpoint}) {
    if (!program_.WaitForOut(kReady)) std::fprintf(stderr, "%s", program_.err().c_str());
  }

  // Ends the process. Returns all heartbeats that were answered.
  std::vector<SimulatedAgents::HeartbeatTime> End() {
    program_.Signal(SIGTERM);
    program_.Wait();
    std::vector<SimulatedAgents::HeartbeatTime> times;
    std::istringstream lines(program_.out());
    std::string ready;
    lines >> ready;
    long long sent = 0;
    long long answered = 0;
    while (lines >> sent >> answered) times.push_back({TimePoint(sent), TimePoint(answered)});
    return times;
  }

 private:
  static BenchClock::time_point TimePoint(long long ns) {
    return BenchClock::time_point(std::chrono::nanoseconds(ns));
  }

  Program program_;
};

class Bench {
 public:
  explicit Bench(Flags flags) : flags_(flags), stacks_(flags) {}

  int Run() {
    setpriority(PRIO_PROCESS, 0, kLowest);  // its threads, gRPC's too, get it from this one
    SimulatedAgents large({.job = "large",
                           .agents = flags_.agents,
                           .workers = flags_.workers,
                           .heartbeat = seconds(flags_.heartbeat_seconds),
                           .lease = kLease,
                           .hang_timeout = kHangTimeout},
                          OpenChannels(server_.endpoint(), kChannels, nullptr));
    large.AnswerTakeStacks([this](int first_rank) { return stacks_.Of(first_rank); });
    large.Tell(Tells::kProgress);
    large.JoinAll();
    large.PrepareAll();
    large.Idle(seconds(2 * flags_.heartbeat_seconds));
    large.Tell(Tells::kStandstill);
    large.Idle(kSettle);
    const auto idle_from = BenchClock::now();
    large.Idle(kIdle);
    const auto idle_to = BenchClock::now();
    server_.ForgetPeak();
    const double before = server_.rss_mib();
    const double cpu = server_.cpu_seconds();
    const SimulatedAgents::Verdict verdict = large.AwaitVerdict();
    const double more = server_.peak_mib() - before;
    const std::vector<SimulatedAgents::HeartbeatTime> heartbeats = other_.End();
    const Times idle = TimesOf(heartbeats, idle_from, idle_to);
    const Times merging = TimesOf(heartbeats, verdict.asked, verdict.decided);
    std::printf("%d agents of %d workers, %.1f KiB of stacks each; %.1f s of CPU\n", flags_.agents,
                flags_.workers, stacks_.kib(), server_.cpu_seconds() - cpu);
    Check("from the question to the verdict, s", Seconds(verdict.decided - verdict.asked),
          kMostSeconds);
    std::printf("    %-44s %8.2f\n", "until the last agent knows it, s",
                Seconds(verdict.told - verdict.asked));
    Check("more resident memory, MiB", more, kMostMib);
    Print("heartbeats of another job, idle", idle);
    Print("    while the stacks are merged", merging);
    Print("    while every agent is told", TimesOf(heartbeats, verdict.decided, verdict.told));
    Check("p99 while the stacks are merged, × idle", merging.p99 / idle.p99, kMostTimesIdle);
    Require(!verdict.moves_again, "the job is said to move again");
    CheckVerdict(verdict.stacks);
    return passed_ ? 0 : 1;
  }

 private:
  static void Print(const char* what, const Times& times) {
    std::printf("    %-44s p50 %.2f, p99 %.2f, max %.2f ms of %zu\n", what, times.p50, times.p99,
                times.max, times.count);
  }

  void Check(const char* what, double value, double most) {
    const bool good = value <= most;
    passed_ = passed_ && good;
    std::printf("    %-44s %8.2f  <= %g  %s\n", what, value, most, good ? "PASS" : "FAIL");
  }

  void Require(bool good, const std::string& what) {
    if (good) return;
    passed_ = false;
    std::printf("    FAIL: %s\n", what.c_str());
  }

  // Checks that all ranks are in the verdict, and that it names the right one.
  void CheckVerdict(const v1::HangStacks& shown) {
    for (const std::string& line : shown.verdict()) std::printf("        %s\n", line.c_str());
    Require(shown.missing().empty(),
            absl::StrCat("the stacks of ", shown.missing_size(), " nodes or more are missing"));
    const auto encoded = wire::FromProto(shown.tree());
    Require(encoded.ok(), "the tree is not well formed");
    if (!encoded.ok()) return;
    const auto tree = StackTree::Decode(*encoded);
    const std::uint64_t all =
        static_cast<std::uint64_t>(flags_.agents) * static_cast<std::uint64_t>(flags_.workers);
    Require(tree.ok() && tree->Ranks().count() == all, "not all ranks are in the tree");
    const std::string culprit = absl::StrCat(
        "rank ", CulpritNode(flags_) * flags_.workers + CulpritLocalRank(flags_), " on ");
    Require(shown.verdict_size() > 1 && absl::StartsWith(shown.verdict(1), culprit),
            absl::StrCat("the verdict does not name ", culprit, "its node"));
  }

  const Flags flags_;
  const Stacks stacks_;
  BenchServer server_{RendezvousCommand({"--insecure"}, flags_.ddprun)};
  OtherJob other_{server_.endpoint()};
  bool passed_ = true;
};

int Main(int argc, char** argv) {
  // As in launcher/main.cc, for the agents too.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("What the stacks of a very large job cost the rendezvous.");
  Flags flags;
  app.add_option("--agents", flags.agents, "Agents of the large job");
  app.add_option("--workers", flags.workers, "Workers per agent");
  app.add_option("--heartbeat", flags.heartbeat_seconds, "Heartbeat period, s");
  app.add_option("--ddprun", flags.ddprun, "Path of the ddprun to measure");
  app.add_option("--heartbeats-to", flags.heartbeats_to)->group("");  // how it starts itself
  CLI11_PARSE(app, argc, argv);
  RaiseDescriptorLimit();
  if (!flags.heartbeats_to.empty()) return SendHeartbeats(flags.heartbeats_to);
  return Bench(flags).Run();
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) { return ddprun::Main(argc, argv); }
