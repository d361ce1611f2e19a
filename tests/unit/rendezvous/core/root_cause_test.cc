#include "rendezvous/core/root_cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <csignal>

#include "rendezvous/core/exit_codes.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace root_cause_test {

using Kind = RootCause::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

WorkerExited Exit(int rank, ExitStatus status, std::string kind = "",
                  std::vector<std::string> tail = {}) {
  WorkerExited exit;
  exit.rank = Rank{rank};
  exit.status = status;
  exit.error_kind = std::move(kind);
  exit.stderr_tail = std::move(tail);
  return exit;
}

constexpr ExitStatus kOk{};
constexpr ExitStatus kCode1{1, 0, false};
constexpr ExitStatus kKilled{0, SIGKILL, false};
constexpr ExitStatus kAborted{0, SIGABRT, false};
constexpr ExitStatus kCrashed{0, SIGSEGV, true};

std::size_t Allocated() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class RootCauseTest : public testing::Test {
 protected:
  void AddExit(int rank, ExitStatus status, std::string kind = "",
               std::vector<std::string> tail = {}) {
    incidents_.AddExit("n" + std::to_string(rank / 2), NodeRank{rank / 2},
                       Exit(rank, status, std::move(kind), std::move(tail)));
  }
  std::vector<int> Victims() {
    std::vector<int> ranks;
    const RootCause cause = *incidents_.FindRootCause();
    for (const WorkerFailure& victim : cause.victims) {
      ranks.push_back(victim.exit.rank.value);
    }
    return ranks;
  }
  int Rank() { return incidents_.FindRootCause()->failure.exit.rank.value; }
  Kind CauseKind() { return incidents_.FindRootCause()->kind; }

  Incidents incidents_{Generation{4}};
};

TEST_F(RootCauseTest, NothingFailedNothingIsToBlame) {
  AddExit(0, kOk);
  EXPECT_FALSE(incidents_.any());
  EXPECT_EQ(incidents_.FindRootCause(), std::nullopt);
}

TEST_F(RootCauseTest, TheFirstFailureThatIsNoVictimIsToBlame) {
  AddExit(0, kCode1, "collective");
  AddExit(3, kKilled);
  AddExit(1, kCode1, "collective");
  AddExit(2, kCrashed);
  EXPECT_EQ(Rank(), 3);
  EXPECT_THAT(Victims(), ElementsAre(0, 1, 2));
  EXPECT_EQ(incidents_.FindRootCause()->failure.generation, Generation{4});
}

TEST_F(RootCauseTest, OneThatLeftEarlyIsToBlameForItsPeersCollectives) {
  AddExit(1, kOk);
  AddExit(0, kCode1, "collective");
  EXPECT_EQ(CauseKind(), Kind::kWorkerLeftEarly);
  EXPECT_EQ(Rank(), 1);
  EXPECT_THAT(Victims(), ElementsAre(0));
  EXPECT_EQ(ExitCodeOf(*incidents_.FindRootCause()), 1) << "the job has failed all the same";
}

TEST_F(RootCauseTest, OneThatFinishedInOrderIsNotBlamedForAnothersFailure) {
  AddExit(1, kOk);
  AddExit(0, kCode1);
  EXPECT_EQ(CauseKind(), Kind::kWorkerFailed);
  EXPECT_EQ(Rank(), 0);
}

TEST_F(RootCauseTest, WithVictimsOnlyTheFirstIsToBlame) {
  AddExit(2, kCode1, "collective");
  AddExit(1, kCode1, "collective");
  EXPECT_EQ(Rank(), 2);
  EXPECT_THAT(Victims(), ElementsAre(1));
}

TEST_F(RootCauseTest, APythonWorkersLastWordsShowThatItIsAVictim) {
  AddExit(0, kCode1, "",
          {"Traceback (most recent call last):",
           "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer"});
  AddExit(1, kAborted, "", {"NCCL communicator was aborted on rank 1."});
  AddExit(2, kCode1);
  EXPECT_EQ(Rank(), 2);
}

TEST_F(RootCauseTest, AKilledWorkerIsNoVictimWhateverItPrinted) {
  AddExit(0, kKilled, "", {"Connection reset by peer (retrying)"});
  AddExit(1, kCode1, "collective");
  EXPECT_EQ(Rank(), 0);
}

// The messages of torch 1.13, of torch 2.x and of Python itself.
TEST(TakenPortTest, AnExceptionOfPythonsThatSaysSoCountsAsMuchAsErrorBind) {
  const std::string frame = "  File \"/train.py\", line 9, in <module>";
  const auto taken = [](std::vector<std::string> tail, ExitStatus status = kCode1) {
    return IsTakenPort(Exit(0, status, "", std::move(tail)));
  };
  EXPECT_TRUE(IsTakenPort(Exit(0, kCode1, "bind")));
  for (const char* const said :
       {"RuntimeError: The server socket has failed to listen on any local network address. The "
        "server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE",
        "OSError: [Errno 98] Address already in use"}) {
    EXPECT_TRUE(taken({"Traceback (most recent call last):", frame, "    main()", said})) << said;
    EXPECT_TRUE(taken({frame, "    main()", said, "", "the end"})) << "its beginning is cut off";
    EXPECT_TRUE(taken({frame, "    main()", said, "",
                       "During handling of the above exception, another exception occurred:", "",
                       "Traceback (most recent call last):", frame, "ValueError: x"}));
    EXPECT_FALSE(taken({said, "Traceback (most recent call last):", frame, "ValueError: x"}))
        << "it is not what ended the worker";
    EXPECT_FALSE(taken({frame, said}, kAborted));
    EXPECT_FALSE(IsTakenPort(Exit(0, kCode1, "user", {frame, said}))) << "it says what it was";
  }
  WorkerExited recorded = Exit(0, kCode1);
  EXPECT_FALSE(IsTakenPort(recorded));
  recorded.error_text = "RuntimeError: ... (errno: 98 - Address already in use).";
  EXPECT_TRUE(IsTakenPort(recorded)) << "the error file of @record";
}

TEST(TakenPortTest, AnExceptionOfCppThatNobodyCatchesCountsToo) {
  const std::vector<std::string> said = {
      "terminate called after throwing an instance of 'std::system_error'",
      "  what():  The server socket has failed to listen on any local network address. The server "
      "socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."};
  EXPECT_TRUE(IsTakenPort(Exit(0, kAborted, "", said)));
  EXPECT_FALSE(IsTakenPort(Exit(0, kCrashed, "", said))) << "it went on, and crashed";
}

WorkerExited Started(WorkerExited exit) {
  exit.pid = 100;
  return exit;
}

std::string WhyNotTheAgents(WorkerExited exit, int master_port = 29500) {
  RootCause cause;
  cause.failure.host = "n1";
  cause.failure.exit = std::move(exit);
  return WhyNoAgentStore(cause, master_port);
}

TEST(WhyNoAgentStoreTest, AProgramThatListensOnMasterPortNeedsTheWorkersStore) {
  const WorkerExited exit = Exit(0, kCode1, "bind");
  EXPECT_THAT(WhyNotTheAgents(Started(exit)), HasSubstr("rank 0 on n1 found a port taken"));
  EXPECT_EQ(WhyNotTheAgents(exit), "") << "its agent could not listen, and started nothing";
  EXPECT_EQ(WhyNotTheAgents(Started(Exit(0, kCode1))), "");
}

// Seen red when every taken port was a reason.
TEST(WhyNoAgentStoreTest, AnotherPortThatIsTakenIsNoReason) {
  const std::string frame = "  File \"train.py\", line 3, in <module>";
  for (const std::string said :
       {"RuntimeError: The server socket has failed to listen on any local network address. The "
        "server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE"}) {
    const WorkerExited exit = Started(Exit(0, kCode1, "", {frame, said}));
    EXPECT_THAT(WhyNotTheAgents(exit), HasSubstr("found a port taken")) << said;
    EXPECT_EQ(WhyNotTheAgents(exit, 2950), "") << said;
    WorkerExited recorded = Started(Exit(0, kCode1));
    recorded.error_text = said;
    EXPECT_THAT(WhyNotTheAgents(recorded), HasSubstr("found a port taken")) << said;
    EXPECT_EQ(WhyNotTheAgents(recorded, 2950), "") << said;
  }
  const std::string no_port = "OSError: [Errno 98] Address already in use";
  EXPECT_THAT(WhyNotTheAgents(Started(Exit(0, kCode1, "", {frame, no_port}))),
              HasSubstr("found a port taken"));
}

TEST(WhyNoAgentStoreTest, SoDoesOneThatWaitsForAStoreElsewhere) {
  const std::vector<std::string> said = {
      "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while "
      "trying to connect to (n1, 29501)."};
  const WorkerExited exit = Started(Exit(1, kCode1, "", said));
  EXPECT_THAT(WhyNotTheAgents(exit), HasSubstr("at port 29501, not at MASTER_PORT"));
  EXPECT_EQ(WhyNotTheAgents(exit, 29501), "") << "the agent's store did not answer";
  EXPECT_EQ(WhyNotTheAgents(Started(Exit(1, kCode1, "", {"timed out (n1, 29501)"}))), "");
}

TEST_F(RootCauseTest, ALostNodeCountsFromTheMomentItsConnectionBroke) {
  incidents_.AddSuspicion(AgentId{9}, "n1", NodeRank{1});
  EXPECT_FALSE(incidents_.any()) << "it may come back";
  AddExit(0, kCode1);
  incidents_.AddNode(AgentId{9}, Kind::kNodeLost, "n1", NodeRank{1}, "its agent was killed");
  EXPECT_EQ(CauseKind(), Kind::kNodeLost);
  EXPECT_EQ(incidents_.FindRootCause()->failure.host, "n1");
  EXPECT_EQ(Describe(*incidents_.FindRootCause()), "n1 was lost: its agent was killed");
}

TEST_F(RootCauseTest, ANodeThatIsOnlySuspectedIsNotBlamed) {
  incidents_.AddSuspicion(AgentId{9}, "n1", NodeRank{1});
  AddExit(0, kCode1);
  EXPECT_EQ(CauseKind(), Kind::kWorkerFailed);
}

TEST_F(RootCauseTest, AFailureBeforeANodeWasLostIsToBlame) {
  AddExit(0, kCrashed);
  incidents_.AddNode(AgentId{9}, Kind::kNodeLost, "n1", NodeRank{1}, "gone");
  EXPECT_EQ(Rank(), 0);
}

TEST_F(RootCauseTest, TheListOfVictimsIsBoundedAndLeavesOutTheirLastWords) {
  AddExit(0, kKilled);
  for (int rank = 1; rank < 1000; ++rank) AddExit(rank, kCode1, "collective", {"long text"});
  const auto victims = incidents_.FindRootCause()->victims;
  EXPECT_EQ(victims.size(), 64u);
  EXPECT_THAT(victims[0].exit.stderr_tail, testing::IsEmpty());
}

TEST_F(RootCauseTest, ConnectionsThatBreakForMonthsTakeNoMemory) {
  incidents_.AddSuspicion(AgentId{7}, "n7", NodeRank{7});
  const std::size_t before = Allocated();
  for (int i = 0; i < 100000; ++i) {
    for (const std::uint64_t node : {1, 2, 3}) {
      incidents_.AddSuspicion(AgentId{node}, "n" + std::to_string(node), NodeRank{1});
      if (i > 0 || node != 2) incidents_.ClearSuspicion(AgentId{node});
    }
  }
  EXPECT_LT(Allocated() - before, 1U << 20);
  EXPECT_FALSE(incidents_.any());
  incidents_.AddNode(AgentId{3}, Kind::kNodeLost, "n3", NodeRank{3}, "later");
  incidents_.AddNode(AgentId{7}, Kind::kNodeLost, "n7", NodeRank{7}, "the first suspect");
  EXPECT_EQ(incidents_.FindRootCause()->failure.host, "n7");
}

TEST_F(RootCauseTest, LastWordsAreKeptOfWhoMayBeToBlameAndOfNobodyElse) {
  const std::vector<std::string> words(64, std::string(250, 'x'));  // 16 kB
  incidents_.AddSuspicion(AgentId{1}, "n1", NodeRank{1});
  AddExit(0, kCode1, "collective", words);
  const std::size_t before = Allocated();
  for (int rank = 1; rank < 4000; ++rank) AddExit(rank, kCode1, "collective", words);
  incidents_.ClearSuspicion(AgentId{1});
  EXPECT_EQ(incidents_.FindRootCause()->failure.exit.stderr_tail, words) << "the first victim";
  AddExit(4000, kCode1, "", {"this one"});
  for (int rank = 4001; rank < 8000; ++rank) AddExit(rank, kCode1, "", words);
  EXPECT_LT(Allocated() - before, 32U << 20) << "of 128 MB that were said";
  EXPECT_EQ(Rank(), 4000);
  EXPECT_THAT(incidents_.FindRootCause()->failure.exit.stderr_tail, ElementsAre("this one"));
}

TEST(DescribeTest, SaysWhoWhereAndHow) {
  WorkerFailure failure{"n2", NodeRank{1}, Generation{0}, Exit(3, kCrashed)};
  failure.exit.local_rank = LocalRank{1};
  failure.exit.pid = 4242;
  failure.exit.step = 120;
  EXPECT_EQ(Describe(failure),
            "rank 3 (local rank 1, pid 4242) on n2: SIGSEGV (core dumped) after step 120");
  failure.exit.status = kKilled;
  failure.exit.oom_killed = true;
  failure.exit.step.reset();
  EXPECT_EQ(Describe(failure),
            "rank 3 (local rank 1, pid 4242) on n2: SIGKILL by the kernel: out of memory");
  failure.exit.error_kind = kErrorExec;
  failure.exit.error_text = "./trian: no such file";
  EXPECT_EQ(Describe(failure), "cannot start rank 3 on n2: ./trian: no such file");
}

TEST(DescribeTest, SaysThatTheSizesOfACollectiveDoNotMatch) {
  const std::vector<std::string> words = {
      "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
      "  what():  [enforce fail at pair.cc:446] op.preamble.length <= op.nbytes. 12000 vs 8000"};
  WorkerFailure failure{"n2", NodeRank{1}, Generation{0}, Exit(3, kAborted, "", words)};
  EXPECT_FALSE(IsVictim(failure.exit)) << "no peer has died";
  EXPECT_EQ(Describe(failure),
            "rank 3 (local rank 0, pid 0) on n2: SIGABRT: it and a peer entered a collective with "
            "different sizes");
}

TEST(FolderOfAnotherTrainingTest, EndsTheJobWith77AlsoIfAPythonWorkerEndsWith1) {
  RootCause cause;
  cause.failure.exit.status = ExitStatus{1, 0, false};
  cause.failure.exit.error_kind = control::kErrorFolder;
  EXPECT_TRUE(IsPermanent(cause));
  EXPECT_EQ(ExitCodeOf(cause), 77);
  cause.failure.exit.status = ExitStatus{0, SIGKILL, true};
  EXPECT_EQ(ExitCodeOf(cause), 137) << "it went on after the error";
}

TEST(UnreadableStateTest, EndsTheJobWithItsOwnCode) {
  RootCause cause;
  cause.failure.exit.status = ExitStatus{1, 0, false};
  EXPECT_EQ(ExitCodeOf(cause), 1);
  cause.failure.exit.error_kind = control::kErrorState;
  EXPECT_TRUE(IsUnreadableState(cause));
  EXPECT_TRUE(IsPermanent(cause));
  EXPECT_EQ(ExitCodeOf(cause), kExitStateUnreadable);
  EXPECT_EQ(kExitStateUnreadable, 66) << "EX_NOINPUT";
}

TEST(NewestLinesTest, DropsTheOldestFirst) {
  const std::vector<std::string> lines = {"one", "two", "three"};
  EXPECT_THAT(NewestLines(lines, 64, 100), ElementsAre("one", "two", "three"));
  EXPECT_THAT(NewestLines(lines, 2, 100), ElementsAre("two", "three"));
  EXPECT_THAT(NewestLines(lines, 64, 8), ElementsAre("two", "three"));
  EXPECT_THAT(NewestLines({}, 64, 8), ElementsAre());
}

TEST(NewestLinesTest, KeepsTheEndOfALineThatIsTooLongAlone) {
  EXPECT_THAT(NewestLines({"old", "0123456789"}, 64, 4), ElementsAre("6789"));
}

}  // namespace root_cause_test
}  // namespace ddprun
