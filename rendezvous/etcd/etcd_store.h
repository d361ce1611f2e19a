// EtcdStore: keys and values in etcd, for the rendezvous that leads (docs/ha.md). state_map.h has
// how they lie there, and why a delayed write never wins.
//
// One thread sends one transaction after the other. What is committed meanwhile is written together
// in the next one. A transaction without an answer is looked for before anything else is written:
// it was kept, or it is sent again. What etcd refuses, or does not answer, is tried on. Where that
// lasts longer than `patience`, it has failed: that is said once in the log, as that it works
// again.
//
// What waits takes memory in proportion to the keys that were written, not to the number of
// commits, because past `merge_above_bytes` the waiting batches become one. Of a batch of more than
// kMostKeys keys, each key is written whole, but not all of them at once.
//
// The owner makes it and calls it from one thread, but for Post and SetTerm.
//
// PREFIX/leader is the leader key, whose mod_revision is the term; others write it (Post).
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
  // For people. From Load, on its caller's thread; later from the store's thread, so it must only
  // enqueue. Not called once the destructor has begun.
  using Log = std::function<void(std::string_view text)>;

  struct Options {
    std::shared_ptr<Client> client;
    std::string prefix = "/ddprun";  // of all keys, without a slash at its end
    std::size_t merge_above_bytes = 16 << 20;
    std::chrono::milliseconds call_limit{2000};   // of one transaction
    std::chrono::milliseconds load_limit{30000};  // of Load
    // Between two tries of a write that failed; doubles from the one to the other.
    std::chrono::milliseconds first_retry{20};
    std::chrono::milliseconds last_retry{1000};
    // An election among etcd's members is over sooner.
    std::chrono::milliseconds patience{1000};
    // The destructor waits this long for what was committed. A thread that still waits for etcd
    // then is left behind, to end with the process.
    std::chrono::milliseconds close_grace{2000};
    // Why etcd takes no writes, when `patience` is over; "": it takes them again. Called as Log.
    std::function<void(const std::string& why)> on_trouble;
  };

  EtcdStore(Options options, Log log);
  // Writes what was committed, if etcd lets it, and calls no `done` any more.
  ~EtcdStore() override;
  EtcdStore(const EtcdStore&) = delete;
  EtcdStore& operator=(const EtcdStore&) = delete;

  // Has `task()` run between two transactions of the store, in the order of the calls; a write that
  // is tried again and again is interrupted for it. Whoever writes the leader key does it in such a
  // task, and knows what became of it, and has called SetTerm where it is ours, before the task
  // ends: the store takes another term under the leader key for a lost right. Any thread.
  void Post(std::function<void()> task);
  // What we lead by, from the next transaction on. Any thread.
  void SetTerm(const Term& term);

  // After SetTerm. Parts that a leader left behind, which no value names, are removed from then on.
  // Errors also: FailedPrecondition where the term is not ours, Unavailable where etcd has not
  // answered within load_limit.
  absl::StatusOr<std::map<std::string, std::string>> Load() override;
  void Commit(Batch batch, Done done) override;

  // Bytes of keys and values that wait, without those that are being written. For tests: nothing
  // else shows that they are bounded.
  std::size_t QueuedBytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
  TaskQueue tasks_{"ddprun-etcd"};
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_STORE_H_
