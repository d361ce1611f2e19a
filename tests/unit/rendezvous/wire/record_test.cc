#include "rendezvous/wire/record.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "tests/unit/rendezvous/wire/full_messages.h"

namespace ddprun::wire {
namespace record_test {

JobRecord FullRecord() {
  JobRecord record;
  record.requeue_number = 3;
  record.spec = FullJoin().job;
  record.generation = Generation{7};
  record.master_addr = "10.0.0.1";
  record.master_port = 29501;
  record.members = {{AgentId{5}, {"n1", "10.0.0.1", 2}, 29501, NodeRank{0}, Rank{0}},
                    {AgentId{9}, {"n3", "10.0.0.3", 1}, 29502, NodeRank{2}, Rank{4}}};
  record.governor = {{120, std::chrono::milliseconds(1500), 4, 1, 2, 0xABCDEF},
                     2,
                     {std::chrono::seconds(90), std::chrono::seconds(3)},
                     3,
                     {std::chrono::seconds(80)}};
  record.causes = {FullRootCause(), LostNode()};
  record.reports_checkpoints = true;
  record.checkpoint = 400;
  record.checkpoint_generation = Generation{2};
  record.members[1].removed = true;
  record.members[1].role = RolePlace{Rank{4}, 5};
  record.plan = Plan{.stop = true,
                     .save = true,
                     .saved = true,
                     .preempted = true,
                     .for_store = true,
                     .reason = "stopped by an operator"};
  record.restore = RestorePlan{FullStates()[0], Rank{4}, "n3"};
  record.timeline = {{0, Generation{3}, 100}, {3, Generation{7}, 390}};
  record.quarantine = {{{"n3", std::chrono::seconds(5)}, {"n4", {}}}, {"n9"}, {"n3", "n9", "n3"}};
  record.failed_checkpoints = {{4, 380, "disk full", "n3"}, {{AgentId{5}, 1}, {AgentId{9}, 3}}};
  record.run_id = RunId{0xFEDCBA9876543210};
  record.needs_worker_store = true;
  record.longest_intervals = {{"", std::chrono::seconds(8)},
                              {"evaluation", std::chrono::minutes(9)}};
  return record;
}

TEST(RecordTest, ComesBackEqual) {
  JobRecord ended = FullRecord();
  ended.finished = Finished{Outcome::kFailed, 139, "rank 7: SIGSEGV", 3, FullRootCause(), {}};
  for (const JobRecord& record : {FullRecord(), ended}) {
    const auto back = DecodeRecord(EncodeRecord("uid:1000", record));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->owner, "uid:1000");
    EXPECT_EQ(back->record, record);
  }
}

// A record of an older version, which had no restore plans and did not count failed checkpoints.
TEST(RecordTest, AnOlderOneHasNoPlanNoTimelineAndNoFailures) {
  JobRecord older = FullRecord();
  older.failed_checkpoints = {};
  older.restore.reset();
  older.timeline.clear();
  older.run_id = {};
  const auto back = DecodeRecord(EncodeRecord("", older));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->record, older);
}

// Happens in a rolling upgrade when the older version leads again.
TEST(RecordTest, AFieldOfALaterVersionIsLeftOut) {
  const std::string field_1000 = "\xc0\x3e\x07";  // of the value 7
  const auto back = DecodeRecord(EncodeRecord("ann", FullRecord()) + field_1000);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->record, FullRecord());
}

TEST(RecordTest, WhatCannotBeOneIsDataLoss) {
  EXPECT_EQ(DecodeRecord("\xff\xff").status().code(), absl::StatusCode::kDataLoss);
  JobRecord overlapping = FullRecord();
  overlapping.members[1].rank = NodeRank{0};
  const auto back = DecodeRecord(EncodeRecord("", overlapping));
  EXPECT_EQ(back.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(back.status().message()), "NodeRecord.node_rank is 0, expected 1 to 3");
}

TEST(RecordTest, KeysNameTheirJob) {
  EXPECT_EQ(JobOfKey(JobKey("a/b")), "a/b");
  EXPECT_EQ(JobOfKey("node/a"), std::nullopt);
}

}  // namespace record_test
}  // namespace ddprun::wire
