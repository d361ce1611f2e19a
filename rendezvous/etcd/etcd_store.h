// EtcdStore: keys and values in etcd, for the rendezvous that leads (docs/ha.md). state_map.h
// describes the keys in etcd, and why a delayed write has no effect.
//
// One thread sends one transaction after the other. Batches committed meanwhile are written
// together in the next one, as far as they fit. If a transaction got no answer, the store first
// reads whether etcd kept it; if not, it sends it again. It also retries any other failed
// transaction, unless its guards show that the right to write is lost. If writes fail for longer
// than `patience`, the batches of this transaction are reported as failed, and the log gets a line.
// It gets another line when writing works again.
//
// Waiting batches take memory in proportion to the keys that were written, not to the number of
// commits, because past `merge_above_bytes` they are merged into one. A batch with more than
// kMostKeys keys (state_map.h) is not written atomically, but each of its keys is.
//
// All functions except Post and SetTerm: by one thread at a time.
//
// PREFIX/leader is the leader key. Its mod_revision is the term. The store does not write this key:
// the store's owner does, in a task given to Post.
#ifndef DDPRUN_RENDEZVOUS_ETCD_ETCD_STORE_H_
#define DDPRUN_RENDEZVOUS_ETCD_ETCD_STORE_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rendezvous/core/term.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/store/store.h"
#include "worker/contract/task_queue.h"

namespace ddprun::etcd {

class EtcdStore final : public Store {
 public:
  // For people. Called on the store's thread, so it must only enqueue. Not called once the
  // destructor has begun.
  using Log = std::function<void(std::string_view text)>;

  struct Options {
    std::shared_ptr<Client> client;
    std::string prefix = "/ddprun";  // of all keys, without a slash at its end
    std::size_t merge_above_bytes = 16 << 20;
    std::chrono::milliseconds call_limit{2000};   // of one transaction
    std::chrono::milliseconds load_limit{30000};  // of Load: no new try begins after it
    // The pause before a retry of a write begins with first_retry and doubles up to last_retry.
    std::chrono::milliseconds first_retry{20};
    std::chrono::milliseconds last_retry{1000};
    // How long writes may fail before it is reported. Longer than an election in etcd with the
    // settings of docs/ha.md.
    std::chrono::milliseconds patience{1000};
    // The destructor waits this long for committed batches. A thread that still waits for etcd then
    // is left behind.
    std::chrono::milliseconds close_grace{2000};
    // Called with the reason when writes have failed for `patience`, and with "" when they work
    // again. On the store's thread, like Log.
    std::function<void(const std::string& why)> on_trouble;
  };

  EtcdStore(Options options, Log log);
  // Tries to write the committed batches within close_grace, and calls no `done` any more.
  ~EtcdStore() override;
  EtcdStore(const EtcdStore&) = delete;
  EtcdStore& operator=(const EtcdStore&) = delete;

  // For writes of the leader key. If the store reads a term there that it did not get by SetTerm,
  // it considers the right to write lost. So write the leader key only in a task given to Post.
  // Before the task ends, find out whether the write was kept, and call SetTerm if it was. `task()`
  // runs on the store's thread between two transactions, in the order of the calls. A write that is
  // being retried waits until the task has run. Any thread.
  void Post(std::function<void()> task);
  // The term of this leader's transactions from now on. Any thread.
  void SetTerm(const Term& term);

  // Call it after SetTerm. From then on the store removes parts (pieces of large values,
  // state_map.h) that no value refers to. Errors besides those of Store::Load: FailedPrecondition
  // if the term is not ours, Unavailable if etcd has not answered within load_limit.
  absl::StatusOr<std::map<std::string, std::string>> Load() override;
  void Commit(Batch batch, Done done) override;

  // Bytes of the waiting batches, without the batches that are being written. For tests: nothing
  // else shows that this memory is bounded.
  std::size_t QueuedBytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
  TaskQueue tasks_{"ddprun-etcd"};
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_STORE_H_
