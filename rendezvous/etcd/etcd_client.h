// etcd::Client: the few calls of etcd's gRPC API (v3) that a rendezvous needs.
//
// Every call blocks, for at most the time that its caller allows. Any thread; calls of several
// threads run side by side. It tries the members of the cluster one after the other, the one that
// answered last first. A call that may have had an effect is never sent again by itself.
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
  std::vector<std::string> endpoints;  // "HOST:PORT" of members; in errors as they are here
  // PEM files; none: no TLS. `cert` and `key` come together, and need `ca`. Read again for each new
  // connection.
  std::string ca;
  std::string cert;
  std::string key;
  std::string user;           // "": etcd asks nobody who he is
  std::string password_file;  // read again for each token
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

// What etcd's defaults allow in one transaction: of guards, and of writes and reads together.
inline constexpr std::size_t kMostOperations = 128;

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

// A key as etcd has it.
struct KeyState {
  std::uint64_t cluster = 0;         // etcd's cluster id
  std::uint64_t mod_revision = 0;    // 0: there is no such key
  std::optional<std::string> value;  // nullopt: there is no such key
  bool operator==(const KeyState&) const = default;
};

// Tells of every change of one key (etcd_watch.h). It ends with this object, within a moment.
class Watch {
 public:
  // On a thread of the watch, one call at a time; it must only enqueue.
  using OnChange = std::function<void(const KeyState& state)>;
  virtual ~Watch() = default;
};

class Client {
 public:
  // Reads the files. Connects to nobody yet. Errors, for people: FailedPrecondition,
  // InvalidArgument, and others where a file cannot be read.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const Options& options);
  virtual ~Client() = default;

  // One transaction: if all guards hold the writes happen, all or none; `reads` are read in both
  // cases, after the writes. With no read it is linearizable only where it writes: etcd answers one
  // of guards alone from a member's memory. Errors:
  //   Aborted            it certainly had no effect: no connection was made, or etcd refused it;
  //   may
  //                      be tried again (its message says why)
  //   Unknown            it may have had its effect, or may have it yet: no answer came, or one
  //   that
  //                      does not tell. A full etcd (NOSPACE) is among these: etcd says so of a
  //                      transaction that it has carried out, too
  //   Unauthenticated    no member takes our credentials, or shows a certificate of --etcd-ca; it
  //                      certainly had no effect
  //   others             cannot get better by trying again: permissions, a request too large
  virtual absl::StatusOr<Answer> Transact(const std::vector<Guard>& guards,
                                          const std::vector<Write>& writes,
                                          const std::vector<std::string>& reads,
                                          std::chrono::milliseconds limit) = 0;
  // The keys that begin with `prefix`, in order, as they all were at one revision, which is not
  // older than the call. Errors as of Transact.
  virtual absl::StatusOr<Answer> List(const std::string& prefix, bool keys_only,
                                      std::chrono::milliseconds limit) = 0;
  // Of one member, as it sees the cluster.
  virtual absl::StatusOr<MemberStatus> Ask(const std::string& endpoint,
                                           std::chrono::milliseconds limit) = 0;
  // Says how `key` is once it is known, and then each time that it has changed.
  virtual std::unique_ptr<Watch> WatchKey(const std::string& key, Watch::OnChange on_change) = 0;
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_CLIENT_H_
