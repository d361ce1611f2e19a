#include "launcher/node/etcd_facts.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/connection/connection.h"
#include "launcher/connection/etcd_client_options.h"
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
