#include "rendezvous/wire/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/exit_status.h"
#include "rendezvous/stacks/stack_tree.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/record.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun::wire {
namespace translate_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;

WorkerExited FullWorkerExited() {
  return {.rank = {7},
          .local_rank = {3},
          .pid = 4242,
          .status = {.code = 0, .signal = 11, .core_dumped = true},
          .step = 120,
          .error_kind = "collective",
          .error_text = "connection reset by n2",
          .stderr_tail = {"first", "", "not UTF-8: \xFF\xFE"},
          .ended_at_ms = 1'700'000'000'123,
          .oom_killed = true};
}

RootCause FullRootCause() {
  RootCause cause;
  cause.kind = RootCause::Kind::kWorkerLeftEarly;
  cause.failure = {"n2", {1}, {3}, FullWorkerExited()};
  cause.victims = {{"n1", {0}, {3}, FullWorkerExited()}, {"n3", {2}, {3}, WorkerExited{}}};
  cause.frames = {{"read", "", 0, "libc.so.6"}, {"Load\xFF", "data.cc", 88, "trainer"}};
  cause.phase = "evaluation";
  cause.still = std::chrono::milliseconds(41'800);
  return cause;
}

RootCause LostNode() {
  RootCause cause;
  cause.kind = RootCause::Kind::kNodeLost;
  cause.failure.host = "n4";
  cause.reason = "nothing heard for 3 s";
  return cause;
}

std::vector<SavedState> FullStates() {
  return {{1, Generation{4}, 1200, Tier::kMemory}, {0, Generation{-1}, 0, Tier::kDurable}};
}

EncodedStackTree FullTree() {
  StackTree tree;
  tree.Add(0, ThreadKind::kMain, {{"main", "main.cc", 7, "trainer"}, {"Load\xFF", "", 0, "x"}});
  tree.Add(5, ThreadKind::kMain, {{"main", "main.cc", 7, "trainer"}});
  tree.Add(5, ThreadKind::kOther, {{"run", "", 0, "libtorch.so"}});
  tree.Add(RankNote{5, RankTrouble::kStopped, "stopped by a signal"});
  tree.Add(RankNote{6, RankTrouble::kGone, "it has ended"});
  EncodedStackTree encoded = tree.Encode();
  encoded.left_out = 3;
  return encoded;
}

constexpr std::uint64_t kLook = 0xFEDCBA9876543211;

StuckProcesses FullStuck() {
  return {7,
          {{Rank{0}, 4242, ProcessState::kDiskWait, "write(/data/log)", std::chrono::seconds(12)},
           {std::nullopt, 4243, ProcessState::kTraced, "", std::chrono::milliseconds(2)}}};
}

Join FullJoin() {
  Join join = JoinOf("n1", 4, 8);
  join.job.restart_window = std::chrono::hours(1);
  join.job.heartbeat = std::chrono::milliseconds(200);
  join.job.lease = std::chrono::seconds(7);
  join.job.save_timeout = std::chrono::minutes(5);
  join.workers_running = true;
  join.job.never_restart_on = {3, 42};
  join.job.max_membership_changes = 5;
  join.job.quarantine = 3;
  join.job.quarantine_window = std::chrono::minutes(90);
  join.job.start_anew = 1;
  join.job.hang_timeout = std::chrono::milliseconds(90'001);
  join.job.on_hang = JobSpec::kReportHang;
  join.job.hang_quarantine = 7;
  join.job.all_nodes = 70;
  join.states = FullStates();
  join.states_pending = true;
  join.failed_checkpoints = {3, 120, "disk full"};
  join.why_ineligible = "preflight: shm: 0 MiB are free in /dev/shm";
  join.program = {"worker", "train.py", {0, 1, 0xFFFFFFFF}};
  join.run_id = RunId{0xFEDCBA9876543210};
  join.can_look_again = true;
  join.look = LookId{kLook};
  join.stuck = FullStuck();
  return join;
}

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
  heartbeat.stuck = {8, {}};
  heartbeat.arrivals = StoreArrivals{61, {Rank{17}, Rank{(1 << 28) - 1}}};
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

// Through the bytes, as on the wire.
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
        StoreElsewhere{"localhost:29501"},
        HeldStates{{{1, Generation{2}, 40, Tier::kDurable}}, LookId{kLook}},
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
                    std::make_shared<std::string>("no tree")}));

// A field of one that the other does not know would be lost, or its bounds be missing.
TEST(JobSpecProtoTest, HasTheFieldsThatAreDescribed) {
  const google::protobuf::Descriptor& proto = *v1::JobSpec::descriptor();
  int described = 0;
  ForEachField([&](auto, const JobSpecField& field) {
    EXPECT_NE(proto.FindFieldByName(field.wire), nullptr) << field.wire;
    ++described;
  });
  EXPECT_EQ(proto.field_count(), described);
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
  const Header header = HeaderOf("job-1", 9, 3);
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
                    Waiting{"for 1 node"}, HeartbeatAck{INT64_MIN}, Start{}, Save{},
                    Fenced{"not heard for 3 s"},
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
                    HangReported{std::make_shared<HangStacks>(HangStacks{
                        {"rank 5 hangs", "  rank 5: Load"},
                        {"n2", "n3"},
                        std::make_shared<EncodedStackTree>(FullTree())})}));

// ---- stacks ----

// What an agent has taken comes packed, and equal once it is unpacked.
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

// As it would come from an agent whose tree was spoiled on its way.
absl::Status ReadSpoiled(const std::function<void(v1::StackTree&)>& spoil) {
  v1::StackTree proto = ToProto(FullTree());
  spoil(proto);
  return UnpackTree(proto.SerializeAsString()).status();
}

TEST(StackTreeProtoTest, EverySizeIsBounded) {
  const auto refused = [](const char* why) { return absl::InvalidArgumentError(why); };
  EXPECT_EQ(ReadSpoiled([](v1::StackTree& tree) { tree.set_names(0, std::string(513, 'n')); }),
            refused("StackTree.names has 513 bytes, expected at most 512"));
  EXPECT_EQ(ReadSpoiled([](v1::StackTree& tree) {
              for (int i = 0; i < 4096; ++i) tree.add_notes();
            }),
            refused("StackTree.notes: number is 4098, expected 0 to 4096"));
  EXPECT_EQ(ReadSpoiled([](v1::StackTree& tree) { tree.mutable_nodes(0)->add_ranks(9); }),
            refused("StackTree.Node.ranks has a range without its end"));
  EXPECT_EQ(ReadSpoiled([](v1::StackTree& tree) {
              tree.mutable_nodes(0)->add_ranks(9);
              tree.mutable_nodes(0)->add_ranks(1 << 28);
            }),
            refused("StackTree.Node.ranks is 268435456, expected 9 to 268435455"));
  EXPECT_EQ(ReadSpoiled([](v1::StackTree& tree) { tree.mutable_notes(0)->set_trouble(8); }),
            refused("StackTree.Note.trouble is 8, expected 0 to 7"));
  EXPECT_EQ(ReadSpoiled([](v1::StackTree& tree) {
              tree.mutable_notes(0)->set_text(std::string(513, 't'));
            }),
            refused("StackTree.Note.text has 513 bytes, expected at most 512"));
}

TEST(StackTreeProtoTest, TheLargestThatIsSentFitsIntoAMessage) {
  StackTree tree;
  for (std::uint32_t i = 0; i < 40'000; ++i) {
    const std::string name = absl::StrCat(i);
    tree.Add(200'000'000 + 2 * i, ThreadKind::kMain,
             {{"f" + name, "file" + name, 3'000'000 + i, "image" + name}, {"g", "g.cc", i, "g"}});
  }
  const EncodedStackTree encoded = tree.Encode(kMaxSentStackTreeBytes);
  EXPECT_GT(encoded.left_out, 0u) << "too small for this test";
  const v1::AgentMessage proto =
      ToProto(HeaderOf("job-1", 9, 3),
              StacksTaken{StackRequestId{kLook}, std::make_shared<EncodedStackTree>(encoded)});
  EXPECT_LE(proto.ByteSizeLong(), static_cast<std::size_t>(kMaxMessageBytes));
}

// A Join, spoiled, and what is said about it.
struct BadJoin {
  std::function<void(v1::AgentMessage&)> spoil;
  const char* expected;
};

class BadJoinTest : public testing::TestWithParam<BadJoin> {};

TEST_P(BadJoinTest, IsRefusedWithTheNameOfTheField) {
  v1::AgentMessage proto = ToProto(HeaderOf("job-1", 9), JoinOf("n1", 2));
  ASSERT_TRUE(FromProto(proto).ok());
  GetParam().spoil(proto);
  const absl::StatusOr<FromAgent> result = FromProto(proto);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(result.status().message()), GetParam().expected);
}

using Message = v1::AgentMessage;
INSTANTIATE_TEST_SUITE_P(
    Every, BadJoinTest,
    testing::Values(
        BadJoin{[](Message& m) { m.clear_header(); }, "Header.job is empty"},
        BadJoin{[](Message& m) { m.mutable_header()->set_job(std::string(257, 'j')); },
                "Header.job has 257 bytes, expected at most 256"},
        BadJoin{[](Message& m) { m.mutable_header()->set_job("a\nb"); },
                "Header.job contains a control character"},
        BadJoin{[](Message& m) { m.mutable_header()->set_generation(-2); },
                "Header.generation is -2, expected -1 to 1000000000"},
        BadJoin{[](Message& m) { m.mutable_header()->set_incarnation(0); },
                "Header.incarnation is 0, expected a random number"},
        BadJoin{[](Message& m) { m.clear_join(); },
                "AgentMessage.body is not set, or is one that this version does not know"},
        BadJoin{[](Message& m) { m.mutable_join()->clear_job(); },
                "JobSpec.min_nodes is 0, expected 1 to 65536"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_job()->set_max_nodes(1); },
                "JobSpec.max_nodes is 1, expected 2 to 65536"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_job()->set_max_nodes(65537); },
                "JobSpec.max_nodes is 65537, expected 2 to 65536"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_job()->set_max_restarts(1000001); },
                "JobSpec.max_restarts is 1000001, expected 0 to 1000000"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_job()->set_join_timeout_ms(-1); },
                "JobSpec.join_timeout_ms is -1, expected 0 to 31622400000"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_job()->set_last_call_ms(INT64_MAX); },
                "JobSpec.last_call_ms is 9223372036854775807, expected 0 to 31622400000"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_node()->clear_host(); },
                "NodeSpec.host is empty"},
        BadJoin{[](Message& m) {
                  m.mutable_join()->mutable_node()->set_address(std::string(256, 'a'));
                },
                "NodeSpec.address has 256 bytes, expected at most 255"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_node()->set_worker_count(0); },
                "NodeSpec.worker_count is 0, expected 1 to 4096"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_node()->set_worker_count(4097); },
                "NodeSpec.worker_count is 4097, expected 1 to 4096"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_node()->set_requested_rank(2); },
                "NodeSpec.requested_rank is 2, expected 0 to 1"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_job()->set_master_port(65536); },
                "JobSpec.master_port is 65536, expected 0 to 65535"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_job()->set_master_addr("a\nb"); },
                "JobSpec.master_addr contains a control character"},
        BadJoin{[](Message& m) { m.mutable_join()->add_states()->set_step(5); },
                "SavedState.tier is 0, expected one that this version knows"},
        BadJoin{[](Message& m) { m.mutable_join()->add_states()->set_step(-1); },
                "SavedState.step is -1, expected 0 or more"},
        BadJoin{[](Message& m) { m.mutable_join()->add_states()->set_generation(-2); },
                "SavedState.generation is -2, expected -1 to 1000000000"},
        BadJoin{[](Message& m) {
                  for (int i = 0; i < 9; ++i) m.mutable_join()->add_states();
                },
                "SavedState: number is 9, expected 0 to 8"},
        BadJoin{[](Message& m) { m.mutable_join()->mutable_failed_checkpoints()->set_count(0); },
                "FailedCheckpoints.count is 0, expected 1 to 1000000000"},
        BadJoin{[](Message& m) {
                  m.mutable_join()->mutable_failed_checkpoints()->set_count(1000000001);
                },
                "FailedCheckpoints.count is 1000000001, expected 1 to 1000000000"},
        BadJoin{[](Message& m) {
                  m.mutable_join()->mutable_failed_checkpoints()->set_count(1);
                  m.mutable_join()->mutable_failed_checkpoints()->set_last_step(-1);
                },
                "FailedCheckpoints.last_step is -1, expected 0 or more"},
        BadJoin{[](Message& m) {
                  m.mutable_join()->mutable_failed_checkpoints()->set_count(1);
                  m.mutable_join()->mutable_failed_checkpoints()->set_last_reason(
                      std::string(513, 'x'));
                },
                "FailedCheckpoints.last_reason has 513 bytes, expected at most 512"},
        BadJoin{[](Message& m) { m.mutable_join()->set_offered_port(65536); },
                "Join.offered_port is 65536, expected 1 to 65535"}));

std::string RefusalOf(const v1::AgentMessage& proto) {
  return std::string(FromProto(proto).status().message());
}

TEST(FromProtoTest, RefusesAReportThatIsOutOfBounds) {
  const auto spoiled = [](const std::function<void(v1::WorkerExited&)>& spoil) {
    v1::AgentMessage proto = ToProto(HeaderOf("job-1", 9), FullWorkerExited());
    spoil(*proto.mutable_worker_exited());
    return RefusalOf(proto);
  };
  EXPECT_THAT(spoiled([](v1::WorkerExited& w) { w.mutable_status()->set_code(3); }),
              HasSubstr("a code and a signal"));
  EXPECT_THAT(spoiled([](v1::WorkerExited& w) { w.mutable_status()->set_signal(65); }),
              HasSubstr("ExitStatus.signal is 65"));
  EXPECT_THAT(spoiled([](v1::WorkerExited& w) { w.set_rank(UINT32_MAX); }),
              HasSubstr("WorkerExited.rank"));
  EXPECT_THAT(spoiled([](v1::WorkerExited& w) { w.set_step(-1); }), HasSubstr("WorkerExited.step"));
  EXPECT_THAT(spoiled([](v1::WorkerExited& w) { w.set_error_text(std::string(4097, 'x')); }),
              HasSubstr("WorkerExited.error_text has 4097 bytes"));
  EXPECT_THAT(spoiled([](v1::WorkerExited& w) { w.add_stderr_tail(std::string(16385, 'x')); }),
              HasSubstr("stderr_tail: number of bytes"));
  EXPECT_THAT(spoiled([](v1::WorkerExited& w) {
                for (int i = 0; i < 65; ++i) w.add_stderr_tail("");
              }),
              HasSubstr("stderr_tail: number of lines is 68"));
}

TEST(FromProtoTest, RefusesAnAssignmentWhoseNumbersContradictEachOther) {
  Assignment assignment;
  assignment.node_count = 2;
  assignment.world_size = 8;
  assignment.master_addr = "n1";
  assignment.master_port = 29500;
  v1::RendezvousMessage proto = ToProto(HeaderOf("job-1", 9), assignment);
  ASSERT_TRUE(FromProto(proto).ok());
  proto.mutable_assignment()->set_node_rank(2);
  EXPECT_EQ(std::string(FromProto(proto).status().message()),
            "Assignment.node_rank is 2, expected 0 to 1");
  proto.mutable_assignment()->set_node_rank(1);
  proto.mutable_assignment()->set_first_rank(8);
  EXPECT_EQ(std::string(FromProto(proto).status().message()),
            "Assignment.first_rank is 8, expected 0 to 7");
  proto.mutable_assignment()->set_first_rank(0);
  proto.mutable_assignment()->mutable_role()->set_world_size(9);
  EXPECT_EQ(std::string(FromProto(proto).status().message()),
            "RolePlace.world_size is 9, expected 1 to 8");
  proto.mutable_assignment()->mutable_role()->set_world_size(4);
  proto.mutable_assignment()->mutable_role()->set_first_rank(4);
  EXPECT_EQ(std::string(FromProto(proto).status().message()),
            "RolePlace.first_rank is 4, expected 0 to 3");
  proto.mutable_assignment()->clear_role();
  proto.mutable_assignment()->mutable_restore()->set_source_rank(8);
  EXPECT_EQ(std::string(FromProto(proto).status().message()),
            "RestorePlan.source_rank is 8, expected 0 to 7");
}

TEST(FromProtoTest, RefusesAnOutcomeThatItDoesNotKnow) {
  v1::RendezvousMessage proto = ToProto(HeaderOf("job-1", 9), Finished{});
  proto.mutable_finished()->set_outcome(v1::OUTCOME_UNSPECIFIED);
  EXPECT_THAT(std::string(FromProto(proto).status().message()), HasSubstr("Finished.outcome is 0"));
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

JobRecord FullRecord() {
  JobRecord record;
  record.requeue_number = 3;
  record.spec = FullJoin().job;
  record.generation = Generation{7};
  record.master_addr = "10.0.0.1";
  record.master_port = 29501;
  record.members = {{AgentId{5}, {"n1", "10.0.0.1", 2}, 29501, NodeRank{0}, Rank{0}},
                    {AgentId{9}, {"n3", "10.0.0.3", 1}, 29502, NodeRank{2}, Rank{4}}};
  record.governor = {2,   {std::chrono::seconds(90), std::chrono::seconds(3)},
                     4,   1,
                     2,   0xABCDEF,
                     120, std::chrono::milliseconds(1500),
                     3,   {std::chrono::seconds(80)}};
  record.causes = {FullRootCause(), LostNode()};
  record.reports_checkpoints = true;
  record.checkpoint = 400;
  record.members[1].removed = true;
  record.members[1].role = RolePlace{Rank{4}, 5};
  record.plan = PlanRecord{true, false, "stopped by an operator", true, false};
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

// As a rendezvous wrote it before there were plans, or failed checkpoints were counted.
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

}  // namespace translate_test
}  // namespace ddprun::wire
