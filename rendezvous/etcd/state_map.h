// StateMap: the job records in etcd as this leader knows them, and the transactions that change it.
// Internal to this folder. Pure.
//
//     PREFIX/leader        the leader key: its mod_revision is the leader's term
//     PREFIX/last-write    the id of the newest transaction of this file
//     PREFIX/state/KEY     a StoredValue (proto/ddprun/v1/etcd_store.proto)
//     PREFIX/parts/NAME    a piece of a large value
//
// Every transaction has guards on the leader key, on `last-write`, which it also writes, and on the
// keys of the state that it changes. So each transaction of a leader takes effect at most once, and
// in order: a delayed copy of an earlier transaction finds `last-write` changed. The changed keys
// alone are no sufficient guard: an erased key looks like a key that never existed.
//
// The parts of a value are written first, under new names. Then one transaction writes the value,
// which names its parts. An unchanged part is reused. Parts that no value names are removed.
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

// By default etcd accepts transactions of up to 1.5 MiB, and is slow with large values. Larger
// values have parts. Smaller ones have parts only if their batch does not fit into one transaction.
inline constexpr std::size_t kMostPartBytes = 240 << 10;
inline constexpr std::size_t kMostTransactionBytes = 1'000'000;  // of keys and values written
inline constexpr std::size_t kMostKeys = kMostOperations - 8;    // written by one transaction

class StateMap {
 public:
  // One transaction.
  struct Change {
    std::string id;             // is written to `last-write`
    std::vector<Write> writes;  // its other writes
    // The new values of the state's keys that it changes; nullopt: erased. Writes of other keys are
    // parts.
    struct Value {
      std::vector<std::string> parts;    // names
      std::vector<std::string> digests;  // of the parts
    };
    std::map<std::string, std::optional<Value>> values;
  };
  // The result of a change, by the keys that etcd has.
  enum class Verdict {
    kKept,      // it is durable
    kNotYet,    // nothing was written since the change before it: it may be sent again
    kLostRight  // another process leads, or has written the state
  };

  explicit StateMap(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string leader_key() const { return prefix_ + "/leader"; }
  std::string last_write_key() const { return prefix_ + "/last-write"; }
  std::string state_prefix() const { return prefix_ + "/state/"; }
  std::string parts_prefix() const { return prefix_ + "/parts/"; }

  // Loads the entries found under last_write_key (nullopt: none), state_prefix and parts_prefix.
  // Returns the state. DataLoss names the key of a damaged entry.
  absl::StatusOr<std::map<std::string, std::string>> Load(const std::optional<KeyValue>& last_write,
                                                          std::vector<KeyValue> state,
                                                          std::vector<KeyValue> parts);

  // Returns the changes that make the first batches of `batches` durable: as many batches as fit
  // into one transaction, which is the last of these changes. Removes these batches from `batches`,
  // and sets `batches_done` to their number. Of a batch with more than kMostKeys keys, the rest
  // stays in `batches`.
  std::vector<Change> Plan(std::deque<Store::Batch>& batches, const Term& term,
                           std::size_t* batches_done);
  // Returns a change that removes some of the parts that no value names; nullopt: there are no such
  // parts.
  std::optional<Change> PlanRemoval(const Term& term);

  // The guards and writes of the transaction that makes this change.
  std::vector<Guard> GuardsOf(const Change& change, const Term& term) const;
  std::vector<Write> WritesOf(const Change& change) const;
  // Decides by the values read under leader_key and last_write_key. If the change was kept,
  // `revision` is the revision of its writes.
  Verdict Judge(const Change& change, const Term& term, const Answer& answer,
                std::uint64_t* revision) const;
  // Call it for each change that was kept, with its revision.
  void Apply(const Change& change, std::uint64_t revision);

 private:
  struct Known {
    std::uint64_t mod_revision = 0;
    Change::Value value;
  };

  std::string NewId(const Term& term);
  // Adds the write of `value` under `key` to `naming`, and those of its new parts to `parts`. A
  // value of up to `most_whole` bytes has no parts.
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
