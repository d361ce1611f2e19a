// Tests collective calls that have the same sequence number and do not match, and the death of a
// worker because of such a mismatch.
#include "rendezvous/hangs/collective_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace collective_calls_test {

using testing::HasSubstr;
using testing::Not;

CollectiveCall Call(std::int64_t sequence, std::int64_t bytes,
                    const std::string& operation = "all_reduce") {
  return {"group 0", sequence, operation, bytes};
}

TEST(CollectiveCallTest, IsDescribedWithSizeAndBucket) {
  CollectiveCall call = Call(9632, 12'100'004);
  EXPECT_EQ(Describe(call), "all_reduce 9632 (12.1 MB)");
  call.bucket = 2;
  EXPECT_EQ(Describe(call), "all_reduce 9632 (12.1 MB, bucket 2)");
  EXPECT_EQ(DescribeExactly(call), "all_reduce 9632 (12100004 bytes, bucket 2)");
}

TEST(CollectiveCallTest, OnlyTheSameNumberOfTheSameGroupCanFailToMatch) {
  EXPECT_TRUE(Match(Call(5, 8), Call(5, 8)));
  EXPECT_FALSE(Match(Call(5, 8), Call(5, 12)));
  EXPECT_FALSE(Match(Call(5, 8), Call(5, 8, "broadcast")));
  EXPECT_TRUE(Match(Call(5, 8), Call(6, 12))) << "one rank is a call behind";
  CollectiveCall of_another_group = Call(5, 12);
  of_another_group.group = "group 1";
  EXPECT_TRUE(Match(Call(5, 8), of_another_group));
}

// Only the root of a scatter contributes bytes. Seen red when the sizes of every operation were
// compared.
TEST(CollectiveCallTest, SomeOperationsTakeAnotherSizeOnEachRank) {
  EXPECT_TRUE(Match(Call(5, 8, "scatter"), Call(5, 0, "scatter")));
  EXPECT_TRUE(Match(Call(5, 8, "all_to_all"), Call(5, 16, "all_to_all")));
}

TEST(EnteredCallsTest, TheRanksOfBothCallsAreNamed) {
  EnteredCalls calls;
  calls.Add(Call(33, 8000), Rank{2}, "n2", 1);
  calls.Add(Call(33, 12000), Rank{3}, "n2", 1);
  EXPECT_EQ(calls.Mismatch(),
            "rank 3 on n2 entered all_reduce 33 (12000 bytes); rank 2 on n2 entered all_reduce 33 "
            "(8000 bytes): their calls do not match");
  calls.Add(Call(33, 8000), Rank{0}, "n1", 2);
  EXPECT_EQ(calls.Mismatch(),
            "rank 3 on n2 entered all_reduce 33 (12000 bytes); rank 0 on n1 and 2 other ranks "
            "entered all_reduce 33 (8000 bytes): their calls do not match");
}

TEST(EnteredCallsTest, RanksThatAreOnlyBehindMatch) {
  EnteredCalls calls;
  EXPECT_EQ(calls.Mismatch(), std::nullopt);
  calls.Add(Call(33, 8000), Rank{0}, "n1", 1);
  calls.Add(Call(34, 12000), Rank{1}, "n1", 1);
  EXPECT_EQ(calls.Mismatch(), std::nullopt);
}

TEST(EnteredCallsTest, TheNewestNumberDecides) {
  EnteredCalls calls;
  calls.Add(Call(5, 8), Rank{0}, "n1", 1);
  calls.Add(Call(5, 4), Rank{1}, "n1", 1);
  calls.Add(Call(7, 8), Rank{2}, "n1", 1);
  calls.Add(Call(7, 8, "barrier"), Rank{3}, "n1", 1);
  EXPECT_THAT(calls.Mismatch().value(), HasSubstr("barrier 7"));
}

TEST(EnteredCallsTest, IsBounded) {
  EnteredCalls calls;
  for (int i = 0; i < 1000; ++i) calls.Add(Call(i, 8), Rank{i}, "n1", 1);
  calls.Add(Call(999, 4), Rank{2000}, "n1", 1);
  EXPECT_EQ(calls.Mismatch(), std::nullopt) << "there was no room left for them";
}

// Nodes a and b with two ranks each. A collective ends rank 2; then all ranks report their last
// calls.
class MismatchTest : public testing::Test {
 protected:
  void Run(int nodes, int workers) {
    job_.emplace(JobMachineDriver::Spec(nodes, nodes, 3));
    job_->set_workers(workers);
    for (int i = 0; i < nodes; ++i) job_->Join(static_cast<char>('a' + i));
    for (int i = 0; i < nodes; ++i) job_->Prepare(static_cast<char>('a' + i));
  }
  void Die(char node, int rank, int local_rank, ExitStatus status,
           std::vector<std::string> last_words) {
    WorkerExited exit;
    exit.rank = Rank{rank};
    exit.local_rank = LocalRank{local_rank};
    exit.pid = 100 + rank;
    exit.status = status;
    exit.stderr_tail = std::move(last_words);
    job_->Receive(node, exit);
  }
  void Stop(char node, std::vector<EnteredCall> calls) {
    Stopped stopped{29600, 17};
    stopped.calls = std::move(calls);
    job_->Receive(node, stopped);
  }
  std::string Cause() { return Describe(*job_->machine().Status({}).last_cause); }

  const std::vector<std::string> kWordsOfGloo = {
      "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
      "  what():  [enforce fail at pair.cc:446] op.preamble.length <= op.nbytes. 12000 vs 8000"};
  const ExitStatus kAborted{0, SIGABRT};
  std::optional<JobMachineDriver> job_;
};

// Seen red when the cause was recorded at the worker's death, before the calls were known.
TEST_F(MismatchTest, TheCauseNamesBothRanksAndTheirCalls) {
  Run(2, 2);
  Die('b', 2, 0, kAborted, kWordsOfGloo);
  Stop('a', {{LocalRank{0}, 2, Call(33, 8000)}});
  Stop('b', {{LocalRank{0}, 1, Call(33, 8000)}, {LocalRank{1}, 1, Call(33, 12000)}});
  EXPECT_EQ(Cause(),
            "rank 2 (local rank 0, pid 102) on b: SIGABRT: rank 3 on b entered all_reduce 33 "
            "(12000 bytes); rank 0 on a and 2 other ranks entered all_reduce 33 (8000 bytes): "
            "their calls do not match");
}

TEST_F(MismatchTest, AnErrorOutOfACollectiveMayBeOne) {
  Run(2, 1);
  Die('b', 1, 0, ExitStatus{1, 0}, {"[gloo/transport/tcp/pair.cc] Connection closed by peer"});
  Die('a', 0, 0, ExitStatus{1, 0}, {"[gloo/transport/tcp/pair.cc] Connection closed by peer"});
  Stop('a', {{LocalRank{0}, 1, Call(3, 8)}});
  Stop('b', {{LocalRank{0}, 1, Call(3, 16, "broadcast")}});
  EXPECT_THAT(Cause(), HasSubstr("entered broadcast 3 (16 bytes)"));
  EXPECT_THAT(Cause(), HasSubstr("entered all_reduce 3 (8 bytes)"));
}

// A library reports a mismatch with many different errors. Seen red when only lost connections
// counted.
TEST_F(MismatchTest, SoMayAnyErrorOfTheProgram) {
  Run(2, 1);
  Die('b', 1, 0, ExitStatus{1, 0}, {"RuntimeError: invalid tensor size at index 0"});
  Stop('a', {{LocalRank{0}, 1, Call(3, 8)}});
  Stop('b', {{LocalRank{0}, 1, Call(3, 16)}});
  EXPECT_THAT(Cause(), HasSubstr("entered all_reduce 3 (16 bytes)"));
  EXPECT_THAT(Cause(), HasSubstr("entered all_reduce 3 (8 bytes)"));
}

TEST_F(MismatchTest, AWorkerThatIsKilledIsNoMismatch) {
  Run(2, 1);
  Die('b', 1, 0, ExitStatus{0, SIGKILL}, {});
  Stop('a', {{LocalRank{0}, 1, Call(3, 8)}});
  Stop('b', {{LocalRank{0}, 1, Call(3, 16)}});
  EXPECT_THAT(Cause(), Not(HasSubstr("do not match")));
}

// A Python program reports no collectives by default.
TEST_F(MismatchTest, OfTwoRanksBothAreKnown) {
  Run(1, 2);
  Die('a', 1, 1, kAborted, kWordsOfGloo);
  Stop('a', {});
  EXPECT_THAT(Cause(), HasSubstr("ranks 0 and 1 entered a collective with different sizes"));
}

TEST_F(MismatchTest, OfMoreRanksThePeerIsNotKnown) {
  Run(1, 3);
  Die('a', 1, 1, kAborted, kWordsOfGloo);
  Stop('a', {});
  EXPECT_THAT(Cause(), HasSubstr("it and a peer entered a collective with different sizes"));
}

// The calls of one generation do not count in the next one.
TEST_F(MismatchTest, ANewGenerationBeginsWithoutCalls) {
  Run(1, 3);
  Die('a', 1, 1, kAborted, kWordsOfGloo);
  Stop('a', {{LocalRank{0}, 2, Call(3, 8)}, {LocalRank{2}, 1, Call(3, 4)}});
  EXPECT_THAT(Cause(), HasSubstr("do not match"));
  job_->Prepare('a');
  Die('a', 1, 1, kAborted, kWordsOfGloo);
  Stop('a', {});
  EXPECT_THAT(Cause(), HasSubstr("it and a peer"));
}

}  // namespace collective_calls_test
}  // namespace ddprun
