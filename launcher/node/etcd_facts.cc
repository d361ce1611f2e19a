#include "launcher/node/etcd_facts.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/connection/connection.h"
#include "launcher/connection/etcd_client_options.h"
#include "launcher/node/etcd_http.h"
#include "launcher/os/local_address.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;
using Micros = std::chrono::microseconds;

constexpr std::chrono::milliseconds kLimit{2000};
constexpr int kTries = 5;  // after the first, which makes the connection

// The median.
template <class Transaction>
absl::StatusOr<Micros> TimeOf(Transaction transaction) {
  std::vector<Micros> times;
  for (int tries = 0; tries <= kTries; ++tries) {
    const auto begin = Clock::now();
    const absl::Status status = transaction();
    if (!status.ok()) return status;
    if (tries > 0) times.push_back(std::chrono::duration_cast<Micros>(Clock::now() - begin));
  }
  std::nth_element(times.begin(), times.begin() + kTries / 2, times.end());
  return times[kTries / 2];
}

// Asks each member kLooks times, at different fractions of a second, because a Date header has
// whole seconds.
void LookAtClocks(const etcd::Options& options, std::vector<EtcdFacts::Member>* members) {
  constexpr int kLooks = 5;
  constexpr std::chrono::milliseconds kBetweenLooks{220};
  std::vector<std::vector<DateSeen>> seen(members->size());
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) std::this_thread::sleep_for(kBetweenLooks);
    for (std::size_t i = 0; i < members->size(); ++i) {
      EtcdFacts::Member& member = (*members)[i];
      if (!member.status.ok() || (look > 0 && seen[i].empty())) continue;
      DateSeen one;
      one.sent = std::chrono::system_clock::now();
      const auto answer = GetFromEtcd(options, member.endpoint, "/version", kLimit);
      one.received = std::chrono::system_clock::now();
      const auto date = answer.ok() ? DateOf(*answer) : std::nullopt;
      if (date) {
        one.date = *date;
        seen[i].push_back(one);
      } else {
        member.clock =
            answer.ok() ? absl::NotFoundError("its answers have no date") : answer.status();
      }
    }
  }
  for (std::size_t i = 0; i < members->size(); ++i) {
    if (!seen[i].empty()) (*members)[i].clock = ClockAheadBy(seen[i]);
  }
}

void LookAtElections(const etcd::Options& options, std::vector<EtcdFacts::Member>* members) {
  for (EtcdFacts::Member& member : *members) {
    if (!member.status.ok()) continue;
    const auto answer = GetFromEtcd(options, member.endpoint, "/debug/vars", kLimit);
    if (answer.ok()) {
      member.election = ElectionTimeoutOf(*answer);
    } else {
      member.election = answer.status();
    }
  }
}

}  // namespace

EtcdFacts LookAtEtcd(const EtcdConfig& config, bool insecure) {
  const etcd::Options options = ClientOptionsOf(config);
  EtcdFacts facts;
  facts.tls = config.tls();
  facts.insecure = insecure;
  facts.loopback =
      std::all_of(options.endpoints.begin(), options.endpoints.end(),
                  [](const std::string& endpoint) { return IsLoopback(HostOf(endpoint)); });
  const auto client = etcd::Client::Create(options);
  facts.options = client.status();
  if (!client.ok()) return facts;
  for (const std::string& endpoint : options.endpoints) {
    facts.members.push_back({endpoint, (*client)->Ask(endpoint, kLimit)});
  }
  LookAtClocks(options, &facts.members);
  LookAtElections(options, &facts.members);
  const std::string leader = absl::StrCat(config.prefix, "/leader");
  facts.read = TimeOf([&] { return (*client)->Transact({}, {}, {leader}, kLimit).status(); });
  // No key has this revision. So the transaction goes through consensus, but writes nothing.
  const etcd::Guard never{leader, std::numeric_limits<std::int64_t>::max()};
  facts.write = TimeOf([&] {
    return (*client)->Transact({never}, {{leader, ""}}, {leader}, kLimit).status();
  });
  return facts;
}

}  // namespace ddprun
