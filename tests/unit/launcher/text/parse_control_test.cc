#include "launcher/text/parse_control.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace ddprun {
namespace parse_control_test {

template <typename T>
T ParseOne(const std::string& packet) {
  const auto messages = ParseControl(packet);
  EXPECT_TRUE(messages.ok()) << messages.status();
  if (!messages.ok() || messages->size() != 1 || !std::holds_alternative<T>(messages->front())) {
    ADD_FAILURE() << packet << " is not one message of the expected type";
    return T();
  }
  return std::get<T>(messages->front());
}

TEST(ParseControlTest, UnderstandsEveryMessage) {
  ParseOne<ReadyMsg>("READY=1");
  ParseOne<ByeMsg>("BYE=1\n");
  EXPECT_EQ(ParseOne<StoreElsewhereMsg>("STORE=localhost:29501").where, "localhost:29501");
  ParseOne<SecretMsg>("SECRET=1\n");
  ParseOne<ProgressMsg>("PROGRESS=1");
  EXPECT_EQ(ParseOne<StepMsg>("STEP=17").step, 17);
  EXPECT_EQ(ParseOne<StepMsg>("STEP=9223372036854775807").step, INT64_MAX);
  EXPECT_EQ(ParseOne<SnapshotMsg>("SNAPSHOT=90").step, 90);
  EXPECT_TRUE(ParseOne<SavedMsg>("SAVED=durable 1830000").durable);
  EXPECT_EQ(ParseOne<SavedMsg>("SAVED=durable 1830000").time, 1830000);
  EXPECT_FALSE(ParseOne<SavedMsg>("SAVED=memory 0").durable);
  EXPECT_EQ(ParseOne<PhaseMsg>("PHASE=init").name, "init");
  EXPECT_TRUE(ParseOne<TellsMsg>("TELLS=1").tells);
  EXPECT_FALSE(ParseOne<TellsMsg>("TELLS=0").tells);
  EXPECT_TRUE(ParseOne<SavesMsg>("SAVES=1").saves);
  EXPECT_FALSE(ParseOne<SavesMsg>("SAVES=0").saves);
  EXPECT_FALSE(ParseOne<StandbyMsg>("STANDBY=able").waiting);
  EXPECT_TRUE(ParseOne<StandbyMsg>("STANDBY=waiting").waiting);
  ParseOne<StaysMsg>("STAYS=1");
  EXPECT_EQ(ParseOne<ForkServerMsg>("FORKSERVER=ready").unfit, "");
  EXPECT_EQ(ParseOne<ForkServerMsg>("FORKSERVER=unfit two threads").unfit, "two threads");
  EXPECT_EQ(ParseOne<ForkedMsg>("FORKED=7").number, 7);
  const auto checkpoint = ParseOne<CheckpointMsg>("CHECKPOINT=200 /ck/a b=c.safetensors");
  EXPECT_EQ(checkpoint.step, 200);
  EXPECT_EQ(checkpoint.path, "/ck/a b=c.safetensors");
  const auto failed = ParseOne<CheckpointFailedMsg>("CHECKPOINT_FAILED=300 2 /ck: disk full");
  EXPECT_EQ(failed.step, 300);
  EXPECT_EQ(failed.failures, 2);
  EXPECT_EQ(failed.reason, "/ck: disk full");
  EXPECT_EQ(ParseOne<CheckpointFailedMsg>("CHECKPOINT_FAILED=300 2").reason, "");
  EXPECT_EQ(ParseOne<SnapshotFailedMsg>("SNAPSHOT_FAILED=no room\x1b").reason, "no room?");
  const auto damaged = ParseOne<CheckpointDamagedMsg>("CHECKPOINT_DAMAGED=400 /ck: short\x1b[31m");
  EXPECT_EQ(damaged.step, 400);
  EXPECT_EQ(damaged.text, "/ck: short?[31m");
  const auto error = ParseOne<ErrorMsg>("ERROR=collective peer closed: a=b");
  EXPECT_EQ(error.kind, "collective");
  EXPECT_EQ(error.text, "peer closed: a=b");
  const auto straggler = ParseOne<StragglerMsg>("STRAGGLER=3 15250 10100 n 2\x1b[31m");
  EXPECT_EQ(straggler.rank, 3);
  EXPECT_FALSE(straggler.ended);
  EXPECT_EQ(straggler.time, 15250);
  EXPECT_EQ(straggler.others, 10100);
  EXPECT_EQ(straggler.host, "n 2?[31m");
  EXPECT_EQ(ParseOne<StragglerMsg>("STRAGGLER=3 2 1 " + std::string(300, 'h')).host.size(), 255u);
  EXPECT_EQ(ParseOne<StragglerMsg>("STRAGGLER=4").rank, 4);
  EXPECT_TRUE(ParseOne<StragglerMsg>("STRAGGLER=4").ended);
  ParseOne<ComparesMsg>("COMPARES=1");
  for (const char* kind : {"user", "bind", "checkpoint", "state"}) {
    EXPECT_EQ(ParseOne<ErrorMsg>(std::string("ERROR=") + kind).kind, kind);
  }
}

TEST(ParseControlTest, KeepsTheOrderOfAPacketsLinesAndSkipsKeysFromTheFuture) {
  const auto messages = ParseControl("STEP=1\nHOLOGRAM=1\nSTEP=2\nPHASE=eval\n");
  ASSERT_TRUE(messages.ok()) << messages.status();
  ASSERT_EQ(messages->size(), 3u);
  EXPECT_EQ(std::get<StepMsg>((*messages)[0]).step, 1);
  EXPECT_EQ(std::get<StepMsg>((*messages)[1]).step, 2);
  EXPECT_EQ(std::get<PhaseMsg>((*messages)[2]).name, "eval");
}

TEST(ParseControlTest, RefusesWhatIsMalformedAndQuotesIt) {
  for (const std::string& packet : {std::string("hello"),
                                    std::string("=1"),
                                    std::string("\n"),
                                    std::string("STEP=1\n\n"),
                                    std::string("STEP="),
                                    std::string("STEP=-1"),
                                    std::string("STEP=1x"),
                                    std::string("STEP= 1"),
                                    std::string("STEP=9223372036854775808"),
                                    std::string("READY=0"),
                                    std::string("TELLS=2"),
                                    std::string("SAVES="),
                                    std::string("SNAPSHOT_FAILED="),
                                    std::string("STANDBY=1"),
                                    std::string("FORKSERVER=1"),
                                    std::string("FORKSERVER=unfit"),
                                    std::string("FORKED=x"),
                                    std::string("READY="),
                                    std::string("BYE=yes"),
                                    std::string("PHASE="),
                                    "PHASE=" + std::string(65, 'x'),
                                    std::string("CHECKPOINT=5"),
                                    std::string("CHECKPOINT=5 "),
                                    std::string("CHECKPOINT= /x"),
                                    std::string("CHECKPOINT=x /x"),
                                    std::string("SAVED="),
                                    std::string("SAVED=durable"),
                                    std::string("SAVED=disk 7"),
                                    std::string("SAVED=memory -7"),
                                    std::string("SAVED=memory 31536000000001"),
                                    std::string("COMPARES=0"),
                                    std::string("STRAGGLER="),
                                    std::string("STRAGGLER=-1"),
                                    std::string("STRAGGLER=x"),
                                    std::string("STRAGGLER=3 "),
                                    std::string("STRAGGLER=3 15250"),
                                    std::string("STRAGGLER=3 15250 10100"),
                                    std::string("STRAGGLER=3 15250 10100 "),
                                    std::string("STRAGGLER=3 15250 0 n2"),
                                    std::string("STRAGGLER=3 x 10100 n2"),
                                    std::string("STRAGGLER=3 15250 x n2"),
                                    std::string("CHECKPOINT_FAILED=5"),
                                    std::string("CHECKPOINT_FAILED=5 disk full"),
                                    std::string("CHECKPOINT_FAILED=5 0 disk full"),
                                    std::string("CHECKPOINT_FAILED=5 1000000001 disk full"),
                                    std::string("CHECKPOINT_FAILED= 1 disk full"),
                                    std::string("ERROR="),
                                    std::string("ERROR=cuda out of memory"),
                                    std::string("STEP=1\0", 7),
                                    std::string("\xff\xfe\0", 3)}) {
    EXPECT_EQ(ParseControl(packet).status().code(), absl::StatusCode::kInvalidArgument) << packet;
  }
  EXPECT_EQ(ParseControl("STEP=1\x01").status().message(),
            "malformed control message \"STEP=1\\001\": expected STEP=<number>, 0 or more");
  EXPECT_EQ(ParseControl("ERROR=cuda oom").status().message(),
            "malformed control message \"ERROR=cuda oom\": expected "
            "ERROR=<user|collective|bind|checkpoint|folder|state> <text>");
}

// The reason is shown on terminals, and sent to other machines.
TEST(ParseControlTest, TheReasonOfAFailedCheckpointIsShortAndPrintable) {
  const auto reason = [](const std::string& text) {
    return ParseOne<CheckpointFailedMsg>("CHECKPOINT_FAILED=5 1 " + text).reason;
  };
  EXPECT_EQ(reason("disk\t\x1b[2Jfull\x7f \xc3\xa9"), "disk??[2Jfull? \xc3\xa9");
  EXPECT_EQ(reason(std::string(600, 'x')), std::string(512, 'x'));
  EXPECT_EQ(reason(std::string(511, 'x') + "\xc3\xa9"), std::string(511, 'x'))
      << "cut between two characters";
}

TEST(ParseControlTest, NoneOfAMalformedPacketIsUsed) {
  EXPECT_FALSE(ParseControl("STEP=1\nSTEP=x").ok());
}

TEST(ParseControlTest, AnEmptyPacketHasNoMessages) {
  ASSERT_TRUE(ParseControl("").ok());
  EXPECT_TRUE(ParseControl("")->empty());
}

}  // namespace parse_control_test
}  // namespace ddprun
