// EtcdClient: the few calls of etcd's gRPC API (v3) that a rendezvous needs.
//
// Every call blocks, for at most the time that its caller allows. Any thread; calls of several
// threads run side by side. It tries the members of the cluster one after the other, the one that
// answered last first. A call that may have had an effect is never sent again by itself.
#ifndef DDPRUN_RENDEZVOUS_ETCD_ETCD_CLIENT_H_
#define DDPRUN_RENDEZVOUS_ETCD_ETCD_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun::etcd {

struct Options {
  std::vector<std::string> endpoints;  // "HOST:PORT" of members; in errors as they are here
  // PEM files; none: no TLS. `cert` and `key` come together.
  std::string ca;
  std::string cert;
  std::string key;
  std::string user;  // "": etcd asks nobody who he is
  std::string password_file;
};

struct KeyValue {
  std::string key;
  std::string value;
  std::uint64_t mod_revision = 0;
};

// The key's mod_revision is this; 0: there is no such key.
struct Guard {
  std::string key;
  std::uint64_t mod_revision = 0;
};

struct Write {
  std::string key;
  std::optional<std::string> value;  // nullopt: the key is deleted
};

// Of a transaction. Where the guards failed, nothing was written.
struct Answer {
  bool guarded = false;         // the guards held
  std::uint64_t cluster = 0;    // etcd's cluster id
  std::uint64_t revision = 0;   // of the cluster; of our writes where `guarded`
  std::vector<KeyValue> found;  // of the keys that were read, those that there are
};

struct MemberStatus {
  std::string endpoint;
  std::string version;
  std::uint64_t cluster = 0;
  std::uint64_t member = 0;
  std::uint64_t leader = 0;  // 0: it knows none: no quorum
  std::uint64_t revision = 0;
  std::int64_t database_bytes = 0;
  std::vector<std::string> alarms;  // "NOSPACE", "CORRUPT"
};

class Client {
 public:
  // Reads the files. Connects to nobody yet. Errors, for people: FailedPrecondition, InvalidArgument.
  static absl::StatusOr<std::unique_ptr<Client>> Create(Options options);
  virtual ~Client() = default;

  // One transaction: if all guards hold the writes happen, all or none; `reads` are read in both
  // cases, linearizably, after the writes. Errors:
  //   Aborted            it certainly had no effect: no connection was made, or etcd refused it; may
  //                      be tried again (its message says why: NOSPACE, no leader, ...)
  //   Unknown            it may have had its effect, or may have it yet: no answer came
  //   others             cannot get better by trying again: credentials, a request too large
  virtual absl::StatusOr<Answer> Transact(const std::vector<Guard>& guards,
                                          const std::vector<Write>& writes,
                                          const std::vector<std::string>& reads,
                                          std::chrono::milliseconds limit) = 0;
  // The keys that begin with `prefix`, in order, linearizably, page by page.
  virtual absl::StatusOr<Answer> List(const std::string& prefix, bool keys_only,
                                      std::chrono::milliseconds limit) = 0;
  // Of one member.
  virtual absl::StatusOr<MemberStatus> Ask(const std::string& endpoint,
                                           std::chrono::milliseconds limit) = 0;
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_CLIENT_H_
