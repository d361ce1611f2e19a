// Store: what a rendezvous must not forget when it is killed, as keys and values.
//
// Narrow on purpose: a file on this host today, a network store later. The keys and values are the
// service's (rendezvous/wire); a store does not look into them.
//
// One owner calls it, from one thread.
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
    std::optional<std::string> value;  // nullopt: the key is erased
    bool operator==(const Write&) const = default;
  };
  using Batch = std::vector<Write>;

  // What became of a batch.
  enum class Outcome {
    kKept,       // it is durable
    kFailed,     // it is not yet: a disk is full, or broken; the store tries on, and tells again
    kLostRight,  // it never will be, nor any later one: another process writes in our place
  };
  using Done = std::function<void(Outcome)>;

  virtual ~Store() = default;

  // Everything that is stored. Once, before the first Commit. Blocks. Errors: DataLoss for what
  // cannot be trusted, with the file and the offset; others when it cannot be read at all.
  virtual absl::StatusOr<std::map<std::string, std::string>> Load() = 0;

  // Makes all of the batch durable, or, if the machine dies meanwhile, none of it; batches in the
  // order of the calls. Never blocks. `done` is called with kFailed at most once, and then with one
  // of the others, for the last time: on the caller's thread before Commit returns, or later on a
  // thread of the store; it must only enqueue. A store that cannot write now says why in its log,
  // as one that may write no more does. Nothing comes when the store is destroyed before.
  virtual void Commit(Batch batch, Done done) = 0;
};

// Forgets everything with its process.
class MemoryStore final : public Store {
 public:
  absl::StatusOr<std::map<std::string, std::string>> Load() override {
    return std::map<std::string, std::string>();
  }
  void Commit(Batch, Done done) override { done(Outcome::kKept); }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_STORE_H_
