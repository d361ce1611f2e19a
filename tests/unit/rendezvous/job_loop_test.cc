#include "rendezvous/service/job/job_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/record.h"
#include "tests/unit/rendezvous/event_inbox.h"
#include "tests/unit/rendezvous/messages_for_test.h"

namespace ddprun {
namespace job_loop_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Records what the loop does with a stream.
std::shared_ptr<const EncodedStackTree> Shared(const StackTree& tree) {
  return std::make_shared<const EncodedStackTree>(tree.Encode());
}

class FakeStream final : public AgentStream {
 public:
  void Send(const Header&, const RendezvousMessage& message) override {
    if (on_send) on_send(message);
    Change([&] { sent_.push_back(message); });
  }
  void RequestMessage() override {
    Change([&] { ++requested_; });
  }
  void Close(const absl::Status& status) override {
    Change([&] { closed_ = status; });
  }
  std::string Peer() const override { return "test:1"; }
  const std::string& Principal() const override { return principal_; }
  void CountRefusal(const char* reason, const absl::Status&) override {
    Change([&] { refused_for_ = reason; });
  }

  explicit FakeStream(std::string principal = "") : principal_(std::move(principal)) {}

  // Called by Send, by whatever thread. Set while nothing is sent.
  std::function<void(const RendezvousMessage&)> on_send;

  template <class M>
  bool WaitFor() {
    return Wait([&] { return !sent_.empty() && std::holds_alternative<M>(sent_.back()); });
  }
  bool WaitForRequests(int count) {
    return Wait([&] { return requested_ >= count; });
  }
  absl::Status WaitForClose() {
    EXPECT_TRUE(Wait([&] { return closed_.has_value(); }));
    const std::lock_guard lock(mutex_);
    return closed_.value_or(absl::InternalError("not closed"));
  }
  std::string refused_for() const {
    const std::lock_guard lock(mutex_);
    return refused_for_;
  }
  std::vector<RendezvousMessage> sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }

 private:
  template <class F>
  void Change(F change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <class F>
  bool Wait(F condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestDeadline, condition);
  }

  const std::string principal_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string refused_for_;
  std::vector<RendezvousMessage> sent_;
  int requested_ = 0;
  std::optional<absl::Status> closed_;
};

class JobLoopTest : public testing::Test {
 protected:
  std::shared_ptr<FakeStream> Open(const std::string& principal = "") {
    auto stream = std::make_shared<FakeStream>(principal);
    loop_->OnOpen(stream);
    return stream;
  }
  std::shared_ptr<FakeStream> Joined(const std::string& job, std::uint64_t agent_id, int nodes = 1,
                                     const std::string& principal = "") {
    std::shared_ptr<FakeStream> stream = Open(principal);
    loop_->OnMessage(stream, HeaderOf(job, agent_id, -1),
                     JoinOf(absl::StrCat("n", agent_id), nodes));
    return stream;
  }
  void Restart(JobMachineOptions round) { loop_ = std::make_unique<JobLoop>(Options(round)); }
  JobLoopOptions Options(JobMachineOptions round) {
    JobLoopOptions options;
    options.round = round;
    options.log = [this](std::string_view job, std::string_view text) {
      const std::lock_guard lock(log_mutex_);
      log_.append(job).append(": ").append(text).append("\n");
    };
    return options;
  }
  std::string log() {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }

  std::mutex log_mutex_;
  std::string log_;
  // No lease: nothing here depends on how busy the machine is.
  std::unique_ptr<JobLoop> loop_ = std::make_unique<JobLoop>(Options({.leases = false}));
};

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
  loop_.reset();  // it calls us until then
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
  // Another name is free for others.
  EXPECT_TRUE(Joined("bobs job", 2, 1, "token:bob")->WaitFor<Assignment>());
}

TEST_F(JobLoopTest, AJobHasSoManyAgentsAndNoMore) {
  Restart({.leases = false, .max_agents = 2});
  const auto first = Joined("job", 1, 2);
  const auto second = Joined("job", 2, 2);
  ASSERT_TRUE(first->WaitFor<Assignment>());
  const auto third = Joined("job", 3, 2);
  const absl::Status why = third->WaitForClose();
  EXPECT_EQ(why.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(why.message()), HasSubstr("the job job has 2 agents already"));
  EXPECT_EQ(third->refused_for(), "too_many_agents");
  EXPECT_TRUE(Joined("another", 3, 1)->WaitFor<Assignment>());
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
  // One of the jobs is of before a restart of the rendezvous.
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
  // Her next one begins when one is over.
  loop_->OnMessage(anns, HeaderOf("first", 1, 0), Leave{"done", 1});
  loop_->OnEnd(anns, absl::OkStatus());
  EXPECT_TRUE(Joined("second", 2, 1, "token:ann")->WaitFor<Assignment>());
}

// Nobody is asked who he is: all jobs are nobody's.
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
  // The job goes on with those that belong to it.
  const auto second = Joined("job", 3, 2);
  EXPECT_TRUE(agent->WaitFor<Assignment>());
  EXPECT_TRUE(second->WaitFor<Assignment>());
}

// Seen red with an OnAgentGone that asks nobody.
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
  // What the old agent still says reaches nobody.
  loop_->OnMessage(first, HeaderOf("job", 1), Stopped{29500, std::nullopt});
  loop_->OnEnd(first, absl::OkStatus());
  EXPECT_TRUE(first->WaitForClose().ok());
  loop_->OnMessage(second, HeaderOf("job", 2), AssignmentAck{});
  EXPECT_TRUE(second->WaitFor<Start>());
}

// Seen red with an Admit that forgets a job that is over before it asks whose it is.
TEST_F(JobLoopTest, TheNameOfAFinishedJobIsNotForStrangers) {
  const auto first = Joined("job", 1, 1, "token:ann");
  ASSERT_TRUE(first->WaitFor<Assignment>());
  loop_->OnMessage(first, HeaderOf("job", 1), AssignmentAck{});
  loop_->OnMessage(first, HeaderOf("job", 1), WorkerExited{});
  ASSERT_TRUE(first->WaitFor<Finished>());
  const auto stranger = Joined("job", 2, 1, "token:bob");
  EXPECT_EQ(stranger->WaitForClose().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(stranger->refused_for(), "other_owner");
  // It is still known how it ended, and its owner may use the name again.
  std::promise<std::size_t> known;
  loop_->GetStatus("token:ann", "job",
                   [&](const std::vector<JobStatus>& jobs) { known.set_value(jobs.size()); });
  EXPECT_EQ(known.get_future().get(), 1U);
  EXPECT_TRUE(Joined("job", 3, 1, "token:ann")->WaitFor<Assignment>());
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
  // The loop's thread may still be at what came before.
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

// Seen red where all is sent in one go: the heartbeat is answered after the last Stop.
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

// Their time is over as soon as they are asked for, and it is over before they are merged. Seen red
// where answers are shown before what others have sent is answered (the order), and where only
// answers that are merged count (what is missing).
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
  // Both answer and the other job's heartbeat comes while the first one is asked.
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

// A store that makes nothing durable until it is told to.
class HeldStore final : public Store {
 public:
  absl::StatusOr<std::map<std::string, std::string>> Load() override { return stored_; }
  void Commit(Batch batch, Done done) override {
    const std::lock_guard lock(mutex_);
    for (Write& write : batch) {
      if (write.value) {
        stored_[write.key] = *write.value;
      } else {
        stored_.erase(write.key);
      }
    }
    held_.push_back(std::move(done));
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    for (const Done& done : std::exchange(held_, {})) done(Outcome::kKept);
  }
  // Of all that is held, which stays held unless the outcome is the last.
  void Report(Outcome outcome) {
    const std::lock_guard lock(mutex_);
    for (const Done& done : held_) done(outcome);
    if (outcome != Outcome::kFailed) held_.clear();
  }
  std::map<std::string, std::string> stored() {
    const std::lock_guard lock(mutex_);
    return stored_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> stored_;
  std::vector<Done> held_;
};

TEST_F(JobLoopTest, NothingIsSaidBeforeItIsDurableButHeartbeatsAreAnswered) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = false});
  options.store = &store;
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto stream = Joined("job", 1);
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{42, {}});
  ASSERT_TRUE(stream->WaitFor<HeartbeatAck>()) << "a slow disk must not look like a lost agent";
  EXPECT_THAT(stream->sent(), ElementsAre(testing::VariantWith<HeartbeatAck>(testing::_)));
  const auto other = Joined("other job", 1, 2);
  ASSERT_TRUE(other->WaitForRequests(2));
  store.Release();
  EXPECT_TRUE(stream->WaitFor<Assignment>());
  loop_.reset();
}

// Seen red with a JobLoop that takes every outcome for kKept.
TEST_F(JobLoopTest, WhatTheStoreCannotWriteYetHoldsUpOnlyWhatRestsOnIt) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = false});
  options.store = &store;
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitForRequests(2));
  store.Report(Store::Outcome::kFailed);
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{42, {}});
  ASSERT_TRUE(stream->WaitFor<HeartbeatAck>());
  EXPECT_THAT(stream->sent(), ElementsAre(testing::VariantWith<HeartbeatAck>(testing::_)));
  store.Release();
  EXPECT_TRUE(stream->WaitFor<Assignment>());
  loop_.reset();
}

// Seen red with a JobLoop that takes kLostRight for kFailed.
TEST_F(JobLoopTest, WhoMayWriteNoMoreAcknowledgesNobodyAndEndsEverySession) {
  HeldStore store;
  std::promise<void> lost;
  JobLoopOptions options = Options({.leases = false});
  options.store = &store;
  options.lost_right = [&] { lost.set_value(); };
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto stream = Joined("job", 1);
  const auto other = Joined("other job", 1, 2);
  ASSERT_TRUE(stream->WaitForRequests(2) && other->WaitForRequests(2));
  std::promise<absl::StatusOr<std::string>> drained;
  loop_->DrainNode("", "job", "n1", [&](auto answer) { drained.set_value(answer); });
  store.Report(Store::Outcome::kLostRight);
  for (const auto& one : {stream, other}) {
    const absl::Status why = one->WaitForClose();
    EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(why.message()), HasSubstr("lost the right to write"));
    EXPECT_THAT(one->sent(), IsEmpty());
  }
  EXPECT_EQ(lost.get_future().wait_for(kTestDeadline), std::future_status::ready);
  EXPECT_FALSE(drained.get_future().get().ok());
  EXPECT_THAT(log(), HasSubstr("lost the right to write"));
  // Nobody is taken any more, and nobody is answered.
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{42, {}});
  EXPECT_EQ(Joined("job", 2)->WaitForClose().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(stream->sent(), IsEmpty());
  std::promise<std::size_t> jobs;
  loop_->GetStatus("", "", [&](std::vector<JobStatus> found) { jobs.set_value(found.size()); });
  EXPECT_EQ(jobs.get_future().get(), 0u);
  loop_.reset();
}

TEST_F(JobLoopTest, ARecordedJobGoesOnWithItsGenerationAndItsWorkers) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = true});
  options.store = &store;
  loop_ = std::make_unique<JobLoop>(options);
  const auto first = Joined("job", 1);
  ASSERT_TRUE(first->WaitForRequests(2));
  store.Release();
  ASSERT_TRUE(first->WaitFor<Assignment>());
  loop_.reset();

  std::vector<RecordedJob> recorded;
  for (const auto& [key, value] : store.stored()) {
    auto record = wire::DecodeRecord(value);
    ASSERT_TRUE(record.ok()) << record.status();
    recorded.push_back({*wire::JobOfKey(key), record->owner, record->record});
  }
  ASSERT_EQ(recorded.size(), 1u);
  loop_ = std::make_unique<JobLoop>(options, recorded);
  const auto again = Open();
  Join join = JoinOf("n1", 1);
  join.workers_running = true;
  loop_->OnMessage(again, HeaderOf("job", 1, 0), join);
  EXPECT_TRUE(again->WaitFor<Start>()) << "which an agent that has started ignores";
  loop_->OnMessage(again, HeaderOf("job", 1, 0), WorkerExited{});
  ASSERT_TRUE(again->WaitForRequests(3));
  store.Release();
  EXPECT_TRUE(again->WaitFor<Finished>());
  loop_.reset();
}

TEST_F(JobLoopTest, OnlySoManyJobsThatAreOverAreKept) {
  HeldStore store;
  JobLoopOptions options = Options({.leases = false});
  options.ended.jobs = 3;
  options.store = &store;
  loop_ = std::make_unique<JobLoop>(std::move(options));
  for (int i = 0; i < 10; ++i) {
    const std::string name = absl::StrCat("job", i);
    const auto stream = Joined(name, 1);
    ASSERT_TRUE(stream->WaitForRequests(2));
    store.Release();
    ASSERT_TRUE(stream->WaitFor<Assignment>());
    loop_->OnMessage(stream, HeaderOf(name, 1, 0), AssignmentAck{});
    loop_->OnMessage(stream, HeaderOf(name, 1, 0), WorkerExited{});
    ASSERT_TRUE(stream->WaitForRequests(4));
    store.Release();
    ASSERT_TRUE(stream->WaitFor<Finished>());
  }
  std::promise<std::size_t> jobs;
  loop_->GetStatus("", "", [&](std::vector<JobStatus> found) { jobs.set_value(found.size()); });
  EXPECT_EQ(jobs.get_future().get(), 3u);
  loop_.reset();
  EXPECT_EQ(store.stored().size(), 3u);
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
