// Tests which messages the wire refuses, and how large sent messages may become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/stacks/stack_tree.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/translate.h"
#include "tests/unit/rendezvous/wire/full_messages.h"

namespace ddprun::wire {
namespace wire_bounds_test {

using ::testing::HasSubstr;

// A damaged Join, and the error for it.
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

// ---- stacks ----

// Reads a tree that was damaged on its way from the agent.
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

std::string WhyRefused(const v1::RendezvousMessage& message) {
  return std::string(FromProto(message).status().message());
}

TEST(LogBoundsTest, AnOrderOutOfBoundsIsRefusedWithTheNameOfTheField) {
  const Header header = HeaderOf("job-1", 9);
  const ReadLog read{Generation{3}, LocalRank{0}, LogStream::kStdout, {}, false, 1};
  v1::RendezvousMessage order = ToProto(header, LogOrder{LogReadingId{1}, read});
  ASSERT_TRUE(FromProto(order).ok());
  v1::ReadLog* const body = order.mutable_log_order()->mutable_read();
  body->set_window(65537);
  EXPECT_EQ(WhyRefused(order), "ReadLog.window is 65537, expected 1 to 65536");
  body->set_window(1);
  body->set_local_rank(4096);
  EXPECT_EQ(WhyRefused(order), "ReadLog.local_rank is 4096, expected 0 to 4095");
  body->set_local_rank(0);
  body->clear_stream();
  EXPECT_THAT(WhyRefused(order), HasSubstr("ReadLog.stream is not set"));
  body->set_stream(v1::LOG_STREAM_STDERR);
  body->set_lines(-1);
  EXPECT_EQ(WhyRefused(order), "ReadLog.lines is -1, expected 0 to 1000000000");
  order.mutable_log_order()->set_more(0);
  EXPECT_EQ(WhyRefused(order), "LogOrder.more is 0, expected 1 to 65536");
  order.mutable_log_order()->clear_what();
  EXPECT_THAT(WhyRefused(order), HasSubstr("LogOrder.what is not set"));
  order.mutable_log_order()->set_end(true);
  order.mutable_log_order()->clear_reading();
  EXPECT_EQ(WhyRefused(order), "LogOrder.reading is 0");
}

TEST(LogBoundsTest, APieceIsBounded) {
  const Header header = HeaderOf("job-1", 9);
  const auto why = [&](const LogPiece& piece) {
    return std::string(FromProto(ToProto(header, piece)).status().message());
  };
  EXPECT_EQ(why({LogReadingId{1}, std::string(kMaxLogPieceBytes, 'x')}), "");
  EXPECT_EQ(why({LogReadingId{1}, std::string(kMaxLogPieceBytes + 1, 'x')}),
            "LogPiece.text has 16385 bytes, expected at most 16384");
  EXPECT_EQ(why({LogReadingId{1}, "", true, std::string(5000, 'x')}), "") << "a note is cut";
}

}  // namespace wire_bounds_test
}  // namespace ddprun::wire
