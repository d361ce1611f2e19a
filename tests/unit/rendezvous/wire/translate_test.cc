#include "rendezvous/wire/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/wire/limits.h"
#include "tests/unit/rendezvous/wire/full_messages.h"

namespace ddprun::wire {
namespace translate_test {

using ::testing::SizeIs;

Heartbeat HeartbeatWithProgress() {
  StillWorker worker{LocalRank{3}, 4242, std::chrono::milliseconds(41'800), 1204, "evaluation"};
  worker.state = ProcessState::kDiskWait;
  worker.busy = true;
  worker.inside = CollectiveCall{"default", 9632, "all_reduce", 12'100'000, 2};
  worker.entered = 9634;
  worker.earlier = {CollectiveCall{"default", 9631, "all_reduce", 4'000'000, 1}};
  worker.waits_for = "read(/data/shard-0017)";
  Heartbeat heartbeat{-5, 17};
  heartbeat.progress = NodeProgress{
      2, std::chrono::milliseconds(250), {"", "evaluation"}, true, true, true, {worker}};
  StillWorker silent{LocalRank{7}, 4243, std::chrono::seconds(40)};
  silent.waits_for = "read(/data/x)";
  heartbeat.progress->silent_workers = {silent, {LocalRank{8}, 4244, std::chrono::seconds(40)}};
  heartbeat.progress->silent_excused = true;
  heartbeat.progress->phases_passed = {"", "save"};
  heartbeat.progress->moves = ~std::uint64_t{0};
  heartbeat.progress->leaving_workers = {{LocalRank{9}, 4245, std::chrono::seconds(700)}};
  heartbeat.progress->excuse =
      HangExcuse{LocalRank{3}, 4242, "is held by gdb (pid 77)", std::chrono::seconds(600)};
  heartbeat.stuck = {8, {}};
  heartbeat.arrivals = StoreArrivals{61, {Rank{17}, Rank{(1 << 28) - 1}}};
  heartbeat.usage = NodeUsage{std::chrono::milliseconds(std::int64_t{1} << 62),
                              std::int64_t{1} << 50,
                              std::chrono::microseconds(750),
                              1 << 28,
                              std::vector<Rank>(NodeUsage::kMostNamed, Rank{(1 << 28) - 1}),
                              std::int64_t{1} << 62};
  heartbeat.can_stand_by = true;
  return heartbeat;
}

Heartbeat HeartbeatWithFailures() {
  Heartbeat heartbeat{-5, 17, FullStates()};
  heartbeat.failed_checkpoints = {kMaxCheckpointFailures, 0, std::string(512, 'x')};
  return heartbeat;
}

Stopped DrainedWithFailures() {
  Stopped drained{29501, 17, 0, FullStates()};
  drained.failed_checkpoints = {1, 120, ""};
  drained.stuck = FullStuck();
  return drained;
}

Stopped DrainedWithCalls() {
  Stopped drained{29501, 17};
  drained.states_incomplete = true;
  drained.calls = {{LocalRank{0}, 7, {"default", 9632, "all_reduce", 12'100'000, 2}},
                   {LocalRank{7}, 1, {"default", 9632, "broadcast", 0}}};
  return drained;
}

Finished FinishedWithFailures() {
  Finished finished{Outcome::kSucceeded, 0, "done", 0, {}, {}};
  finished.failed_checkpoints = {kMaxFailedCheckpoints, 120, "disk full", "n2"};
  finished.excluded = {"n3", "n7"};
  finished.job_is_over = true;
  return finished;
}

Join StaticJoin() {
  Join join = JoinOf("n1", 4, 8);
  join.job.master_addr = "n0";
  join.job.master_port = 29500;
  join.job.store = kAgentStore;
  join.node.requested_rank = NodeRank{3};
  return join;
}

// Encodes and decodes the message, as on the wire.
template <class Proto>
Proto ThroughBytes(const Proto& proto) {
  Proto parsed;
  EXPECT_TRUE(parsed.ParseFromString(proto.SerializeAsString()));
  return parsed;
}

class AgentRoundTripTest : public testing::TestWithParam<AgentMessage> {};

TEST_P(AgentRoundTripTest, ComesBackEqual) {
  const Header header{"job-1", 2, Generation{-1}, AgentId{0xFFFFFFFFFFFFFFFFu}};
  const absl::StatusOr<FromAgent> back = FromProto(ThroughBytes(ToProto(header, GetParam())));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->header, header);
  EXPECT_EQ(back->message, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Every, AgentRoundTripTest,
    testing::Values(
        JoinOf("n1", 4, 8), StaticJoin(), FullJoin(), Heartbeat{}, Heartbeat{-5, 17},
        Checkpointed{40}, CannotSave{}, Preempted{"n3 got SIGTERM"},
        StoreElsewhere{"localhost:29501"}, StandbysReady{},
        HeldStates{
            {{1, Generation{2}, 40, Tier::kDurable}, {0, Generation{-1}, 50, Tier::kDurable, true}},
            LookId{kLook},
            /*states_incomplete=*/true},
        CheckpointDamaged{7, "/c/step-7: too short"},
        RestartTimed{{Generation{-1}, 2, true, {{"stop", 5}, {"load data", 0}}}},
        Stopped{29501, 3, 1700000000123}, AssignmentAck{}, FullWorkerExited(), WorkerExited{},
        Stopped{29501, std::nullopt}, Stopped{29501, 17}, Stopped{29501, 17, 0, FullStates()},
        Stopped{29501, 17, 0, {}, {}, std::chrono::milliseconds(1500), true, LookId{kLook}},
        Heartbeat{-5, 17, FullStates()}, HeartbeatWithFailures(), HeartbeatWithProgress(),
        DrainedWithFailures(), DrainedWithCalls(), Leave{"SIGTERM", 143},
        StacksTaken{StackRequestId{kLook}, std::make_shared<EncodedStackTree>(),
                    std::make_shared<std::string>(PackTree(FullTree()))},
        StacksTaken{StackRequestId{1}, std::make_shared<EncodedStackTree>(),
                    std::make_shared<std::string>("no tree")},
        LogPiece{LogReadingId{1}, std::string("a\0\xFF\n", 4), false, ""},
        LogPiece{LogReadingId{kLook}, "", true, "there is no such file"}));

// A field that is only in JobSpec would be lost on the wire. One that is only in the protocol would
// have no bounds.
TEST(JobSpecProtoTest, HasTheFieldsThatAreDescribed) {
  const google::protobuf::Descriptor& proto = *v1::JobSpec::descriptor();
  int described = 0;
  ForEachField([&](auto, const JobSpecField& field) {
    EXPECT_NE(proto.FindFieldByName(field.wire), nullptr) << field.wire;
    ++described;
  });
  EXPECT_EQ(proto.field_count(), described);
}

void SetOther(bool* value, const JobSpecField&) { *value = !*value; }
void SetOther(int* value, const JobSpecField& field) { *value = static_cast<int>(field.min) + 1; }
void SetOther(Duration* value, const JobSpecField& field) {
  *value = std::chrono::milliseconds(field.max);
}
void SetOther(std::optional<Duration>* value, const JobSpecField& field) {
  SetOther(&value->emplace(), field);
}
void SetOther(std::vector<int>* value, const JobSpecField& field) {
  *value = {static_cast<int>(field.max)};
}
void SetOther(std::string* value, const JobSpecField&) { *value = "x"; }

TEST(JobSpecProtoTest, EveryFieldComesBack) {
  Join plain = JoinOf("n1", 1);
  plain.job.max_nodes = 3;
  ForEachField([&](auto member, const JobSpecField& field) {
    Join join = plain;
    SetOther(&(join.job.*member), field);
    EXPECT_NE(join, plain) << field.wire;
    const auto back = FromProto(ThroughBytes(ToProto(HeaderOf("job-1", 9), join)));
    ASSERT_TRUE(back.ok()) << field.wire << ": " << back.status();
    EXPECT_EQ(std::get<Join>(back->message), join) << field.wire;
  });
}

Assignment WithPlan(const RestorePlan& plan) {
  Assignment assignment;
  assignment.node_count = 1;
  assignment.world_size = 8;
  assignment.master_addr = "10.0.0.1";
  assignment.master_port = 29500;
  assignment.agent_store = true;
  assignment.restore = plan;
  return assignment;
}

class RendezvousRoundTripTest : public testing::TestWithParam<RendezvousMessage> {};

TEST_P(RendezvousRoundTripTest, ComesBackEqual) {
  Header header = HeaderOf("job-1", 9, 3);
  header.term = {0xFEDCBA9876543210u, UINT64_MAX};
  const absl::StatusOr<FromRendezvous> back = FromProto(ThroughBytes(ToProto(header, GetParam())));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->header, header);
  EXPECT_EQ(back->message, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Every, RendezvousRoundTripTest,
    testing::Values(Assignment{.node_rank = {1},
                               .node_count = 2,
                               .first_rank = {4},
                               .world_size = 8,
                               .master_addr = "10.0.0.1",
                               .master_port = 29500,
                               .restart_count = 1,
                               .max_restarts = 3,
                               .run_id = RunId{0xFEDCBA9876543210},
                               .secret = std::string(32, '\1'),
                               .role = {Rank{2}, 5}},
                    WithPlan(RestorePlan{FullStates()[0], Rank{7}, "n2"}), WithPlan(RestorePlan{}),
                    WithPlan(RestorePlan{FullStates()[0], Rank{7}, "n2",
                                         RestorePlan::Unseen{FullStates()[1], Rank{6}, "n3"}}),
                    Waiting{"for 1 node"}, Waiting{"the job runs", true}, HeartbeatAck{INT64_MIN},
                    Start{}, Save{}, Fenced{"not heard for 3 s"},
                    Finished{Outcome::kPreempted, 75, "stopped", 0, {}, {}}, Stop{"rank 3 died"},
                    Stop{"rank 3 died", LookId{kLook}}, LookAgain{LookId{kLook}},
                    LookAgain{LookId{kLook}, RunId{0xFEDCBA9876543210}},
                    Stop{"rank 3 hangs", {}, {LocalRank{1}, LocalRank{4095}}},
                    Finished{Outcome::kSucceeded, 0, "done", 0, {}, {}},
                    Finished{Outcome::kFailed,
                             139,
                             "rank 7: SIGSEGV",
                             3,
                             FullRootCause(),
                             {FullRootCause(), LostNode()}},
                    Finished{Outcome::kLeft, 143, "n1 left", 1, LostNode(), {}},
                    FinishedWithFailures(),
                    Finished{Outcome::kUnreachable, 69, "only 1 of 2 nodes", 0, {}, {}},
                    Finished{Outcome::kStateUnreadable, 66, "see the root cause", 0, {}, {}},
                    Refused{"--nnodes differs"}, Warning{"argument 2 of train.py"},
                    TakeStacks{StackRequestId{kLook}},
                    LogOrder{LogReadingId{1}, ReadLog{Generation{3},
                                                      LocalRank{4095},
                                                      LogStream::kStderr,
                                                      {0, 65536, std::chrono::seconds(90)},
                                                      true,
                                                      kMaxLogWindow}},
                    LogOrder{
                        LogReadingId{1},
                        ReadLog{Generation{0}, LocalRank{0}, LogStream::kStdout, {}, false, 1}},
                    LogOrder{LogReadingId{kLook}, MoreLog{kMaxLogWindow}},
                    LogOrder{LogReadingId{kLook}, EndLog{}},
                    HangReported{std::make_shared<HangStacks>(HangStacks{
                        {"rank 5 hangs", "  rank 5: Load"},
                        {"n2", "n3"},
                        std::make_shared<EncodedStackTree>(FullTree())})}));

// The tree of an agent arrives packed, and is equal once it is unpacked.
TEST(StackTreeProtoTest, OfAnAgentComesPacked) {
  const auto tree = std::make_shared<EncodedStackTree>(FullTree());
  const auto back = FromProto(
      ThroughBytes(ToProto(HeaderOf("job-1", 9, 3), StacksTaken{StackRequestId{1}, tree})));
  ASSERT_TRUE(back.ok()) << back.status();
  const auto& taken = std::get<StacksTaken>(back->message);
  ASSERT_NE(taken.packed, nullptr);
  const auto unpacked = UnpackTree(*taken.packed);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(*unpacked, *tree);
  EXPECT_EQ(UnpackTree("no tree").status(),
            absl::InvalidArgumentError("StacksTaken.tree is no StackTree"));
  EXPECT_EQ(*UnpackTree(""), EncodedStackTree());
}

TEST(ToProtoTest, WhateverAWorkerPrintedTheReportArrives) {
  WorkerExited exit = FullWorkerExited();
  exit.error_text = std::string(100000, '\xFF');
  exit.error_kind = std::string(1000, 'k');
  exit.stderr_tail.assign(5000, std::string(1000, '\xFE'));
  exit.stderr_tail.push_back("the last line");
  const absl::StatusOr<FromAgent> back =
      FromProto(ThroughBytes(ToProto(HeaderOf("job-1", 9), exit)));
  ASSERT_TRUE(back.ok()) << back.status();
  const auto& received = std::get<WorkerExited>(back->message);
  EXPECT_THAT(received.stderr_tail, SizeIs(17));
  EXPECT_EQ(received.stderr_tail.back(), "the last line");
  EXPECT_LE(received.error_text.size(), kMaxTextBytes);
}

TEST(ToProtoTest, ATimeoutIsNeverShortened) {
  Join join = JoinOf("n1", 1);
  join.job.last_call = std::chrono::microseconds(1);
  const v1::AgentMessage proto = ToProto(HeaderOf("job-1", 9), join);
  EXPECT_EQ(proto.join().job().last_call_ms(), 1);
}

}  // namespace translate_test
}  // namespace ddprun::wire
