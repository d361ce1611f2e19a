// etcd::Client: the few calls of etcd's gRPC API (v3) that a rendezvous needs.
//
// Every call with a time limit blocks, at most for that time. Exception: with Options::user, a call
// that must get a token first may take up to 2 s longer for each member. Any thread may call; calls
// of several threads run in parallel. A call (except Ask) tries the members of the cluster one
// after the other, and begins with the member that answered last. A call that may have had an
// effect is not retried.
#ifndef DDPRUN_RENDEZVOUS_ETCD_ETCD_CLIENT_H_
#define DDPRUN_RENDEZVOUS_ETCD_ETCD_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun::etcd {

struct Options {
  std::vector<std::string> endpoints;  // "HOST:PORT" of members; errors name them as given here
  // PEM files; none: no TLS. `cert` and `key` come together, and need `ca`. The files are read
  // again for new connections.
  std::string ca;
  std::string cert;
  std::string key;
  std::string user;           // "": no user, so no token is asked for
  std::string password_file;  // read again for each token
};

struct KeyValue {
  std::string key;
  std::string value;
  std::uint64_t mod_revision = 0;
};

// A condition of a transaction: the key has this mod_revision (0: the key does not exist) and, if
// `value` is given, this value. An etcd that was emptied or restored may have another value at the
// same revision.
struct Guard {
  std::string key;
  std::uint64_t mod_revision = 0;
  std::optional<std::string> value{};
};

struct Write {
  std::string key;
  std::optional<std::string> value;  // nullopt: the key is deleted
};

// The limits of one transaction by etcd's defaults: for guards, and for writes and reads together.
inline constexpr std::size_t kMostOperations = 128;

// The result of a transaction. If the guards failed, nothing was written.
struct Answer {
  bool guarded = false;         // the guards held
  std::uint64_t cluster = 0;    // etcd's cluster id
  std::uint64_t revision = 0;   // of the cluster; of these writes if `guarded`
  std::vector<KeyValue> found;  // the requested keys that exist
};

struct MemberStatus {
  std::string endpoint;
  std::string version;
  std::uint64_t cluster = 0;
  std::uint64_t member = 0;
  std::uint64_t leader = 0;  // 0: none is known: no quorum
  std::uint64_t revision = 0;
  std::int64_t database_bytes = 0;
  std::vector<std::string> alarms;  // "NOSPACE", "CORRUPT"
};

// A key as etcd has it.
struct KeyState {
  std::uint64_t cluster = 0;         // etcd's cluster id
  std::uint64_t mod_revision = 0;    // 0: there is no such key
  std::optional<std::string> value;  // nullopt: there is no such key
  bool operator==(const KeyState&) const = default;
};

// Reports the changes of one key (etcd_watch.h), until this object is destroyed.
class Watch {
 public:
  // Called on a thread of the watch, one call at a time. It must only enqueue.
  using OnChange = std::function<void(const KeyState& state)>;
  virtual ~Watch() = default;
};

class Client {
 public:
  // Reads the files, and opens no connection yet. Errors, for people: FailedPrecondition,
  // InvalidArgument, and others if a file cannot be read.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const Options& options);
  virtual ~Client() = default;

  // One transaction. If all guards hold, all writes happen; otherwise none does. `reads` are read
  // after the writes, in both cases. Linearizable if there is a write or a read: etcd answers a
  // transaction that has only guards from one member's memory. Errors:
  //   Aborted            it certainly had no effect: no connection was made, or etcd refused it.
  //                      It may be retried; the message says why it failed
  //   Unknown            it may have had its effect, or may still have it: no answer came, or an
  //                      answer that leaves this open. etcd also reports NOSPACE for a transaction
  //                      that it has carried out, so a full etcd is Unknown
  //   Unauthenticated    it certainly had no effect: no member accepts our credentials, or none has
  //                      a certificate of --etcd-ca
  //   others             a retry cannot help: permissions, a request too large
  virtual absl::StatusOr<Answer> Transact(const std::vector<Guard>& guards,
                                          const std::vector<Write>& writes,
                                          const std::vector<std::string>& reads,
                                          std::chrono::milliseconds limit) = 0;
  // The keys that begin with `prefix`, in order, all at one revision that is not older than the
  // call. Errors like Transact.
  virtual absl::StatusOr<Answer> List(const std::string& prefix, bool keys_only,
                                      std::chrono::milliseconds limit) = 0;
  // The cluster as this member sees it.
  virtual absl::StatusOr<MemberStatus> Ask(const std::string& endpoint,
                                           std::chrono::milliseconds limit) = 0;
  // Reports the state of `key` once it is known, and then its changes. Of the changes during a
  // broken connection, it reports only the newest.
  virtual std::unique_ptr<Watch> WatchKey(const std::string& key, Watch::OnChange on_change) = 0;
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_CLIENT_H_
