// A JobLoop of one of several rendezvous: it waits, leads under a term, and sends messages only
// while its validity lasts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/service/job/job_loop.h"
#include "tests/unit/rendezvous/service/job/job_loop_fixture.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace job_loop_several_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::VariantWith;

constexpr Term kTerm{7, 100};

class JobLoopSeveralTest : public JobLoopTest {
 protected:
  JobLoopSeveralTest() { Begin({.leases = false}); }

  void Begin(JobMachineOptions machine) {
    loop_.reset();
    JobLoopOptions options = Options(machine);
    options.validity = &validity_;
    loop_ = std::make_unique<JobLoop>(std::move(options));
  }
  void Lead(std::vector<RecordedJob> recorded = {}, Duration hold = {}) {
    validity_.SetUntil(TimePoint::max());
    loop_->Lead({kTerm, std::chrono::steady_clock::now() + hold}, std::move(recorded));
  }
  std::shared_ptr<FakeStream> OpenWaiting() {
    auto stream = std::make_shared<FakeStream>();
    loop_->OnOpen(stream, /*waits=*/true);
    return stream;
  }
  void LoseValidity() { validity_.SetUntil({}); }
  void RegainValidity() {
    validity_.SetUntil(TimePoint::max());
    loop_->OnValidity();
  }
  // The answer to an operator who asks for the state of all jobs.
  absl::StatusOr<std::vector<JobStatus>> Status() {
    std::promise<absl::StatusOr<std::vector<JobStatus>>> told;
    loop_->GetStatus("", "", [&](auto jobs) { told.set_value(std::move(jobs)); });
    return told.get_future().get();
  }
  absl::Status ReportGone() {
    std::promise<absl::Status> told;
    loop_->OnAgentGone(HeaderOf("job", 1), "", [&](absl::Status why) { told.set_value(why); });
    return told.get_future().get();
  }
  // Two nodes of "job" that run generation 0.
  RecordedJob Recorded() {
    RecordedJob recorded{"job", "", {}};
    recorded.record.spec = JoinOf("n1", 2).job;
    recorded.record.spec.lease = std::chrono::seconds(1);
    recorded.record.spec.heartbeat = std::chrono::milliseconds(300);
    recorded.record.generation = Generation{0};
    for (const int rank : {0, 1}) {
      NodeRecord node;
      node.agent_id = AgentId{static_cast<std::uint64_t>(rank) + 1};
      node.spec = JoinOf(absl::StrCat("n", rank + 1), 2).node;
      node.rank = NodeRank{rank};
      node.first_rank = Rank{rank};
      recorded.record.members.push_back(node);
    }
    return recorded;
  }

  Validity validity_;
};

// Seen red with an OnOpen() that did not answer at once.
TEST_F(JobLoopSeveralTest, WhoStandsByRefusesAllAndSaysWhoLeads) {
  const auto early = Open();
  absl::Status why = early->WaitForClose();
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(why.message()), HasSubstr("no leader is known yet"));
  loop_->SetLeader("n2:29400");
  why = Open()->WaitForClose();
  EXPECT_THAT(std::string(why.message()), HasSubstr("stands by: the leader is at n2:29400"));
  EXPECT_EQ(Status().status(), why);
  EXPECT_EQ(ReportGone(), why);
  std::promise<absl::Status> may;
  loop_->MayAnswer([&](absl::Status status) { may.set_value(status); });
  EXPECT_EQ(may.get_future().get(), why);
  // A validity alone does not make it a leader.
  validity_.SetUntil(TimePoint::max());
  EXPECT_EQ(Open()->WaitForClose(), why);
  EXPECT_EQ(Status().status(), why);
}

// Seen red when the standby closed the session.
TEST_F(JobLoopSeveralTest, ASessionThatWaitsIsServedOnceItLeads) {
  Begin({.leases = true});
  const auto waiting = OpenWaiting();
  ASSERT_TRUE(waiting->WaitForRequests(1));
  Lead({Recorded()});
  Join join = JoinOf("n1", 2);
  join.job = Recorded().record.spec;
  join.workers_running = true;
  loop_->OnMessage(waiting, HeaderOf("job", 1, 0), join);
  loop_->OnMessage(waiting, HeaderOf("job", 1, 0), Heartbeat{});
  EXPECT_TRUE(waiting->WaitFor<HeartbeatAck>());
  EXPECT_EQ(waiting->headers().back().term, kTerm);
}

// Its messages may be old when this rendezvous begins to lead. Seen red when a standby accepted
// them.
TEST_F(JobLoopSeveralTest, ASessionThatWaitsMustNotSpeak) {
  const auto waiting = OpenWaiting();
  ASSERT_TRUE(waiting->WaitForRequests(1));
  loop_->OnMessage(waiting, HeaderOf("job", 1, -1), JoinOf("n1", 1));
  EXPECT_EQ(waiting->WaitForClose().code(), absl::StatusCode::kInvalidArgument);
}

// The time limit for the Join begins when this rendezvous leads. Seen red with a limit from the
// opening of the session, and without any limit.
TEST_F(JobLoopSeveralTest, ASessionThatHasWaitedMustJoinInTime) {
  JobLoopOptions options = Options({.leases = false});
  options.validity = &validity_;
  options.time_to_join = std::chrono::milliseconds(50);
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const auto waiting = OpenWaiting();
  ASSERT_TRUE(waiting->WaitForRequests(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // longer than time_to_join
  EXPECT_FALSE(waiting->closed());
  Lead();
  EXPECT_EQ(waiting->WaitForClose().code(), absl::StatusCode::kDeadlineExceeded);
  loop_.reset();
}

TEST_F(JobLoopSeveralTest, ASessionThatWaitsEndsWithTheProcess) {
  const auto waiting = OpenWaiting();
  ASSERT_TRUE(waiting->WaitForRequests(1));
  loop_->Shutdown();
  EXPECT_EQ(waiting->WaitForClose().code(), absl::StatusCode::kUnavailable);
}

TEST_F(JobLoopSeveralTest, WhoLeadsTakesUpTheRecordsAndServes) {
  EXPECT_FALSE(Open()->WaitForClose().ok());
  Begin({.leases = true});
  Lead({Recorded()});
  const auto stream = Open();
  Join join = JoinOf("n1", 2);
  join.job = Recorded().record.spec;
  join.workers_running = true;
  loop_->OnMessage(stream, HeaderOf("job", 1, 0), join);
  loop_->OnMessage(stream, HeaderOf("job", 1, 0), Heartbeat{});
  EXPECT_TRUE(stream->WaitFor<HeartbeatAck>());
  const auto jobs = Status();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 1u);
  EXPECT_EQ(jobs->front().nodes.size(), 2u);
}

// No member comes back. Without the hold the leases would be over after 1 s. Seen red with a Lead()
// that does not set leases_from.
TEST_F(JobLoopSeveralTest, MembersHaveTheHoldAndOneLease) {
  std::promise<TimePoint> lost;
  JobLoopOptions options = Options({.leases = true});
  options.validity = &validity_;
  options.events = [&, told = false](auto, auto, auto, const JobEvent& event) mutable {
    if (event.kind != JobEvent::Kind::kLost || std::exchange(told, true)) return;
    lost.set_value(std::chrono::steady_clock::now());
  };
  loop_ = std::make_unique<JobLoop>(std::move(options));
  const TimePoint led_at = std::chrono::steady_clock::now();
  const Duration hold = std::chrono::milliseconds(1500);
  Lead({Recorded()}, hold);
  auto lost_at = lost.get_future();
  ASSERT_EQ(lost_at.wait_for(kTestDeadline), std::future_status::ready);
  EXPECT_GE(lost_at.get(), led_at + hold + std::chrono::seconds(1));
  loop_.reset();
}

TEST_F(JobLoopSeveralTest, EveryMessageCarriesTheTerm) {
  Lead();
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{});
  ASSERT_TRUE(stream->WaitFor<HeartbeatAck>());
  EXPECT_THAT(stream->headers(), Each(Field(&Header::term, kTerm)));
  const Term later{7, 105};
  loop_->ChangeTerm(later);
  loop_->OnMessage(stream, HeaderOf("job", 1), AssignmentAck{});
  ASSERT_TRUE(stream->WaitFor<Start>());
  EXPECT_EQ(stream->headers().back().term, later);
}

// The leader key was written again while the jobs were still being read. Fails if Lead() replaces a
// later term.
TEST_F(JobLoopSeveralTest, ALaterTermThatCameBeforeTheJobsIsKept) {
  const Term later{7, 105};
  loop_->ChangeTerm(later);
  Lead();
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  EXPECT_THAT(stream->headers(), Each(Field(&Header::term, later)));
}

// Fails if Lead() does not tell the jobs about the restored etcd.
TEST_F(JobLoopSeveralTest, WhereEtcdWasRestoredNothingFormsWithinTheHold) {
  Begin({.leases = true});
  validity_.SetUntil(TimePoint::max());
  loop_->Lead({kTerm, std::chrono::steady_clock::now() + std::chrono::hours(1), true}, {});
  const auto stream = Joined("job", 1);
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{});
  ASSERT_TRUE(stream->WaitFor<HeartbeatAck>());
  EXPECT_EQ(stream->sent().size(), 1u);
}

TEST_F(JobLoopTest, WhoIsAloneHasNoTerm) {
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  EXPECT_THAT(stream->headers(), Each(Field(&Header::term, Term{})));
}

// Seen red with an Outboxes that sends without validity.
TEST_F(JobLoopSeveralTest, AfterValidityNothingIsAcknowledgedAndAllElseWaitsInOrder) {
  Lead();
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  LoseValidity();
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{1, {}});
  loop_->OnMessage(stream, HeaderOf("job", 1), AssignmentAck{});
  ASSERT_TRUE(stream->WaitForRequests(4));
  const auto other = Joined("other job", 2);  // a Join is accepted, and answered later
  ASSERT_TRUE(other->WaitForRequests(2));
  EXPECT_EQ(stream->sent().size(), 1u);
  EXPECT_THAT(other->sent(), IsEmpty());

  loop_->ChangeTerm({7, 101});
  RegainValidity();
  ASSERT_TRUE(stream->WaitFor<Start>());
  EXPECT_THAT(stream->sent(),
              ElementsAre(VariantWith<Assignment>(testing::_), VariantWith<Start>(testing::_)));
  EXPECT_TRUE(other->WaitFor<Assignment>());
  loop_->OnMessage(stream, HeaderOf("job", 1), Heartbeat{2, {}});
  ASSERT_TRUE(stream->WaitFor<HeartbeatAck>());
  EXPECT_EQ(stream->headers().back().term, (Term{7, 101}));
}

TEST_F(JobLoopSeveralTest, AfterValidityOperatorsAreRefusedUntilItHoldsAgain) {
  Lead();
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  EXPECT_TRUE(Status().ok());
  LoseValidity();
  const absl::Status why = Status().status();
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(why.message()), HasSubstr("etcd has not confirmed it"));
  EXPECT_EQ(ReportGone(), why) << "another leader has to hear of it";
  RegainValidity();
  EXPECT_TRUE(Status().ok());
  EXPECT_TRUE(ReportGone().ok());
}

// Keeps the text that it gets.
class Reader final : public LogReader {
 public:
  void OnText(const LogSource&, std::string text) override { Add(text); }
  void OnAbout(const LogSource&, std::string) override {}
  void OnSourceEnd(const LogSource&, std::string) override {}
  void OnEnd(absl::Status) override { Add("end"); }

  std::string said() const {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  bool WaitForText() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestDeadline, [this] { return !said_.empty(); });
  }

 private:
  void Add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    said_ += text;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string said_;
};

// Fails if pieces or orders are passed on without validity.
TEST_F(JobLoopSeveralTest, AfterValidityNoLogIsOrderedOrPassedOnUntilItHoldsAgain) {
  Lead();
  const auto stream = Open();
  Join join = JoinOf("n1", 1);
  join.log_folder = "/logs";
  loop_->OnMessage(stream, HeaderOf("job", 1, -1), join);
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  loop_->OnMessage(stream, HeaderOf("job", 1), AssignmentAck{});
  ASSERT_TRUE(stream->WaitFor<Start>());
  const auto reader = std::make_shared<Reader>();
  const LogReadId id = loop_->NewLogReadId();
  LogRequest request;
  request.job = "job";
  request.ranks = {Rank{0}};
  request.streams = LogStreams::kStdout;
  loop_->ReadLogs(id, "", request, reader);
  ASSERT_TRUE(stream->WaitFor<LogOrder>());
  const std::size_t orders = stream->sent().size();
  const LogReadingId reading = std::get<LogOrder>(stream->sent().back()).reading;
  LoseValidity();
  loop_->OnMessage(stream, HeaderOf("job", 1), LogPiece{reading, "hello\n"});
  ASSERT_TRUE(stream->WaitForRequests(4));
  loop_->CancelLogs(id);        // an order to the agent, after the piece
  EXPECT_FALSE(Status().ok());  // all this was handled
  EXPECT_EQ(reader->said(), "");
  EXPECT_EQ(stream->sent().size(), orders);
  RegainValidity();
  ASSERT_TRUE(reader->WaitForText());
  EXPECT_EQ(reader->said(), "hello\n");
  EXPECT_TRUE(Status().ok());  // all this was handled
  EXPECT_GT(stream->sent().size(), orders);
}

TEST_F(JobLoopSeveralTest, AShutdownWithoutValiditySaysNothingMore) {
  Lead();
  const auto stream = Joined("job", 1);
  ASSERT_TRUE(stream->WaitFor<Assignment>());
  LoseValidity();
  loop_->OnMessage(stream, HeaderOf("job", 1), AssignmentAck{});
  loop_->Shutdown();
  EXPECT_EQ(stream->WaitForClose().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream->sent().size(), 1u);
}

}  // namespace job_loop_several_test
}  // namespace ddprun
