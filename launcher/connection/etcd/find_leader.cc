#include "launcher/connection/etcd/find_leader.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/connection/etcd/meeting_keys.h"
#include "launcher/connection/etcd_client_options.h"

namespace ddprun {

absl::StatusOr<std::string> FindLeaderInEtcd(const EtcdAccess& etcd, bool insecure,
                                             std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  if (absl::Status safe = CheckEtcd(etcd, insecure, "--rdzv-endpoint"); !safe.ok()) return safe;
  const auto keys = MeetingKeys::Open(etcd);
  if (!keys.ok()) return absl::InvalidArgumentError(keys.status().message());
  const std::string where = absl::StrCat("etcd at ", absl::StrJoin(etcd.endpoints, ","));
  const auto end = Clock::now() + limit;
  for (;;) {
    const auto seen = (*keys)->Read();
    if (seen.ok() && !seen->endpoint.empty()) return seen->endpoint;
    if (absl::IsUnauthenticated(seen.status()) || absl::IsPermissionDenied(seen.status())) {
      return absl::Status(seen.status().code(), absl::StrCat(where, ": ", seen.status().message()));
    }
    if (Clock::now() + MeetingSearch::kReadOften >= end) {
      return absl::UnavailableError(
          seen.ok()
              ? absl::StrCat("no rendezvous leads: ", where, " names none under ", etcd.prefix)
              : absl::StrCat(where, " does not answer: ", seen.status().message()));
    }
    std::this_thread::sleep_for(MeetingSearch::kReadOften);
  }
}

}  // namespace ddprun
