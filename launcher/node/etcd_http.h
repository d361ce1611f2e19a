// Facts that a member of etcd gives over HTTP, on its gRPC port: the time, and its command line.
// For `ddprun doctor --etcd`.
#ifndef DDPRUN_LAUNCHER_NODE_ETCD_HTTP_H_
#define DDPRUN_LAUNCHER_NODE_ETCD_HTTP_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/node/etcd_check.h"
#include "rendezvous/etcd/etcd_client.h"

namespace ddprun {

// The answer to GET `path`, with its headers: HTTP/1.0. Blocks: each connect, send and receive for
// at most `limit`, and a look-up of the host's name without a limit. If options.ca is set, speaks
// TLS: options.ca must have signed the member's certificate, which must be for the host of
// `endpoint`.
absl::StatusOr<std::string> GetFromEtcd(const etcd::Options& options, const std::string& endpoint,
                                        const std::string& path, std::chrono::milliseconds limit);

// One answer with a Date header, and this host's clock before the request and after the answer.
// Date is rounded down to seconds.
struct DateSeen {
  std::chrono::system_clock::time_point sent;
  std::chrono::system_clock::time_point received;
  std::chrono::system_clock::time_point date;
};
// nullopt: no such header.
std::optional<std::chrono::system_clock::time_point> DateOf(const std::string& answer);
// Computed from at least one answer; more answers give closer bounds.
ClockAhead ClockAheadBy(const std::vector<DateSeen>& seen);

// From the answer to GET /debug/vars. Error, for people: the answer has no command line, or the
// command line does not have the timeout. In the second case the timeout may be in the environment
// or in a file, or it is etcd's default.
absl::StatusOr<std::chrono::milliseconds> ElectionTimeoutOf(const std::string& answer);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_ETCD_HTTP_H_
