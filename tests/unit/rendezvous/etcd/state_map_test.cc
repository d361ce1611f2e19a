#include "rendezvous/etcd/state_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/machine/job_record.h"
#include "rendezvous/wire/record.h"

namespace ddprun::etcd {
namespace state_map_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Batches = std::deque<Store::Batch>;
using Entries = std::map<std::string, std::string>;

constexpr Term kTerm{7, 41};

// The keys that the changes of a StateMap leave in etcd.
class Etcd {
 public:
  Etcd() { keys_["/p/leader"] = {"/p/leader", "L", kTerm.revision}; }

  bool Make(StateMap& map, const StateMap::Change& change) {
    for (const Guard& guard : map.GuardsOf(change, kTerm)) {
      const auto found = keys_.find(guard.key);
      if ((found == keys_.end() ? 0 : found->second.mod_revision) != guard.mod_revision) {
        return false;
      }
    }
    ++revision_;
    for (const Write& write : map.WritesOf(change)) {
      if (write.value) {
        keys_[write.key] = {write.key, *write.value, revision_};
      } else {
        keys_.erase(write.key);
      }
    }
    map.Apply(change, revision_);
    return true;
  }
  // Makes all of `batches`, and then the removals. Returns the changes.
  std::vector<StateMap::Change> MakeAll(StateMap& map, Batches batches) {
    std::vector<StateMap::Change> made;
    while (!batches.empty()) {
      std::size_t batches_done = 0;
      for (StateMap::Change& change : map.Plan(batches, kTerm, &batches_done)) {
        EXPECT_TRUE(Make(map, change));
        made.push_back(std::move(change));
      }
    }
    while (auto removal = map.PlanRemoval(kTerm)) {
      EXPECT_TRUE(Make(map, *removal));
      made.push_back(*std::move(removal));
    }
    return made;
  }
  std::vector<KeyValue> Under(const std::string& prefix) const {
    std::vector<KeyValue> found;
    for (const auto& [key, value] : keys_) {
      if (absl::StartsWith(key, prefix)) found.push_back(value);
    }
    return found;
  }
  absl::StatusOr<Entries> LoadInto(StateMap& map) const {
    const auto last_write = Under(map.last_write_key());
    return map.Load(last_write.empty() ? std::nullopt : std::optional(last_write.front()),
                    Under(map.state_prefix()), Under(map.parts_prefix()));
  }
  std::map<std::string, KeyValue>& keys() { return keys_; }

 private:
  std::map<std::string, KeyValue> keys_;
  std::uint64_t revision_ = 50;
};

std::size_t BytesOfWrites(const StateMap& map, const StateMap::Change& change) {
  std::size_t bytes = 0;
  for (const Write& write : map.WritesOf(change)) {
    bytes += write.key.size() + (write.value ? write.value->size() : 0);
  }
  return bytes;
}

// Every key and every transaction is within the limits of etcd.
void ExpectWithinBounds(const StateMap& map, const std::vector<StateMap::Change>& changes) {
  for (const StateMap::Change& change : changes) {
    EXPECT_LT(BytesOfWrites(map, change), 1u << 20);
    EXPECT_LE(map.WritesOf(change).size() + 2, kMostOperations);  // and two reads
    EXPECT_LE(map.GuardsOf(change, kTerm).size(), kMostOperations);
    for (const Write& write : change.writes) {
      EXPECT_LT(write.key.size() + (write.value ? write.value->size() : 0), 256u << 10);
    }
  }
}

std::string Text(std::size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>((seed = seed * 1103515245 + 12345) >> 24);
  return text;
}

class StateMapTest : public ::testing::Test {
 protected:
  std::size_t Parts() const { return etcd_.Under("/p/parts/").size(); }
  // The entries that the next leader finds.
  Entries Loaded() const {
    StateMap next("/p");
    const auto loaded = etcd_.LoadInto(next);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *loaded : Entries{};
  }

  Etcd etcd_;
  StateMap map_{"/p"};
};

TEST_F(StateMapTest, SmallValuesThatWaitAreOneTransaction) {
  const auto made = etcd_.MakeAll(map_, {{{"a", "1"}}, {{"b", "2"}}, {{"a", "3"}}});
  EXPECT_THAT(made, SizeIs(1));
  EXPECT_EQ(Loaded(), (Entries{{"a", "3"}, {"b", "2"}}));
  etcd_.MakeAll(map_, {{{"a", std::nullopt}}});
  EXPECT_EQ(Loaded(), (Entries{{"b", "2"}}));
}

TEST_F(StateMapTest, ALargeValueGoesIntoPartsThatAreNamedLast) {
  const std::string value = Text(3 * kMostPartBytes + 5);
  const auto made = etcd_.MakeAll(map_, {{{"job/a", value}}});
  ASSERT_THAT(made, SizeIs(2));
  EXPECT_THAT(made[0].values, IsEmpty());
  EXPECT_THAT(made[0].writes, SizeIs(4));
  EXPECT_THAT(made[1].writes, SizeIs(1));
  EXPECT_EQ(Loaded(), (Entries{{"job/a", value}}));
  ExpectWithinBounds(map_, made);
}

TEST_F(StateMapTest, PartsThatHaveNotChangedStay) {
  std::string value = Text(8 * kMostPartBytes);
  etcd_.MakeAll(map_, {{{"a", value}}});
  value.back() ^= 1;
  const auto made = etcd_.MakeAll(map_, {{{"a", value}}});
  ASSERT_THAT(made, SizeIs(3));  // the part, its name, and the old part's end
  EXPECT_THAT(made[0].writes, SizeIs(1));
  EXPECT_EQ(Parts(), 8u);
  EXPECT_EQ(Loaded(), (Entries{{"a", value}}));
}

TEST_F(StateMapTest, PartsThatNoValueNamesAreRemoved) {
  etcd_.MakeAll(map_, {{{"a", Text(5 * kMostPartBytes)}}});
  EXPECT_EQ(Parts(), 5u);
  etcd_.MakeAll(map_, {{{"a", Text(kMostPartBytes + 1, 2)}}});
  EXPECT_EQ(Parts(), 2u);
  etcd_.MakeAll(map_, {{{"a", "small"}}});
  EXPECT_EQ(Parts(), 0u);
  etcd_.MakeAll(map_, {{{"a", Text(2 * kMostPartBytes)}}});
  etcd_.MakeAll(map_, {{{"a", std::nullopt}}});
  EXPECT_EQ(Parts(), 0u);
}

TEST_F(StateMapTest, ALeaderRemovesPartsThatTheOneBeforeDidNotComeToName) {
  etcd_.MakeAll(map_, {{{"a", Text(2 * kMostPartBytes)}}});
  Batches batches = {{{"b", Text(9 * kMostPartBytes)}}};
  std::size_t batches_done = 0;
  const auto planned = map_.Plan(batches, kTerm, &batches_done);
  ASSERT_THAT(planned, SizeIs(4));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(etcd_.Make(map_, planned[i]));  // then the leader dies
  EXPECT_EQ(Parts(), 10u);

  StateMap next("/p");
  ASSERT_TRUE(etcd_.LoadInto(next).ok());
  etcd_.MakeAll(next, {});
  EXPECT_EQ(Parts(), 2u);
  EXPECT_THAT(Loaded(), SizeIs(1));
}

TEST_F(StateMapTest, AMissingOrAChangedPartIsDataLoss) {
  etcd_.MakeAll(map_, {{{"a", Text(2 * kMostPartBytes)}}});
  const auto part = etcd_.Under("/p/parts/").front();
  StateMap next("/p");
  etcd_.keys()[part.key].value.back() ^= 1;
  const auto changed = etcd_.LoadInto(next);
  EXPECT_EQ(changed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(changed.status().message()), HasSubstr(part.key));
  etcd_.keys().erase(part.key);
  EXPECT_THAT(std::string(etcd_.LoadInto(next).status().message()), HasSubstr("missing"));
}

TEST_F(StateMapTest, ADelayedCopyOfAnEarlierChangeFindsThatOthersCameAfterIt) {
  Batches batches = {{{"a", "old"}}};
  std::size_t batches_done = 0;
  const auto first = map_.Plan(batches, kTerm, &batches_done);
  const std::vector<Guard> guards = map_.GuardsOf(first[0], kTerm);
  ASSERT_TRUE(etcd_.Make(map_, first[0]));
  etcd_.MakeAll(map_, {{{"a", std::nullopt}}});
  // A guard on the key alone would hold: the key is missing, as before the first change.
  EXPECT_EQ(etcd_.keys().count("/p/state/a"), 0u);
  const bool holds = std::all_of(guards.begin(), guards.end(), [&](const Guard& guard) {
    const auto found = etcd_.keys().find(guard.key);
    return (found == etcd_.keys().end() ? 0 : found->second.mod_revision) == guard.mod_revision;
  });
  EXPECT_FALSE(holds);
}

TEST_F(StateMapTest, SaysByLeaderKeyAndLastWriteWhatBecameOfAChange) {
  Batches batches = {{{"a", "1"}}};
  std::size_t batches_done = 0;
  const StateMap::Change change = map_.Plan(batches, kTerm, &batches_done)[0];
  const KeyValue leader{"/p/leader", "L", kTerm.revision};
  const auto judge = [&](std::uint64_t cluster, std::vector<KeyValue> found) {
    std::uint64_t revision = 0;
    return map_.Judge(change, kTerm, Answer{true, cluster, 99, std::move(found)}, &revision);
  };
  EXPECT_EQ(judge(7, {leader}), StateMap::Verdict::kNotYet);
  EXPECT_EQ(judge(7, {leader, {"/p/last-write", change.id, 60}}), StateMap::Verdict::kKept);
  EXPECT_EQ(judge(7, {leader, {"/p/last-write", "another", 60}}), StateMap::Verdict::kLostRight);
  EXPECT_EQ(judge(7, {{"/p/leader", "L", 42}}), StateMap::Verdict::kLostRight);
  EXPECT_EQ(judge(7, {}), StateMap::Verdict::kLostRight);
  EXPECT_EQ(judge(8, {leader}), StateMap::Verdict::kLostRight);
}

TEST_F(StateMapTest, ABatchOfManyLargeValuesIsStillNamedInOneTransaction) {
  Store::Batch batch;
  Entries expected;
  for (unsigned i = 0; i < 20; ++i) {
    const std::string key = absl::StrCat("k", i);
    expected[key] = Text(100'000, i);
    batch.push_back({key, expected[key]});
  }
  const auto made = etcd_.MakeAll(map_, {batch});
  ExpectWithinBounds(map_, made);
  EXPECT_EQ(std::count_if(made.begin(), made.end(),
                          [](const StateMap::Change& change) { return !change.values.empty(); }),
            1);
  EXPECT_EQ(Loaded(), expected);
}

TEST_F(StateMapTest, ManyBatchesAndManyKeysStayWithinTheBounds) {
  Batches batches;
  Entries expected;
  for (unsigned i = 0; i < 300; ++i) {
    const std::string key = absl::StrCat("k", i);
    expected[key] = Text(i * 40, i);
    batches.push_back({{key, expected[key]}});
  }
  Store::Batch wide;
  for (unsigned i = 0; i < 300; ++i) {
    wide.push_back({absl::StrCat("w", i), "x"});
    expected[absl::StrCat("w", i)] = "x";
  }
  batches.push_back(wide);
  ExpectWithinBounds(map_, etcd_.MakeAll(map_, batches));
  EXPECT_EQ(Loaded(), expected);
}

TEST_F(StateMapTest, TheRecordOf65536NodesFits) {
  JobRecord record;
  record.generation = Generation{3};
  record.master_addr = "node-00000.cluster.example.org";
  record.master_port = 29501;
  for (int i = 0; i < 65'536; ++i) {
    const std::string host = absl::StrCat("node-", 100'000 + i, ".cluster.example.org");
    record.members.push_back(
        {AgentId{0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(i + 1)},
         {host, absl::StrCat("10.", i >> 16, ".", i >> 8 & 255, ".", i & 255), 8},
         29501,
         NodeRank{i},
         Rank{8 * i}});
  }
  const std::string value = wire::EncodeRecord("uid:1000", record);
  ASSERT_GT(value.size(), 4u << 20);
  const auto made = etcd_.MakeAll(map_, {{{wire::JobKey("large"), value}}});
  ExpectWithinBounds(map_, made);
  EXPECT_EQ(Loaded(), (Entries{{wire::JobKey("large"), value}}));

  record.checkpoint = 400;  // comes after the members
  const auto next =
      etcd_.MakeAll(map_, {{{wire::JobKey("large"), wire::EncodeRecord("uid:1000", record)}}});
  EXPECT_LE(next.size(), 3u) << "the members were written again";
}

}  // namespace state_map_test
}  // namespace ddprun::etcd
