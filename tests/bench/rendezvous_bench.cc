// The cost of the rendezvous at scale. `ddprun rendezvous` runs in a process of its own. This
// process has N simulated agents, which speak gRPC with the rendezvous over loopback. The benchmark
// compares the rendezvous with the floor: a bare gRPC server that only answers with messages of the
// same size (floor_server.h). Both are measured in the same run, in turns.
//
//     build/bin/rendezvous_bench                      all sizes, as in docs/internals/benchmarks.md
//     build/bin/rendezvous_bench --agents 256 --channels 64,256 --reps 3
//     build/bin/rendezvous_bench --token              as between hosts by default: TLS with a
//                                                     certificate that the server makes, and a
//                                                     token
//     build/bin/rendezvous_bench --mtls               certificates of both sides
//     build/bin/rendezvous_bench --etcd               the daemon leads, and has its state in an
//                                                     etcd of three members on this machine
//
// The floor has the same TLS and token as the daemon. Exits 1 when bounds are broken, and names
// them. With --etcd the bounds are only for jobs of 1,024 agents and more.
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "rendezvous/auth/client_credentials.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/etcd_members.h"
#include "tests/bench/floor_server.h"
#include "tests/bench/simulated_agents.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace {

constexpr double kNoBound = 1e9;
constexpr int kSmallJob = 1024;  // agents
constexpr int kRepsOfSmallJobs = 10;
constexpr int kMostChannels = 4096;  // a descriptor on each side
constexpr int kHeartbeatTurns = 9;
constexpr double kMostForProgress = 1.05;  // × the CPU of heartbeats without it

struct Flags {
  std::vector<int> agents{256, 1024, 4096, 16384};
  std::vector<int> channels{64, 0};  // 0: one for each agent
  int agents_per_channel = 0;        // instead of `channels`
  int reps = 5;
  int rounds = 3;
  bool echo = false;  // the floor answers each agent at once
  std::vector<std::string> daemon_arguments;
  bool journal = false;
  bool etcd = false;
  bool mtls = false;
  bool token = false;
  double bound = 0;  // 0: the default of --bound
  int heartbeat_seconds = 0;
};

// The credentials of the servers and of the agents. Without --mtls and --token there are none.
struct Credentials {
  TempDir folder;
  std::shared_ptr<const auth::ClientCredentials> client;
  std::vector<std::string> server_arguments;

  void MakeToken() {
    const std::string file = folder / "token";
    std::ofstream(file) << std::string(64, 'a') << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    auth::CredentialOptions options;
    options.token_file = file;
    options.reachable = true;  // as between hosts: over TLS
    client = auth::ClientCredentials::Load(options).value();
    server_arguments = {"--token-file", file};
  }
  void MakeCertificates() {
    Program certs({DDPRUN_BIN_DIR "/ddprun", "certs", folder / "certs", "--host", "node,127.0.0.1",
                   "--name", "bench"});
    if (certs.ExitCode() != 0) {
      std::fprintf(stderr, "rendezvous_bench: %s\n", certs.err().c_str());
      std::exit(1);
    }
    auth::CredentialOptions options;
    options.tls_ca = folder / "certs/ca.crt";
    options.tls_cert = folder / "certs/node.crt";
    options.tls_key = folder / "certs/node.key";
    client = auth::ClientCredentials::Load(options).value();
    server_arguments = {"--tls-ca",       options.tls_ca, "--tls-cert",
                        options.tls_cert, "--tls-key",    options.tls_key};
  }
};

using Step = SimulatedAgents::Step;
using Tells = SimulatedAgents::Tells;

// The results of one job, from the first Join to the end.
struct Sample {
  std::vector<Step> join, push, reform;  // one join; one push and reform per round
  double join_cpu_us = 0;                // of both processes, per agent
  std::size_t assignment_bytes = 0;
  std::size_t start_bytes = 0;
  std::size_t stop_bytes = 0;
};

Sample Measure(const BenchServer& server, int agent_count, int channel_count, int rounds,
               bool floor, const auth::ClientCredentials* credentials) {
  static int jobs = 0;
  const auto channels = OpenChannels(server.endpoint(), channel_count, credentials);
  // No heartbeats while steps are timed: 16,384 agents in one process would need both cores for
  // them. The lease is three heartbeats, because a rendezvous with --etcd refuses more than 60 s.
  SimulatedAgents agents({.job = absl::StrCat("bench-", 1000 + ++jobs),
                          .agents = agent_count,
                          .heartbeat = std::chrono::seconds(20),
                          .credentials = credentials},
                         channels);
  Sample sample;
  const double cpu = server.cpu_seconds() + CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  sample.join.push_back(agents.JoinAll());
  sample.join_cpu_us =
      (server.cpu_seconds() + CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / agent_count;
  for (int round = 0; round < rounds; ++round) {
    agents.PrepareAll();
    sample.push.push_back(agents.FailOne());
    sample.reform.push_back(agents.DrainAll());
  }
  sample.assignment_bytes = agents.assignment_bytes();
  sample.start_bytes = agents.start_bytes();
  sample.stop_bytes = agents.stop_bytes();
  if (!floor) {
    agents.PrepareAll();
    agents.FinishAll();
  }
  return sample;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double MedianOf(const std::vector<Sample>& samples, std::vector<Step> Sample::*steps,
                double quantile) {
  std::vector<double> values;
  for (const Sample& sample : samples) {
    for (const Step& step : sample.*steps) values.push_back(step.at(quantile));
  }
  return Median(std::move(values));
}

double MedianCpu(const std::vector<Sample>& samples) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.join_cpu_us);
  return Median(std::move(values));
}

std::string Self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

class Bench {
 public:
  explicit Bench(Flags flags) : flags_(std::move(flags)) {
    if (flags_.bound == 0) flags_.bound = flags_.etcd ? 1.6 : flags_.journal ? 1.5 : 1.3;
    if (flags_.etcd) etcd_.emplace();
    if (flags_.mtls) credentials_.MakeCertificates();
    if (flags_.token) credentials_.MakeToken();
  }

  int Run() {
    std::printf("%-7s %-8s %-14s %26s %26s %20s\n", "agents", "channels", "",
                "rendezvous p50/p99/max ms", "floor p50/p99/max ms", "× floor");
    for (const int agents : flags_.agents) {
      if (flags_.agents_per_channel > 0) {
        Compare(agents, std::max(1, agents / flags_.agents_per_channel));
        continue;
      }
      for (const int channels : flags_.channels) {
        const int count = channels == 0 ? agents : channels;
        if (count <= kMostChannels) Compare(agents, std::min(count, agents));
      }
    }
    if (flags_.agents_per_channel > 0 && cpu_per_agent_.size() > 1) {
      const auto [few, few_cpu] = *cpu_per_agent_.begin();
      const auto [many, many_cpu] = *cpu_per_agent_.rbegin();
      std::printf(
          "join round, CPU of both sides per agent: %.1f µs at %d, %.1f µs at %d: ×%.2f %s\n",
          few_cpu, few, many_cpu, many, many_cpu / few_cpu,
          Verdict("CPU of a join, many agents over few", many_cpu / few_cpu, 1.5));
    }
    if (flags_.heartbeat_seconds > 0) {
      Heartbeats(4096, 64);
      Heartbeats(4096, 4096);
    }
    if (broken_.empty()) return 0;
    std::printf("%zu bounds are broken:\n", broken_.size());
    for (const std::string& cell : broken_) std::printf("  %s\n", cell.c_str());
    return 1;
  }

 private:
  std::unique_ptr<BenchServer> StartDaemon() {
    // On loopback alone a daemon with a token speaks no TLS.
    std::vector<std::string> argv = RendezvousCommand(
        flags_.daemon_arguments, DDPRUN_BIN_DIR "/ddprun", flags_.token ? "0.0.0.0" : "127.0.0.1");
    const auto& arguments = credentials_.server_arguments;
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    if (arguments.empty()) argv.emplace_back("--insecure");  // as the floor
    if (flags_.journal) {
      state_.emplace_back(std::make_unique<TempDir>());
      argv.insert(argv.end(), {"--state-dir", *state_.back() / "state"});
    }
    if (etcd_) {
      const std::string prefix = absl::StrCat("/bench-", ++prefixes_);
      argv.insert(argv.end(), {"--etcd", etcd_->endpoints(), "--etcd-prefix", prefix});
    }
    auto daemon = std::make_unique<BenchServer>(std::move(argv));
    if (etcd_) AwaitLeader(daemon->endpoint(), credentials_.client.get());
    return daemon;
  }

  void Compare(int agents, int channels) {
    const auto daemon = StartDaemon();
    const auto* const credentials = credentials_.client.get();
    const Sample warm_up = Measure(*daemon, agents, channels, flags_.rounds, false, credentials);
    std::vector<std::string> argv = {Self(),
                                     "--floor-server",
                                     "--assignment-bytes",
                                     absl::StrCat(warm_up.assignment_bytes),
                                     "--start-bytes",
                                     absl::StrCat(warm_up.start_bytes),
                                     "--stop-bytes",
                                     absl::StrCat(warm_up.stop_bytes),
                                     "--barrier",
                                     absl::StrCat(flags_.echo ? 0 : agents)};
    const auto& arguments = credentials_.server_arguments;  // the floor has the same
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    BenchServer floor(std::move(argv));
    Measure(floor, agents, channels, flags_.rounds, true, credentials);
    std::vector<Sample> ours;
    std::vector<Sample> theirs;
    // Steps of a few milliseconds vary by a third, so small jobs are measured more often.
    const int reps = agents <= kSmallJob ? kRepsOfSmallJobs * flags_.reps : flags_.reps;
    for (int rep = 0; rep < reps; ++rep) {
      theirs.push_back(Measure(floor, agents, channels, flags_.rounds, true, credentials));
      ours.push_back(Measure(*daemon, agents, channels, flags_.rounds, false, credentials));
    }
    Print(agents, channels, "join→assigned", ours, theirs, &Sample::join);
    Print(agents, channels, "failure push", ours, theirs, &Sample::push);
    Print(agents, channels, "re-form", ours, theirs, &Sample::reform);
    std::printf(
        "%-7d %-8d CPU of join per agent, both sides: %.1f µs, floor %.1f µs, ×%.2f; "
        "daemon's memory %.0f MiB, floor's %.0f MiB\n",
        agents, channels, MedianCpu(ours), MedianCpu(theirs), MedianCpu(ours) / MedianCpu(theirs),
        daemon->rss_mib(), floor.rss_mib());
    std::fflush(stdout);
    cpu_per_agent_[agents] = MedianCpu(ours);
  }

  void Print(int agents, int channels, const char* what, const std::vector<Sample>& ours,
             const std::vector<Sample>& theirs, std::vector<Step> Sample::*step) {
    std::vector<double> own, floor, ratio;
    for (const double quantile : {0.5, 0.99, 1.0}) {
      own.push_back(MedianOf(ours, step, quantile));
      floor.push_back(MedianOf(theirs, step, quantile));
      ratio.push_back(own.back() / floor.back());
    }
    const double worst = *std::max_element(ratio.begin(), ratio.end());
    // One write of an etcd takes about as long as a whole step of a smaller job.
    const double bound = etcd_ && agents < kSmallJob ? kNoBound : flags_.bound;
    std::printf(
        "%-7d %-8d %-14s  %8.1f %8.1f %8.1f  %8.1f %8.1f %8.1f  %.2f %.2f %.2f %s\n", agents,
        channels, what, own[0], own[1], own[2], floor[0], floor[1], floor[2], ratio[0], ratio[1],
        ratio[2],
        Verdict(absl::StrCat(agents, " agents, ", channels, " channels, ", what), worst, bound));
  }

  // The agents only send heartbeats, in turns of three kinds: without a summary of their workers'
  // progress, with a summary, and with a summary of workers that stand still. The bounds are for
  // few connections. With a connection for each agent, even a bare server needs more memory for the
  // connections alone (the table above shows it).
  void Heartbeats(int agents, int channels) {
    const bool bounded = channels < agents;
    const auto daemon = StartDaemon();
    const auto connections = OpenChannels(daemon->endpoint(), channels, credentials_.client.get());
    SimulatedAgents job(
        {.job = "bench-heartbeats", .agents = agents, .credentials = credentials_.client.get()},
        connections);
    job.JoinAll();
    job.PrepareAll();
    std::vector<double> with;
    std::vector<double> without;
    std::vector<double> ratio;
    std::vector<double> still_ratio;
    const std::uint64_t received = job.messages_received();
    const BenchClock::time_point began = BenchClock::now();
    for (int turn = 0; turn < kHeartbeatTurns; ++turn) {
      without.push_back(ShareOfACore(*daemon, &job, Tells::kStep));
      with.push_back(ShareOfACore(*daemon, &job, Tells::kProgress));
      ratio.push_back(with.back() / without.back());
      still_ratio.push_back(ShareOfACore(*daemon, &job, Tells::kStandstill) / without.back());
    }
    const double answers = static_cast<double>(job.messages_received() - received) /
                           Milliseconds(BenchClock::now() - began).count() * 1000;
    const double rss = daemon->rss_mib();
    std::printf(
        "%d agents over %d channels, 1 heartbeat/s each: %.1f%% of a core %s, %.0f MiB %s; "
        "%.0f answers/s; without progress %.1f%%, ×%.3f %s; while all stand still ×%.3f %s\n",
        agents, channels, Median(with) * 100,
        Verdict("heartbeats, share of a core", Median(with), bounded ? 0.2 : kNoBound), rss,
        Verdict("heartbeats, MiB", rss, bounded ? 120 : kNoBound), answers, Median(without) * 100,
        Median(ratio),
        Verdict("heartbeats with progress over those without", Median(ratio),
                bounded ? kMostForProgress : kNoBound),
        Median(still_ratio),
        Verdict("heartbeats of a standstill over those without progress", Median(still_ratio),
                bounded ? kMostForProgress : kNoBound));
    job.FinishAll();
  }

  // The share of a core that the daemon uses in one turn, in which heartbeats contain `tells`.
  double ShareOfACore(const BenchServer& daemon, SimulatedAgents* job, Tells tells) const {
    const double length = static_cast<double>(flags_.heartbeat_seconds) / kHeartbeatTurns;
    job->Tell(tells);
    job->Idle(std::chrono::milliseconds(1200));  // until every agent has reported it
    const double began = daemon.cpu_seconds();
    job->Idle(std::chrono::milliseconds(static_cast<int>(length * 1000)));
    return (daemon.cpu_seconds() - began) / length;
  }

  const char* Verdict(const std::string& what, double value, double bound) {
    if (bound == kNoBound) return "";
    if (value <= bound) return "PASS";
    broken_.push_back(absl::StrFormat("%s: %.2f, at most %.2f", what, value, bound));
    return "FAIL";
  }

  Flags flags_;
  std::vector<std::string> broken_;
  std::map<int, double> cpu_per_agent_;
  std::vector<std::unique_ptr<TempDir>> state_;  // of the daemons
  std::optional<EtcdMembers> etcd_;
  int prefixes_ = 0;  // in etcd: each daemon has one
  Credentials credentials_;
};

int Main(int argc, char** argv) {
  // As in launcher/main.cc, for the floor and the agents too.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("What the rendezvous costs at scale, beside a bare gRPC server.");
  Flags flags;
  FloorServerOptions floor;
  bool floor_server = false;
  app.add_option("--agents", flags.agents, "Numbers of agents")->delimiter(',');
  app.add_option("--channels", flags.channels,
                 "Numbers of channels for them; 0: a channel each, up to 4,096 agents")
      ->delimiter(',');
  app.add_option("--agents-per-channel", flags.agents_per_channel, "Instead of --channels");
  app.add_option("--reps", flags.reps,
                 "Jobs of each server per row; ten times as many up to 1024 agents");
  app.add_option("--rounds", flags.rounds, "Failures in each job")->check(CLI::PositiveNumber);
  app.add_flag("--echo", flags.echo,
               "The floor answers each agent at once, instead of when all have asked");
  app.add_option("--daemon-argument", flags.daemon_arguments, "Passed to `ddprun rendezvous`");
  app.add_flag("--journal", flags.journal, "The daemon gets a --state-dir");
  app.add_flag("--etcd", flags.etcd, "The daemon has its state in an etcd of three members")
      ->excludes("--journal");
  app.add_flag("--mtls", flags.mtls,
               "Daemon and floor speak TLS, and ask every agent for a certificate");
  app.add_flag(
         "--token", flags.token,
         "Daemon and floor speak TLS with a certificate of their own making, and prove a token")
      ->excludes("--mtls");
  app.add_option("--bound", flags.bound,
                 "Times the floor (1.3; with the journal 1.5, with etcd 1.6)");
  app.add_option(
      "--heartbeats", flags.heartbeat_seconds,
      "Heartbeats of 4,096 idle agents: seconds with progress, and as many without, and of "
      "a standstill");
  app.add_flag("--floor-server", floor_server)->group("");
  app.add_option("--assignment-bytes", floor.assignment_bytes)->group("");
  app.add_option("--start-bytes", floor.start_bytes)->group("");
  app.add_option("--stop-bytes", floor.stop_bytes)->group("");
  app.add_option("--barrier", floor.barrier)->group("");
  app.add_option("--tls-ca", floor.tls_ca)->group("");
  app.add_option("--tls-cert", floor.tls_cert)->group("");
  app.add_option("--tls-key", floor.tls_key)->group("");
  app.add_option("--token-file", floor.token_file)->group("");
  app.add_option("--port-file", floor.port_file)->group("");
  CLI11_PARSE(app, argc, argv);
  RaiseDescriptorLimit();
  if (floor_server) return ServeFloor(floor);
  return Bench(std::move(flags)).Run();
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) { return ddprun::Main(argc, argv); }
