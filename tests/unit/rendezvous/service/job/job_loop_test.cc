// Tests how JobLoop handles sessions, their messages, timers and operators.
#include "rendezvous/service/job/job_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/translate.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/service/job/job_loop_fixture.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"
#include "worker/contract/process_stat.h"

namespace ddprun {
namespace job_loop_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<const EncodedStackTree> Shared(const StackTree& tree) {
  return std::make_shared<const EncodedStackTree>(tree.Encode());
}

TEST_F(JobLoopTest, TellsHowMuchIsOpenAndThatAJobHasBeen) {
  std::mutex mutex;
  std::condition_variable changed;
  JobLoopLoad load;
  const auto becomes = [&](const JobLoopLoad& expected) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kTestDeadline, [&] { return load == expected; });
  };
  JobLoopOptions options = Options({.leases = false});
  options.load = [&](const JobLoopLoad& now) {
    const std::lock_guard lock(mutex);
    load = now;
    changed.notify_all();
  };
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto stranger = Open();
  EXPECT_TRUE(becomes({1, 0, 0}));
  const auto agent = Joined("job", 1, 2);
  EXPECT_TRUE(becomes({2, 1, 1}));
  loop_->OnEnd(stranger, absl::OkStatus());
  loop_->OnEnd(agent, absl::OkStatus());
  EXPECT_TRUE(becomes({0, 0, 1}));
  loop_.reset();  // until then it may call our lambdas
}

TEST_F(JobLoopTest, PassesTheRoundsMessagesToTheStreamOfEachAgent) {
  const auto first = Joined("job", 1, 2);
  const auto second = Joined("job", 2, 2);
  ASSERT_TRUE(first->WaitFor<Assignment>());
  ASSERT_TRUE(second->WaitFor<Assignment>());
  EXPECT_EQ(std::get<Assignment>(first->sent()[0]).node_rank, NodeRank{0});
  EXPECT_EQ(std::get<Assignment>(second->sent()[0]).node_rank, NodeRank{1});
  EXPECT_THAT(log(), HasSubstr("job: n1 joined"));
}

// Waits for a thread of this process with the policy SCHED_BATCH; 0: there is none.
pid_t WaitForPatientThread() {
  const auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
  while (std::chrono::steady_clock::now() < deadline) {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const pid_t thread = std::stoi(task.path().filename().string());
      if (sched_getscheduler(thread) == SCHED_BATCH) return thread;
    }
    sched_yield();
  }
  return 0;
}

// The policy of a thread once it sleeps.
int PolicyAsleep(pid_t thread) {
  const std::string file = absl::StrCat("/proc/self/task/", thread, "/stat");
  const auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
  while (std::chrono::steady_clock::now() < deadline && ReadStatFile(file)->state != 'S') {
    sched_yield();
  }
  return sched_getscheduler(thread);
}

TEST_F(JobLoopTest, ItsThreadIsPatientWhileJoinsComeAndNotOnceTheGroupHasFormed) {
  const auto first = Joined("job", 1, 2);
  const pid_t thread = WaitForPatientThread();
  ASSERT_NE(thread, 0);
  const auto second = Joined("job", 2, 2);
  ASSERT_TRUE(second->WaitFor<Assignment>());
  EXPECT_EQ(PolicyAsleep(thread), SCHED_OTHER);
}

TEST_F(JobLoopTest, ASummaryCountsItsNodesAndHasNone) {
  const auto agent = Joined("ours", 1, 2, "ann");
  const auto other = Joined("theirs", 2, 2, "bob");
  ASSERT_TRUE(agent->WaitForRequests(2));
  ASSERT_TRUE(other->WaitForRequests(2));
  std::promise<std::vector<JobLoop::Summary>> told;
  loop_->GetSummaries("ann", [&](const auto& jobs) {
    told.set_value(jobs.value_or(std::vector<JobLoop::Summary>()));
  });
  const std::vector<JobLoop::Summary> jobs = told.get_future().get();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].job.job, "ours");
  EXPECT_EQ(jobs[0].nodes, 1);
  EXPECT_THAT(jobs[0].job.nodes, IsEmpty());
}

TEST_F(JobLoopTest, AsksForTheNextMessageOnlyWhenTheLastOneIsHandled) {
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitForRequests(2));  // one for the Join, one after it
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{});
  EXPECT_TRUE(stream->WaitForRequests(3));
}

TEST_F(JobLoopTest, AFirstMessageThatIsNoJoinEndsTheSession) {
  const auto stream = Open();
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{});
  const absl::Status status = stream->WaitForClose();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("must be a Join"));
  EXPECT_THAT(log(), HasSubstr("closed the session of test:1"));
}

TEST_F(JobLoopTest, ASessionCannotSpeakForAnotherAgent) {
  const auto victim = Joined("job", 1, 2);
  const auto impostor = Joined("job", 2, 2);
  ASSERT_TRUE(impostor->WaitFor<Assignment>());
  loop_->OnMessage(impostor, HeaderOf("job", 1), Leave{"SIGTERM", 143});
  EXPECT_EQ(impostor->WaitForClose().code(), absl::StatusCode::kInvalidArgument);
  loop_->OnMessage(victim, HeaderOf("job", 1), Heartbeat{});
  EXPECT_TRUE(victim->WaitForRequests(3));
}

TEST_F(JobLoopTest, ANewerSessionOfTheSameAgentReplacesTheOlder) {
  const auto older = Joined("job", 1);
  const auto newer = Joined("job", 1);
  EXPECT_EQ(older->WaitForClose().code(), absl::StatusCode::kAborted);
  loop_->OnEnd(older, absl::OkStatus());  // its own end, which says nothing about the agent
  ASSERT_TRUE(newer->WaitForRequests(2));
  loop_->Shutdown();  // everything is handled by then
  EXPECT_THAT(log(), Not(HasSubstr("lost")));
}

TEST_F(JobLoopTest, TheEndOfAStreamReachesTheRound) {
  const auto stays = Joined("job", 1, 2);
  const auto goes = Joined("job", 2, 2);
  ASSERT_TRUE(stays->WaitFor<Assignment>());
  for (const auto& [stream, agent_id] : {std::pair(stays, 1), std::pair(goes, 2)}) {
    loop_->OnMessage(stream, HeaderOf("job", agent_id), AssignmentAck{});
  }
  ASSERT_TRUE(stays->WaitFor<Start>());
  loop_->OnEnd(goes, absl::OkStatus());
  EXPECT_TRUE(stays->WaitFor<Stop>());
  EXPECT_TRUE(goes->WaitForClose().ok());
}

TEST_F(JobLoopTest, TimePassesByItself) {
  JobLoopOptions options = Options({.leases = false, .tell_after = std::chrono::milliseconds(20)});
  options.time_to_join = std::chrono::hours(1);  // nothing else wakes its thread
  loop_ = std::make_unique<JobLoop>(std::move(options));
  EXPECT_TRUE(Joined("job", 1, 2)->WaitFor<Waiting>());
}

TEST_F(JobLoopTest, WhoBringsAMessageAnswersItUnlessAnotherThreadIsAtWork) {
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  std::atomic<bool> answered = false;
  stream->on_send = [&, here = std::this_thread::get_id()](const RendezvousMessage&) {
    if (std::this_thread::get_id() == here) answered = true;
  };
  // The thread of the loop may still be busy with earlier messages.
  for (int i = 0; i < 1000 && !answered; ++i) {
    loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{});
    ASSERT_TRUE(stream->WaitForRequests(i + 3));
  }
  EXPECT_TRUE(answered);
}

TEST_F(JobLoopTest, WhoBringsAMessageDoesNotWaitForAnother) {
  const auto slow = Joined("slow", 1);
  const auto other = Joined("other", 2);
  ASSERT_TRUE(slow->WaitFor<Assignment>() && other->WaitFor<Assignment>());
  std::promise<void> began, end;
  slow->on_send = [&](const RendezvousMessage&) {
    began.set_value();
    end.get_future().wait();
  };
  std::thread first([&] { loop_->OnMessage(slow, HeaderOf("slow", 1), Heartbeat{}); });
  began.get_future().wait();
  loop_->OnMessage(other, HeaderOf("other", 2), Heartbeat{});
  EXPECT_FALSE(std::holds_alternative<HeartbeatAck>(other->sent().back()));
  end.set_value();
  EXPECT_TRUE(other->WaitFor<HeartbeatAck>());
  first.join();
}

// Seen red when all messages were sent without a pause: the heartbeat was answered after the last
// Stop.
TEST_F(JobLoopTest, AnotherJobIsAnsweredWhileThousandsAreToldSomething) {
  constexpr int kAgents = 100;
  constexpr std::uint64_t kOther = 1000;
  JobLoopOptions options = Options({.leases = false});
  options.portion = Duration{};  // one message
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto other = Joined("other", kOther);
  ASSERT_TRUE(other->WaitFor<Assignment>());
  std::vector<std::shared_ptr<FakeStream>> agents;
  for (int i = 1; i <= kAgents; ++i) agents.push_back(Joined("large", i, kAgents));
  for (int i = 1; i <= kAgents; ++i) {
    ASSERT_TRUE(agents[i - 1]->WaitFor<Assignment>());
    loop_->OnMessage(agents[i - 1], HeaderOf("large", i), AssignmentAck{});
  }
  for (const auto& agent : agents) ASSERT_TRUE(agent->WaitFor<Start>());
  std::atomic<int> stops = 0;
  std::atomic<int> stops_before_the_answer = -1;
  other->on_send = [&](const RendezvousMessage&) { stops_before_the_answer = stops.load(); };
  for (const auto& agent : agents) {
    agent->on_send = [&](const RendezvousMessage&) {
      if (++stops == 1) loop_->OnMessage(other, HeaderOf("other", kOther), Heartbeat{});
    };
  }
  WorkerExited failed;
  failed.status.code = 1;
  loop_->OnMessage(agents[0], HeaderOf("large", 1), failed);
  for (const auto& agent : agents) EXPECT_TRUE(agent->WaitFor<Stop>());
  EXPECT_TRUE(other->WaitFor<HeartbeatAck>());
  EXPECT_LT(stops_before_the_answer, kAgents);
}

// The time limit ends as soon as the stacks are requested, before they are merged. Seen red when
// the stacks were shown before waiting messages were handled. Seen red when an answer that was not
// merged yet counted as missing.
TEST_F(JobLoopTest, StacksAreShownAfterWhatOthersSayAndAreNotLateForThat) {
  loop_ = std::make_unique<JobLoop>(Options({.leases = false, .stacks_timeout = Duration{1}}));
  const auto other = Joined("other", 3);
  const std::vector<std::shared_ptr<FakeStream>> agents = {Joined("job", 1, 2),
                                                           Joined("job", 2, 2)};
  for (int i : {0, 1}) {
    ASSERT_TRUE(agents[i]->WaitFor<Assignment>());
    loop_->OnMessage(agents[i], HeaderOf("job", i + 1), AssignmentAck{});
  }
  for (const auto& agent : agents) ASSERT_TRUE(agent->WaitFor<Start>());
  ASSERT_TRUE(other->WaitFor<Assignment>());
  std::promise<JobLoop::Stacks> promise;
  std::atomic<bool> shown = false;
  std::atomic<bool> shown_before_the_answer = true;
  other->on_send = [&](const RendezvousMessage&) { shown_before_the_answer = shown.load(); };
  // While the first agent is asked, both agents answer, and the other job sends a heartbeat.
  agents[0]->on_send = [&](const RendezvousMessage& message) {
    for (std::uint32_t i : {0, 1}) {
      StackTree tree;
      tree.Add(i, ThreadKind::kMain, {{"main", "m.cc", 1, "m"}});
      loop_->OnMessage(agents[i], HeaderOf("job", i + 1),
                       StacksTaken{std::get<TakeStacks>(message).request, Shared(tree)});
    }
    loop_->OnMessage(other, HeaderOf("other", 3), Heartbeat{});
  };
  loop_->GetStacks("", "job", [&](absl::StatusOr<JobLoop::Stacks> stacks) {
    shown = true;
    promise.set_value(*std::move(stacks));
  });
  EXPECT_THAT(promise.get_future().get().missing, IsEmpty());
  EXPECT_TRUE(other->WaitFor<HeartbeatAck>());
  EXPECT_FALSE(shown_before_the_answer);
}

TEST_F(JobLoopTest, AnOperatorStopsAJobAndIsToldWhenThereIsNone) {
  const auto stream = Joined("job", 1, 2);
  std::promise<absl::StatusOr<std::string>> stopped;
  loop_->StopJob("", "job", false, [&](auto answer) { stopped.set_value(answer); });
  EXPECT_TRUE(stopped.get_future().get().ok());
  EXPECT_TRUE(stream->WaitFor<Finished>());
  std::promise<absl::StatusOr<std::string>> unknown;
  loop_->StopJob("", "jobb", false, [&](auto answer) { unknown.set_value(answer); });
  EXPECT_EQ(unknown.get_future().get().status().code(), absl::StatusCode::kNotFound);
  std::promise<absl::StatusOr<std::string>> no_node;
  loop_->DrainNode("", "", "n7", [&](auto answer) { no_node.set_value(answer); });
  EXPECT_EQ(no_node.get_future().get().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JobLoopTest, StacksOfAJobAreForItsOwnerAlone) {
  const auto stream = Joined("job", 1, 1, "token:ann");
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  loop_->OnMessage(stream, HeaderOf("job", 1, 0), AssignmentAck{});
  ASSERT_TRUE(stream->WaitFor<Start>());
  const auto ask = [&](const std::string& owner, const std::string& job) {
    auto asked = std::make_shared<std::promise<absl::StatusOr<JobLoop::Stacks>>>();
    loop_->GetStacks(owner, job, [asked](auto stacks) { asked->set_value(std::move(stacks)); });
    return asked->get_future();
  };
  EXPECT_EQ(ask("token:bob", "job").get().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ask("token:ann", "jobb").get().status().code(), absl::StatusCode::kNotFound);
  auto stacks = ask("token:ann", "job");
  ASSERT_TRUE(stream->WaitFor<TakeStacks>());
  StackTree tree;
  tree.Add(0, ThreadKind::kMain, {{"main", "m.cc", 1, "m"}});
  StackRequestId request;
  for (const RendezvousMessage& message : stream->sent()) {
    if (const auto* take = std::get_if<TakeStacks>(&message)) request = take->request;
  }
  loop_->OnMessage(stream, HeaderOf("job", 1, 0), StacksTaken{request, Shared(tree)});
  const auto shown = stacks.get();
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->tree, tree.Encode());
  // Packed trees, as they come from the network. Bytes that are no tree are not used.
  const auto answer = [&](const std::string& packed) {
    auto asked = ask("token:ann", "job");
    StackRequestId next = request;
    for (; next == request; std::this_thread::yield()) {
      for (const RendezvousMessage& message : stream->sent()) {
        if (const auto* take = std::get_if<TakeStacks>(&message)) next = take->request;
      }
    }
    request = next;
    loop_->OnMessage(
        stream, HeaderOf("job", 1, 0),
        StacksTaken{request, Shared(StackTree()), std::make_shared<std::string>(packed)});
    return asked.get();
  };
  EXPECT_EQ(answer(wire::PackTree(tree.Encode()))->tree, tree.Encode());
  EXPECT_EQ(answer("no tree")->tree, EncodedStackTree());
  loop_->OnMessage(stream, HeaderOf("job", 1, 0), WorkerExited{});
  ASSERT_TRUE(stream->WaitFor<Finished>());
  EXPECT_EQ(ask("token:ann", "job").get().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(JobLoopTest, ShutdownHandlesWhatIsQueuedAndThenClosesEveryStream) {
  const auto silent = Open();
  const auto joined = Joined("job", 1);
  loop_->Shutdown();
  EXPECT_THAT(joined->sent(), ElementsAre(testing::VariantWith<Assignment>(testing::_)));
  EXPECT_EQ(joined->WaitForClose().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(silent->WaitForClose().code(), absl::StatusCode::kUnavailable);
  const auto late = Open();
  EXPECT_EQ(late->WaitForClose().code(), absl::StatusCode::kUnavailable);
}

}  // namespace job_loop_test
}  // namespace ddprun
