// Tests who owns a job of JobLoop, how many jobs there may be, and when a name can be used again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/service/job/job_loop.h"
#include "tests/unit/rendezvous/service/job/job_loop_fixture.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace job_loop_jobs_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(JobLoopTest, AJobBelongsToWhoBeganIt) {
  const auto owner = Joined("job", 1, 2, "token:ann");
  const auto stranger = Joined("job", 2, 2, "token:bob");
  EXPECT_EQ(stranger->WaitForClose().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(stranger->refused_for(), "other_owner");
  EXPECT_THAT(stranger->sent(), IsEmpty());
  const auto nobody = Joined("job", 3, 2);
  EXPECT_EQ(nobody->WaitForClose().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(owner->sent(), IsEmpty()) << "they have not made the job complete";
  const auto friends = Joined("job", 4, 2, "token:ann");
  ASSERT_TRUE(owner->WaitFor<Assignment>());
  ASSERT_TRUE(friends->WaitFor<Assignment>());
  // Others may use another name.
  EXPECT_TRUE(Joined("bobs job", 2, 1, "token:bob")->WaitFor<Assignment>());
}

// Seen red with a secret that depends on name, requeue number and generation alone.
TEST_F(JobLoopTest, EachRunAndEachOwnerOfANameHasItsOwnSecret) {
  const auto new_rendezvous = [&] {
    JobLoopOptions options = Options({.leases = false});
    options.secret_key = "the same for several rendezvous";
    loop_ = std::make_unique<JobLoop>(std::move(options));
  };
  // The secret of generation 0. `run_id` 0: the rendezvous draws one.
  const auto secret_of = [&](const std::string& owner, std::uint64_t agent_id,
                             std::uint64_t run_id) {
    const auto agent = Open(owner);
    Join join = JoinOf("n1", 1);
    join.run_id = RunId{run_id};
    loop_->OnMessage(agent, HeaderOf("job", agent_id, -1), join);
    EXPECT_TRUE(agent->WaitFor<Assignment>());
    const std::string secret = std::get<Assignment>(agent->sent().back()).secret;
    loop_->OnMessage(agent, HeaderOf("job", agent_id, 0), Leave{"done", 1});
    loop_->OnEnd(agent, absl::OkStatus());
    EXPECT_EQ(secret.size(), 32);
    return secret;
  };
  new_rendezvous();
  const std::string first_run = secret_of("token:ann", 1, 0);
  EXPECT_NE(secret_of("token:ann", 2, 0), first_run);

  new_rendezvous();
  const std::string of_ann = secret_of("token:ann", 3, 7);
  new_rendezvous();
  EXPECT_EQ(secret_of("token:ann", 3, 7), of_ann) << "another leader derives another secret";
  new_rendezvous();
  EXPECT_NE(secret_of("token:bob", 3, 7), of_ann);
}

TEST_F(JobLoopTest, AJobHasSoManyAgentsAndNoMore) {
  Restart({.leases = false, .max_agents = 2});
  const auto first = Joined("job", 1, 2);
  const auto second = Joined("job", 2, 2);
  ASSERT_TRUE(first->WaitFor<Assignment>());
  const auto third = Joined("job", 3, 2);
  const absl::Status why = third->WaitForClose();
  EXPECT_EQ(why.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(why.message()), HasSubstr("job job has 2 agents already"));
  EXPECT_EQ(third->refused_for(), "too_many_agents");
  EXPECT_TRUE(Joined("another", 3, 1)->WaitFor<Assignment>());
}

// Fails if an answer contains "none", the internal name of a job without an id.
TEST_F(JobLoopTest, AJobWithoutAnIdIsNotCalledNone) {
  const auto answer = [&](auto ask) {
    std::promise<std::string> text;
    ask([&](const absl::StatusOr<std::string>& of) {
      text.set_value(of.ok() ? *of : std::string(of.status().message()));
    });
    return text.get_future().get();
  };
  const auto stacks = [&] {
    std::promise<std::string> text;
    loop_->GetStacks("", "none", [&](const absl::StatusOr<JobLoop::Stacks>& of) {
      text.set_value(std::string(of.status().message()));
    });
    return text.get_future().get();
  };
  const auto stop = [&](auto done) { loop_->StopJob("", "none", false, done); };
  const auto drain = [&](auto done) { loop_->DrainNode("", "none", "n7", done); };
  EXPECT_EQ(answer(stop), "there is no job without an id");
  EXPECT_EQ(stacks(), "there is no job without an id");
  EXPECT_EQ(answer(drain), "there is no node n7 in the job");
  const auto agent = Joined("none", 1, 2, "token:ann");
  EXPECT_EQ(Joined("none", 2, 2, "token:bob")->WaitForClose().message(),
            "the job belongs to somebody else");
  EXPECT_EQ(answer(stop), "the job stopped; no worker of it ran");
}

TEST_F(JobLoopTest, ThereAreSoManyJobsAndNoMoreUntilOneIsOver) {
  JobLoopOptions options = Options({.leases = false});
  options.max_jobs = 1;
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto agent = Joined("first", 1);
  ASSERT_TRUE(agent->WaitFor<Assignment>());
  const auto refused = Joined("second", 2);
  const absl::Status why = refused->WaitForClose();
  EXPECT_EQ(why.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(why.message()), HasSubstr("has 1 jobs, and no more are possible"));
  EXPECT_EQ(refused->refused_for(), "too_many_jobs");
  loop_->OnMessage(agent, HeaderOf("first", 1, 0), Leave{"done", 1});
  loop_->OnEnd(agent, absl::OkStatus());
  EXPECT_TRUE(Joined("second", 2)->WaitFor<Assignment>());
}

// Seen red when only all jobs together were counted.
TEST_F(JobLoopTest, OneOwnerCannotTakeAllJobs) {
  JobLoopOptions options = Options({.leases = false});
  options.max_jobs_of_owner = 2;
  // One of the jobs was recorded before a restart of the rendezvous.
  const Join join = JoinOf("n9", 1);
  RecordedJob recorded{"recorded", "token:ann", {}};
  recorded.record.spec = join.job;
  recorded.record.generation = Generation{0};
  recorded.record.members = {{AgentId{9}, join.node, join.offered_port, NodeRank{0}, Rank{0}}};
  loop_ = std::make_unique<JobLoop>(std::move(options), std::vector<RecordedJob>{recorded});
  const auto anns = Joined("first", 1, 1, "token:ann");
  ASSERT_TRUE(anns->WaitFor<Assignment>());
  const auto refused = Joined("second", 2, 1, "token:ann");
  const absl::Status why = refused->WaitForClose();
  EXPECT_EQ(why.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(why.message()), HasSubstr("the rendezvous has 2 jobs of token:ann"));
  EXPECT_EQ(refused->refused_for(), "too_many_jobs_of_owner");
  EXPECT_TRUE(Joined("bobs", 3, 1, "token:bob")->WaitFor<Assignment>());
  // The next job of ann can begin when one of her jobs has ended.
  loop_->OnMessage(anns, HeaderOf("first", 1, 0), Leave{"done", 1});
  loop_->OnEnd(anns, absl::OkStatus());
  EXPECT_TRUE(Joined("second", 2, 1, "token:ann")->WaitFor<Assignment>());
}

// No agent has an identity, so no job has an owner.
TEST_F(JobLoopTest, WithoutCredentialsNoOwnerIsCounted) {
  JobLoopOptions options = Options({.leases = false});
  options.max_jobs_of_owner = 1;
  loop_ = std::make_unique<JobLoop>(std::move(options));
  EXPECT_TRUE(Joined("first", 1)->WaitFor<Assignment>());
  EXPECT_TRUE(Joined("second", 2)->WaitFor<Assignment>());
}

TEST_F(JobLoopTest, WhoIsRefusedIsToldWhyAndHasNoSessionAnyMore) {
  const auto agent = Joined("job", 1, 2);
  const auto other = Joined("job", 2, 3);  // another --nnodes
  EXPECT_TRUE(other->WaitForClose().ok());
  ASSERT_EQ(other->sent().size(), 1U);
  EXPECT_THAT(std::get<Refused>(other->sent()[0]).reason, HasSubstr("--nnodes is 3"));
  EXPECT_EQ(other->refused_for(), "not_in_this_job");
  loop_->OnEnd(other, absl::OkStatus());
  // The job goes on with agents that have its settings.
  const auto second = Joined("job", 3, 2);
  EXPECT_TRUE(agent->WaitFor<Assignment>());
  EXPECT_TRUE(second->WaitFor<Assignment>());
}

// Seen red with an OnAgentGone() that does not check who reports.
TEST_F(JobLoopTest, AStrangersReportThatAnAgentIsGoneIsRefused) {
  const auto report = [&](const std::string& principal) {
    std::promise<absl::Status> answer;
    loop_->OnAgentGone(HeaderOf("job", 1), principal,
                       [&](const absl::Status& status) { answer.set_value(status); });
    return answer.get_future().get();
  };
  const auto a = Joined("job", 1, 2, "token:ann");
  const auto b = Joined("job", 2, 2, "token:ann");
  ASSERT_TRUE(b->WaitFor<Assignment>());
  loop_->OnMessage(a, HeaderOf("job", 1), AssignmentAck{});
  loop_->OnMessage(b, HeaderOf("job", 2), AssignmentAck{});
  ASSERT_TRUE(b->WaitFor<Start>());
  EXPECT_EQ(report("token:bob").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(report("").code(), absl::StatusCode::kPermissionDenied);
  loop_->OnMessage(b, HeaderOf("job", 2), Heartbeat{});
  ASSERT_TRUE(b->WaitForRequests(4));  // everything before it is handled
  for (const RendezvousMessage& message : b->sent()) {
    EXPECT_FALSE(std::holds_alternative<Stop>(message));
  }
  EXPECT_TRUE(report("token:ann").ok());
  EXPECT_TRUE(b->WaitFor<Stop>());
}

TEST_F(JobLoopTest, JobsAreIndependent) {
  const auto one = Joined("one", 1);
  const auto two = Joined("two", 1, 2);  // the same agent_id, in another job
  ASSERT_TRUE(one->WaitFor<Assignment>());
  loop_->OnMessage(one, HeaderOf("one", 1), Leave{"SIGTERM", 143});
  ASSERT_TRUE(one->WaitForRequests(3));
  EXPECT_THAT(two->sent(), IsEmpty());
  Joined("two", 2, 2);
  EXPECT_TRUE(two->WaitFor<Assignment>());
}

TEST_F(JobLoopTest, TheNameOfAFinishedJobCanBeUsedAgainWhileOldStreamsAreOpen) {
  const auto first = Joined("job", 1);
  ASSERT_TRUE(first->WaitFor<Assignment>());
  loop_->OnMessage(first, HeaderOf("job", 1), AssignmentAck{});
  loop_->OnMessage(first, HeaderOf("job", 1), WorkerExited{});
  ASSERT_TRUE(first->WaitFor<Finished>());
  const auto second = Joined("job", 2);
  ASSERT_TRUE(second->WaitFor<Assignment>());
  // Messages of the old agent have no effect.
  loop_->OnMessage(first, HeaderOf("job", 1), Stopped{29500, std::nullopt});
  loop_->OnEnd(first, absl::OkStatus());
  EXPECT_TRUE(first->WaitForClose().ok());
  loop_->OnMessage(second, HeaderOf("job", 2), AssignmentAck{});
  EXPECT_TRUE(second->WaitFor<Start>());
}

// Seen red with an Admit() that forgets a finished job before it checks the owner.
TEST_F(JobLoopTest, TheNameOfAFinishedJobIsNotForStrangers) {
  const auto first = Joined("job", 1, 1, "token:ann");
  ASSERT_TRUE(first->WaitFor<Assignment>());
  loop_->OnMessage(first, HeaderOf("job", 1), AssignmentAck{});
  loop_->OnMessage(first, HeaderOf("job", 1), WorkerExited{});
  ASSERT_TRUE(first->WaitFor<Finished>());
  const auto stranger = Joined("job", 2, 1, "token:bob");
  EXPECT_EQ(stranger->WaitForClose().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(stranger->refused_for(), "other_owner");
  // The status still has the finished job, and its owner may use the name again.
  std::promise<std::size_t> known;
  loop_->GetStatus("token:ann", "job",
                   [&](const auto& jobs) { known.set_value(jobs.ok() ? jobs->size() : 0); });
  EXPECT_EQ(known.get_future().get(), 1U);
  EXPECT_TRUE(Joined("job", 3, 1, "token:ann")->WaitFor<Assignment>());
}

}  // namespace job_loop_jobs_test
}  // namespace ddprun
