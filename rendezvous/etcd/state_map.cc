#define XXH_INLINE_ALL
#include "rendezvous/etcd/state_map.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ddprun/v1/etcd_store.pb.h"
#include "rendezvous/core/check.h"

namespace ddprun::etcd {
namespace {

// If the values of one batch do not fit into one transaction, values above this size also go into
// parts.
constexpr std::size_t kMostWholeBytes = 4 << 10;

std::string DigestOf(absl::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest);
}

// The bytes that `value` takes in the transaction that writes it or names its parts.
std::size_t NamingBytes(const std::optional<std::string>& value, std::size_t most_whole) {
  constexpr std::size_t kNameBytes = 64;  // of one part, with its digest
  if (!value) return 0;
  if (value->size() <= most_whole) return value->size() + 16;
  return (value->size() / kMostPartBytes + 1) * kNameBytes;
}

const KeyValue* Find(const Answer& answer, const std::string& key) {
  for (const KeyValue& found : answer.found) {
    if (found.key == key) return &found;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> StateMap::Load(
    const std::optional<KeyValue>& last_write, std::vector<KeyValue> state,
    std::vector<KeyValue> parts) {
  last_write_revision_ = last_write ? last_write->mod_revision : 0;
  known_.clear();
  unnamed_.clear();
  std::map<std::string, std::string> pieces;
  for (KeyValue& part : parts) {
    std::string name = part.key.substr(parts_prefix().size());
    unnamed_.insert(name);
    pieces.emplace(std::move(name), std::move(part.value));
  }
  std::map<std::string, std::string> loaded;
  for (KeyValue& entry : state) {
    v1::StoredValue stored;
    if (!stored.ParseFromString(entry.value)) {
      return absl::DataLossError(absl::StrCat("etcd's key ", entry.key, " is no StoredValue"));
    }
    const std::string key = entry.key.substr(state_prefix().size());
    Known& known = known_[key];
    known.mod_revision = entry.mod_revision;
    std::string value = std::move(*stored.mutable_whole());
    for (const v1::StoredPart& part : stored.parts()) {
      const auto piece = pieces.find(part.name());
      if (piece == pieces.end() || piece->second.size() != part.bytes() ||
          DigestOf(piece->second) != part.digest()) {
        return absl::DataLossError(absl::StrCat("etcd's key ", entry.key, " names the part ",
                                                parts_prefix(), part.name(), ", which is ",
                                                piece == pieces.end() ? "missing" : "another one"));
      }
      value += piece->second;
      known.value.parts.push_back(part.name());
      known.value.digests.push_back(part.digest());
      unnamed_.erase(part.name());
    }
    loaded[key] = std::move(value);
  }
  return loaded;
}

std::string StateMap::NewId(const Term& term) { return absl::StrCat(term.revision, "-", ++ids_); }

void StateMap::AddValue(const std::string& key, std::string value, std::size_t most_whole,
                        Change* naming, std::vector<Write>* parts) {
  v1::StoredValue stored;
  Change::Value after;
  if (value.size() <= most_whole) {
    stored.set_whole(std::move(value));
  } else {
    const auto known = known_.find(key);
    for (std::size_t begin = 0, index = 0; begin < value.size(); begin += kMostPartBytes, ++index) {
      const absl::string_view piece = absl::string_view(value).substr(begin, kMostPartBytes);
      std::string digest = DigestOf(piece);
      const bool same = known != known_.end() && index < known->second.value.digests.size() &&
                        known->second.value.digests[index] == digest;
      std::string name = same ? known->second.value.parts[index]
                              : absl::StrCat(naming->id, "/", naming->values.size(), "/", index);
      if (!same) parts->push_back({absl::StrCat(parts_prefix(), name), std::string(piece)});
      v1::StoredPart* const part = stored.add_parts();
      part->set_name(name);
      part->set_bytes(static_cast<std::uint32_t>(piece.size()));
      part->set_digest(digest);
      after.parts.push_back(std::move(name));
      after.digests.push_back(std::move(digest));
    }
  }
  naming->writes.push_back({absl::StrCat(state_prefix(), key), stored.SerializeAsString()});
  naming->values[key] = std::move(after);
}

std::vector<StateMap::Change> StateMap::Plan(std::deque<Store::Batch>& batches, const Term& term,
                                             std::size_t* batches_done) {
  *batches_done = 0;
  std::map<std::string, std::optional<std::string>> values;  // the last of each key
  std::size_t bytes = 0;
  std::size_t most_whole = kMostPartBytes;
  while (!batches.empty()) {
    Store::Batch& batch = batches.front();
    std::size_t more = 0;
    for (const Store::Write& write : batch) {
      more += write.key.size() + state_prefix().size() + NamingBytes(write.value, most_whole);
    }
    if (values.empty()) {
      if (more > kMostTransactionBytes) most_whole = kMostWholeBytes;
    } else if (bytes + more > kMostTransactionBytes || values.size() + batch.size() > kMostKeys) {
      break;
    }
    bytes += more;
    const std::size_t taken = std::min(batch.size(), kMostKeys);
    for (std::size_t i = 0; i < taken; ++i) {
      values[std::move(batch[i].key)] = std::move(batch[i].value);
    }
    if (taken < batch.size()) {
      batch.erase(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(taken));
      break;
    }
    batches.pop_front();
    ++*batches_done;
    if (most_whole == kMostWholeBytes) break;
  }

  Change naming;
  naming.id = NewId(term);
  std::vector<Write> parts;
  for (auto& [key, value] : values) {
    if (value) {
      AddValue(key, *std::move(value), most_whole, &naming, &parts);
    } else {
      naming.writes.push_back({absl::StrCat(state_prefix(), key), std::nullopt});
      naming.values[key] = std::nullopt;
    }
  }
  std::vector<Change> changes;
  for (std::size_t next = 0; next < parts.size();) {
    Change change;
    change.id = NewId(term);
    std::size_t size = 0;
    for (; next < parts.size() && change.writes.size() < kMostKeys; ++next) {
      size += parts[next].key.size() + parts[next].value->size();
      if (size > kMostTransactionBytes && !change.writes.empty()) break;
      change.writes.push_back(std::move(parts[next]));
    }
    changes.push_back(std::move(change));
  }
  changes.push_back(std::move(naming));
  return changes;
}

std::optional<StateMap::Change> StateMap::PlanRemoval(const Term& term) {
  if (unnamed_.empty()) return std::nullopt;
  Change change;
  change.id = NewId(term);
  for (const std::string& name : unnamed_) {
    if (change.writes.size() == kMostKeys) break;
    change.writes.push_back({absl::StrCat(parts_prefix(), name), std::nullopt});
  }
  return change;
}

std::vector<Guard> StateMap::GuardsOf(const Change& change, const Term& term) const {
  std::vector<Guard> guards = {{leader_key(), term.revision},
                               {last_write_key(), last_write_revision_}};
  for (const auto& [key, value] : change.values) {
    const auto known = known_.find(key);
    guards.push_back({absl::StrCat(state_prefix(), key),
                      known == known_.end() ? 0 : known->second.mod_revision});
  }
  return guards;
}

std::vector<Write> StateMap::WritesOf(const Change& change) const {
  std::vector<Write> writes = change.writes;
  writes.push_back({last_write_key(), change.id});
  return writes;
}

StateMap::Verdict StateMap::Judge(const Change& change, const Term& term, const Answer& answer,
                                  std::uint64_t* revision) const {
  const KeyValue* const leader = Find(answer, leader_key());
  if (answer.cluster != term.cluster || leader == nullptr ||
      leader->mod_revision != term.revision) {
    return Verdict::kLostRight;
  }
  const KeyValue* const last_write = Find(answer, last_write_key());
  if (last_write != nullptr && last_write->value == change.id) {
    *revision = last_write->mod_revision;
    return Verdict::kKept;
  }
  return (last_write == nullptr ? 0 : last_write->mod_revision) == last_write_revision_
             ? Verdict::kNotYet
             : Verdict::kLostRight;
}

void StateMap::Apply(const Change& change, std::uint64_t revision) {
  DDPRUN_CHECK(revision > last_write_revision_, "revisions of etcd grow");
  last_write_revision_ = revision;
  for (const Write& write : change.writes) {
    if (!write.value && absl::StartsWith(write.key, parts_prefix())) {
      unnamed_.erase(write.key.substr(parts_prefix().size()));
    }
  }
  for (const auto& [key, value] : change.values) {
    if (const auto known = known_.find(key); known != known_.end()) {
      for (std::string& part : known->second.value.parts) unnamed_.insert(std::move(part));
    }
    if (!value) {
      known_.erase(key);
      continue;
    }
    for (const std::string& part : value->parts) unnamed_.erase(part);
    known_[key] = {revision, *value};
  }
}

}  // namespace ddprun::etcd
