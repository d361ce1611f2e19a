// simulate --seeds FROM:TO [--etcd 1|2] [--bug NAME]: runs each seed from FROM to TO - 1 once.
// simulate --trace SEED [--etcd 1|2] [--bug NAME]: one run, with a line for each event.
//
// --etcd 1: several rendezvous. --etcd 2: several, and some of them may lead for much longer
// without etcd than the others. --bug plants a bug (BugNamed() has the names). A bug that needs
// --etcd sets it.
//
// Exit code 1: a rule was violated. With --seeds and --bug, exit code 0 means that a run found the
// bug, and 1 that none did.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/simulation/simulation.h"

namespace {

using ddprun::sim::Bug;
using ddprun::sim::Rendezvous;
using ddprun::sim::Result;

// A check of the cores failed: prints the seed, which reproduces it.
volatile std::uint64_t running_seed = 0;
void OnAbort(int) {
  char line[64];
  const int length = std::snprintf(line, sizeof line, "seed %llu: aborted\n",
                                   static_cast<unsigned long long>(running_seed));
  std::fwrite(line, 1, static_cast<std::size_t>(length), stderr);
}

int Usage() {
  std::fprintf(
      stderr,
      "usage: simulate --seeds FROM:TO | --trace SEED  [--etcd 1|2] [--bug NAME]; the bugs are in "
      "docs/internals/simulation.md\n");
  return 64;
}

const char* OutcomeOf(const Result& result) {
  return result.outcome ? ddprun::ToString(*result.outcome) : "none";
}

int Trace(std::uint64_t seed, Bug bug, Rendezvous rendezvous) {
  std::string trace;
  const Result result = ddprun::sim::Simulate(seed, bug, &trace, rendezvous);
  std::fputs(trace.c_str(), stdout);
  std::printf("seed %llu: %s; outcome %s, %llu events, hash %016llx\n",
              static_cast<unsigned long long>(seed),
              result.violation.empty() ? "everything held" : result.violation.c_str(),
              OutcomeOf(result), static_cast<unsigned long long>(result.events),
              static_cast<unsigned long long>(result.hash));
  return result.violation.empty() ? 0 : 1;
}

int Campaign(std::uint64_t from, std::uint64_t to, Bug bug, const char* bug_name,
             Rendezvous rendezvous) {
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t runs = 0;
  std::uint64_t events = 0;
  std::uint64_t hash = 0;
  long faults = 0;
  long fences = 0;
  long daemon_restarts = 0;
  long generations = 0;
  long sessions = 0;
  long takeovers = 0;
  int found = 0;
  std::map<std::string, long> outcomes;
  for (std::uint64_t seed = from; seed < to; ++seed) {
    running_seed = seed;
    const Result result = ddprun::sim::Simulate(seed, bug, nullptr, rendezvous);
    ++runs;
    events += result.events;
    hash = hash * 31 + result.hash;
    faults += result.faults;
    fences += result.fences;
    daemon_restarts += result.daemon_restarts;
    generations += result.generations;
    sessions += result.sessions;
    takeovers += result.takeovers;
    ++outcomes[OutcomeOf(result)];
    if (result.violation.empty()) continue;
    ++found;
    std::printf("seed %llu: %s\n  replay: simulate --trace %llu%s%s%s\n",
                static_cast<unsigned long long>(seed), result.violation.c_str(),
                static_cast<unsigned long long>(seed), FlagOf(rendezvous),
                bug == Bug::kNone ? "" : " --bug ", bug == Bug::kNone ? "" : bug_name);
    std::fflush(stdout);
    if (bug != Bug::kNone || found == 20) break;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf(
      "%llu runs, %llu events, %.1f s, %.0f runs/s; faults %ld, fenced %ld, daemon "
      "restarts %ld, takeovers %ld, generations %ld, sessions %ld; hash %016llx\n",
      static_cast<unsigned long long>(runs), static_cast<unsigned long long>(events), seconds,
      static_cast<double>(runs) / seconds, faults, fences, daemon_restarts, takeovers, generations,
      sessions, static_cast<unsigned long long>(hash));
  for (const auto& [outcome, count] : outcomes) {
    std::printf("  %s: %ld\n", outcome.c_str(), count);
  }
  const bool wanted = bug != Bug::kNone;
  if (wanted) std::printf("bug %s: %s\n", bug_name, found > 0 ? "found" : "NOT FOUND");
  return (found > 0) == wanted ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, OnAbort);
  Bug bug = Bug::kNone;
  const char* bug_name = "";
  const char* seeds = nullptr;
  const char* trace = nullptr;
  Rendezvous rendezvous = Rendezvous::kAlone;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seeds") == 0) {
      seeds = argv[i + 1];
    } else if (std::strcmp(argv[i], "--trace") == 0) {
      trace = argv[i + 1];
    } else if (std::strcmp(argv[i], "--bug") == 0) {
      const auto named = ddprun::sim::BugNamed(argv[i + 1]);
      if (!named) return Usage();
      bug = *named;
      bug_name = argv[i + 1];
      if (RendezvousOf(bug) != Rendezvous::kAlone) rendezvous = RendezvousOf(bug);
    } else if (std::strcmp(argv[i], "--etcd") == 0) {
      if (std::strcmp(argv[i + 1], "1") == 0) rendezvous = Rendezvous::kSeveral;
      if (std::strcmp(argv[i + 1], "2") == 0) rendezvous = Rendezvous::kSeveralUnlike;
    } else {
      return Usage();
    }
  }
  if (argc % 2 == 0 || (seeds == nullptr) == (trace == nullptr)) return Usage();
  if (trace != nullptr) return Trace(std::strtoull(trace, nullptr, 10), bug, rendezvous);
  char* rest = nullptr;
  const std::uint64_t from = std::strtoull(seeds, &rest, 10);
  if (*rest != ':') return Usage();
  return Campaign(from, std::strtoull(rest + 1, nullptr, 10), bug, bug_name, rendezvous);
}
