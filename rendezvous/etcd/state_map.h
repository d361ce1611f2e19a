// StateMap: the durable state in etcd as this leader knows it, and the transactions that change it.
// Internal to this folder. Pure.
//
//     PREFIX/leader        the leader key: its mod_revision is the leader's term
//     PREFIX/last-write    the id of the newest transaction of this file
//     PREFIX/state/KEY     a StoredValue (proto/ddprun/v1/etcd_store.proto)
//     PREFIX/parts/NAME    a piece of a value above kMostPartBytes
//
// Every transaction is guarded by the leader key, by `last-write`, which it also writes, and by the
// keys of the state that it changes. So of all transactions of one leader, each takes effect at
// most once, and after all that came before it: a delayed copy of an earlier one finds `last-write`
// changed. The keys alone do not tell: one that was erased and one that never was look the same.
//
// The parts of a value are written first, under names that no value has had; then one transaction
// names them. A part that has not changed is named again. Parts that no value names are removed.
#ifndef DDPRUN_RENDEZVOUS_ETCD_STATE_MAP_H_
#define DDPRUN_RENDEZVOUS_ETCD_STATE_MAP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/core/term.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/store/store.h"

namespace ddprun::etcd {

// etcd keeps 1.5 MiB of a transaction by default, and is slow with large values.
inline constexpr std::size_t kMostPartBytes = 240 << 10;
inline constexpr std::size_t kMostTransactionBytes = 1'000'000;  // of keys and values written
inline constexpr std::size_t kMostKeys = kMostOperations - 8;    // written by one transaction

class StateMap {
 public:
  // One transaction.
  struct Change {
    std::string id;             // what it leaves under `last-write`
    std::vector<Write> writes;  // without that
    // What the state's keys have then; nullopt: erased. The other writes are of parts.
    struct Value {
      std::vector<std::string> parts;    // names
      std::vector<std::string> digests;  // of the parts
    };
    std::map<std::string, std::optional<Value>> values;
  };
  // What etcd has of the keys that tell what became of a change.
  enum class Verdict {
    kKept,      // it is durable
    kNotYet,    // nothing was written since the change before it: it may be sent again
    kLostRight  // another one leads, or has written the state
  };

  explicit StateMap(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string leader_key() const { return prefix_ + "/leader"; }
  std::string last_write_key() const { return prefix_ + "/last-write"; }
  std::string state_prefix() const { return prefix_ + "/state/"; }
  std::string parts_prefix() const { return prefix_ + "/parts/"; }

  // Takes up what was found under last_write_key (nullopt: nothing), state_prefix and parts_prefix.
  // Returns the state. DataLoss, with the key, for what is damaged.
  absl::StatusOr<std::map<std::string, std::string>> Load(const std::optional<KeyValue>& last_write,
                                                          std::vector<KeyValue> state,
                                                          std::vector<KeyValue> parts);

  // The changes that make the first of `batches` durable, as many as fit into one transaction,
  // which is the last one of them; removes these batches, and says how many. A batch whose keys are
  // more than kMostKeys stays with the rest of them.
  std::vector<Change> Plan(std::deque<Store::Batch>& batches, const Term& term,
                           std::size_t* batches_done);
  // Removes some parts that no value names; nullopt: there are none.
  std::optional<Change> PlanRemoval(const Term& term);

  // The transaction that makes it.
  std::vector<Guard> GuardsOf(const Change& change, const Term& term) const;
  std::vector<Write> WritesOf(const Change& change) const;
  // By what was read of leader_key and last_write_key. Where it was kept, `revision` is that of its
  // writes.
  Verdict Judge(const Change& change, const Term& term, const Answer& answer,
                std::uint64_t* revision) const;
  // It was kept, at this revision.
  void Apply(const Change& change, std::uint64_t revision);

 private:
  struct Known {
    std::uint64_t mod_revision = 0;
    Change::Value value;
  };

  std::string NewId(const Term& term);
  // Adds the write of `value` under `key` to `naming`, and those of its new parts to `parts`.
  void AddValue(const std::string& key, std::string value, std::size_t most_whole, Change* naming,
                std::vector<Write>* parts);

  const std::string prefix_;
  std::uint64_t last_write_revision_ = 0;
  std::uint64_t ids_ = 0;
  std::map<std::string, Known> known_;
  std::set<std::string> unnamed_;  // parts to be removed, by their names
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_STATE_MAP_H_
