// Store: keys and values that survive the death of the rendezvous.
//
// The interface is narrow, so that it fits a local file (FileStore) and etcd (rendezvous/etcd).
// rendezvous/wire/record.h defines keys and values; a store does not interpret them.
//
// One owner calls it, from one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_STORE_STORE_H_
#define DDPRUN_RENDEZVOUS_STORE_STORE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ddprun {

class Store {
 public:
  struct Write {
    std::string key;
    std::optional<std::string> value;  // nullopt: erases the key
    bool operator==(const Write&) const = default;
  };
  using Batch = std::vector<Write>;

  // The outcome of a batch.
  enum class Outcome {
    kKept,    // the batch is durable
    kFailed,  // not durable yet: the disk, or etcd, takes no writes; the store retries and reports
              // again
    // This and all later batches will never be durable: another process has the right to write.
    kLostRight,
  };
  using Done = std::function<void(Outcome)>;

  virtual ~Store() = default;

  // Returns all entries. Call it before the first Commit: once, or again after an error. Blocks.
  // Errors: DataLoss, with the place, for a damaged store; others if it cannot be read.
  virtual absl::StatusOr<std::map<std::string, std::string>> Load() = 0;

  // Makes the whole batch durable, or none of it if the machine dies meanwhile. Batches become
  // durable in the order of the calls. Never blocks. `done` is called at most once with kFailed,
  // then once with kKept or kLostRight. It is called on the caller's thread before Commit returns,
  // or later on a thread of the store, and must only enqueue. If the store cannot write, its log
  // says why. `done` is not called if the store is destroyed first.
  virtual void Commit(Batch batch, Done done) = 0;
};

// A store without persistence.
class MemoryStore final : public Store {
 public:
  absl::StatusOr<std::map<std::string, std::string>> Load() override {
    return std::map<std::string, std::string>();
  }
  void Commit(Batch, Done done) override { done(Outcome::kKept); }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_STORE_H_
