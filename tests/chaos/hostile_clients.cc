// Hostile clients attack four daemons, each with a live job. The first daemon asks for tokens on
// loopback and has a page. The second asks for tokens beyond loopback, the third for certificates.
// The fourth is on loopback, was started without credentials, and makes a token itself. Some
// attacks come through a relay. The certificates of a fifth daemon expire, and are renewed while
// its job runs. A daemon must refuse each try with the expected code, and must not keep a
// descriptor or memory for a refused try. The jobs must not notice the attacks.
//
//     hostile_clients [--tries N] [--seed S]
//
// Makes two rounds of N tries, and prints a table of verdicts for each. Exits 1 if a verdict is
// wrong, a daemon has kept descriptors or memory, or a job was affected.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/grpc_log.h"
#include "tests/chaos/hostile/impostor_attacks.h"
#include "tests/chaos/hostile/live_job.h"
#include "tests/chaos/hostile/page_attacks.h"
#include "tests/chaos/hostile/raw_client.h"
#include "tests/chaos/hostile/token_attacks.h"
#include "tests/chaos/hostile/verdicts.h"
#include "tests/support/sanitizer.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

// How much the second half may add to the memory of the first half. Measured: 1 MiB with 500 tries
// and 2 MiB with 2,500.
constexpr long kMaxGrowthKib = 4096 + kSanitizerKib;
constexpr long kMaxLogLines = 500;
constexpr int kSlowOnes = 40;  // of each kind of client that ends only by a time limit

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  chmod(path.c_str(), 0600);
}

int Run(int tries, std::uint64_t seed) {
  auth::QuietGrpc();
  // Each thread's arena of malloc keeps the memory that the largest message took. With a single
  // arena, only leaks make the memory grow.
  setenv("MALLOC_ARENA_MAX", "1", 1);
  std::mt19937_64 random(seed);
  const TempDir folder;
  const std::string token = folder / "token";
  const std::string tls = folder / "tls";
  const std::string own = folder / "own";
  const std::string sealed = folder / "sealed";
  const std::string brief = folder / "brief";
  for (const std::string& one : {token, tls, own, sealed, brief}) mkdir(one.c_str(), 0700);
  const std::string secret = "0123456789abcdef";
  Write(sealed + "/token", secret + "\n");
  Write(token + "/all", "ann:" + secret + "a\nbob:" + secret + "b\n");
  Write(token + "/ann", "ann:" + secret + "a\n");
  Write(token + "/bob", "bob:" + secret + "b\n");
  Write(token + "/wrong", "ann:" + secret + "c\n");
  for (const auto& [name, days] : {std::pair("node", 30), std::pair("old", -1)}) {
    if (!auth::MakeCertificates({tls + "/ours", "ann", {{name}}, std::chrono::hours(24 * days)})
             .ok())
      return 1;
  }
  if (!auth::MakeCertificates({tls + "/theirs", "ann", {{"node"}}}).ok()) return 1;
  const std::vector<std::string> tls_flags = TlsFlags(tls + "/ours");
  LiveJob token_job(token, {"--token-file", token + "/all", "--http", "127.0.0.1:0"},
                    {"--token-file", token + "/ann"});
  const auto began = Clock::now();
  LiveJob tls_job(tls, tls_flags, tls_flags);
  const auto start = std::chrono::ceil<std::chrono::seconds>(Clock::now() - began);
  LiveJob own_job(own, {}, {});
  LiveJob sealed_job(sealed, {"--token-file", sealed + "/token"},
                     {"--token-file", sealed + "/token"}, "0.0.0.0");
  BriefJob brief_job(brief, start);
  const TokenAttacks attacks(&token_job);
  const LoopbackAttacks stranger(&own_job, &token_job);
  const RelayAttacks relays(&sealed_job, secret);
  const PageAttacks pages(&token_job, {"--token-file", token + "/ann"});

  const std::vector<std::function<void(Verdicts&)>> quick = {
      [&](Verdicts& v) { attacks.NoProof(v); },
      [&](Verdicts& v) { attacks.NoProofReport(v); },
      [&](Verdicts& v) { attacks.WrongToken(v); },
      [&](Verdicts& v) { attacks.Replay(v); },
      [&](Verdicts& v) { attacks.OtherOwner(v); },
      [&](Verdicts& v) { attacks.OddMetadata(v, random); },
      [&](Verdicts& v) { attacks.OddHandshake(v, random); },
      [&](Verdicts& v) { attacks.Malformed(v, random); },
      [&](Verdicts& v) { attacks.Oversized(v); },
      [&](Verdicts& v) { stranger.Joins(v); },
      [&](Verdicts& v) { stranger.ReportsGone(v); },
      [&](Verdicts& v) { stranger.Guesses(v); },
      [&](Verdicts& v) { stranger.Stops(v); },
      [&](Verdicts& v) { stranger.Poses(v); },
      [&](Verdicts& v) { Nonsense(token_job, "token", random, v); },
      [&](Verdicts& v) { Nonsense(tls_job, "mTLS", random, v); },
      [&](Verdicts& v) { Nonsense(sealed_job, "beyond loopback", random, v); },
      [&](Verdicts& v) { relays.OurClient(v, Relay::Speaks::kTls); },
      [&](Verdicts& v) { relays.OurClient(v, Relay::Speaks::kPlain); },
      [&](Verdicts& v) { relays.CarelessClient(v, Relay::Speaks::kTls); },
      [&](Verdicts& v) { relays.CarelessClient(v, Relay::Speaks::kPlain); },
      [&](Verdicts& v) { pages.HugeBody(v); },
      [&](Verdicts& v) { pages.HugeBodyInPieces(v); },
      [&](Verdicts& v) { pages.HugeHead(v); },
      [&](Verdicts& v) { pages.PathTricks(v, static_cast<unsigned>(random())); },
      [&](Verdicts& v) { pages.ForeignHost(v); },
      [&](Verdicts& v) { pages.CrossSitePost(v); },
      [&](Verdicts& v) { pages.OrderOfAnotherSitesScript(v); },
      [&](Verdicts& v) { pages.FormOfAnotherSite(v); },
      [&](Verdicts& v) { pages.UsedCode(v); },
      [&](Verdicts& v) { pages.GuessedSession(v); },
      [&](Verdicts& v) { pages.StopsWithoutASession(v); },
      [&](Verdicts& v) { pages.OtherOwner(v); },
      [&](Verdicts& v) { TlsAttack(tls_job, "mTLS: no certificate", "", v); },
      [&](Verdicts& v) { TlsAttack(tls_job, "mTLS: another authority's", "theirs/node", v); },
      [&](Verdicts& v) { TlsAttack(tls_job, "mTLS: an expired certificate", "ours/old", v); },
      [&](Verdicts& v) { PlainAttack(tls_job, "mTLS: no TLS", v); },
  };

  const auto round = [&](int count) {
    Verdicts verdicts;
    // Clients that end only by a time limit; they stay open during the whole round.
    std::vector<std::pair<std::string, std::unique_ptr<RawClient>>> half_open;
    const auto open_at = [&](const std::string& kind, int port, const std::string& bytes) {
      half_open.emplace_back(kind, std::make_unique<RawClient>(port, bytes));
    };
    const auto open = [&](const std::string& kind, const LiveJob& job, const std::string& bytes) {
      open_at(kind, job.port(), bytes);
    };
    pages.ThousandViewers(verdicts);
    pages.ScrapeStorm(verdicts);
    for (int i = 0; i < kSlowOnes; ++i) {
      open("token: connects and is silent", token_job, "");
      open("token: half of a preface", token_job, HalfAPreface());
      open("token: HTTP/2 without a call, deaf", token_job, HttpWithoutACall());
      open("token: half of a call, deaf", token_job, HalfACall());
      open_at("page: connects and is silent", pages.port(), "");
      open_at("page: half of a head", pages.port(), "GET / HTTP/1.1\r\nHost: local");
      open("mTLS: connects and is silent", tls_job, "");
      open("mTLS: half of a ClientHello", tls_job, HalfAClientHello());
    }
    std::vector<Verdicts> slow(2 * kSlowOnes);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < slow.size(); ++i) {
      threads.emplace_back(
          [&, i] { i % 2 == 0 ? attacks.NoJoin(slow[i]) : pages.DrippingHead(slow[i]); });
    }
    for (int i = 0; i < count; ++i) quick[random() % quick.size()](verdicts);
    for (auto& [kind, client] : half_open) verdicts.Add(kind, "closed", client->Verdict());
    for (std::thread& thread : threads) thread.join();
    for (const Verdicts& mine : slow) verdicts.AddAll(mine);
    return verdicts;
  };

  const bool renewed = brief_job.RenewInMidJob();
  std::printf("a certificate that expired in mid-job: %s\n", renewed ? "renewed" : "LOST");
  const int descriptors_at_start[] = {token_job.Descriptors(), tls_job.Descriptors(),
                                      own_job.Descriptors(), sealed_job.Descriptors()};
  const Verdicts warm_up = round(tries);  // here gRPC and malloc take memory that they keep
  const int descriptors[] = {token_job.DescriptorsAtRest(descriptors_at_start[0]),
                             tls_job.DescriptorsAtRest(descriptors_at_start[1]),
                             own_job.DescriptorsAtRest(descriptors_at_start[2]),
                             sealed_job.DescriptorsAtRest(descriptors_at_start[3])};
  const long rss[] = {token_job.RssKib(), tls_job.RssKib(), own_job.RssKib(), sealed_job.RssKib()};
  const Verdicts verdicts = round(tries);

  bool well = warm_up.Print();
  std::printf("---- again (seed %llu)\n", static_cast<unsigned long long>(seed));
  well = verdicts.Print() && well;
  const auto compare = [&](const char* name, LiveJob& job, int index) {
    const int now = job.DescriptorsAtRest(descriptors_at_start[index]);
    const long growth = job.RssKib() - rss[index];
    const std::string log = job.Log();
    const auto lines = std::count(log.begin(), log.end(), '\n');
    std::printf(
        "%s: descriptors %d at first, %d, %d; memory %ld KiB, then %+ld KiB; %ld lines of log\n",
        name, descriptors_at_start[index], descriptors[index], now, rss[index], growth,
        static_cast<long>(lines));
    well = well && descriptors[index] <= descriptors_at_start[index] &&
           now <= descriptors_at_start[index] && growth <= kMaxGrowthKib && lines <= kMaxLogLines;
  };
  compare("token", token_job, 0);
  compare("mTLS", tls_job, 1);
  compare("loopback", own_job, 2);
  compare("beyond loopback", sealed_job, 3);
  // Ends every job, even if an earlier one was affected.
  bool unaffected = brief_job.EndsWell();
  for (LiveJob* job : {&token_job, &tls_job, &own_job, &sealed_job}) {
    unaffected = job->EndsWell() && unaffected;
  }
  std::printf("the jobs: %s\n", unaffected ? "unaffected" : "AFFECTED");
  return well && unaffected && renewed ? 0 : 1;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  int tries = 500;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--tries") == 0) tries = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  try {
    return ddprun::Run(tries, seed);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
