// Tests LeadershipLoop with an etcd in memory.
#include "rendezvous/service/leadership/leadership_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

#include "rendezvous/service/leadership/leader_record_proto.h"
#include "worker/contract/task_queue.h"

namespace ddprun {
namespace leadership_loop_test {

using std::chrono::milliseconds;
using Role = Leading::Role;

constexpr std::chrono::seconds kHang{60};
constexpr char kKey[] = "/ddprun/leader";

// One member, which answers or does not, as the mode says.
class FakeEtcd final : public etcd::Client {
 public:
  enum class Mode { kAnswers, kSilent, kWritesSilently, kRefuses, kRefusesWrites, kFull };

  void Set(Mode mode) {
    const std::lock_guard lock(mutex_);
    mode_ = mode;
  }
  std::optional<LeaderRecord> record() {
    const std::lock_guard lock(mutex_);
    return value_ ? DecodeLeaderRecord(*value_) : std::nullopt;
  }
  // Another value at the same revision: by chance, after etcd was emptied. Watches do not report
  // it.
  void Replace(const LeaderRecord& record) {
    const std::lock_guard lock(mutex_);
    value_ = EncodeLeaderRecord(record);
  }
  // Writes like another rendezvous.
  void Write(const LeaderRecord& record) {
    const std::lock_guard lock(mutex_);
    Put(EncodeLeaderRecord(record));
  }

  absl::StatusOr<etcd::Answer> Transact(const std::vector<etcd::Guard>& guards,
                                        const std::vector<etcd::Write>& writes,
                                        const std::vector<std::string>& reads,
                                        std::chrono::milliseconds) override {
    const std::lock_guard lock(mutex_);
    if (mode_ == Mode::kSilent) return absl::UnknownError("no answer");
    if (mode_ == Mode::kRefuses) return absl::UnauthenticatedError("a wrong password");
    if (mode_ == Mode::kRefusesWrites && !writes.empty()) {
      return absl::PermissionDeniedError("it may only read");
    }
    if (mode_ == Mode::kFull && !writes.empty()) return absl::UnknownError("NOSPACE");
    etcd::Answer answer;
    answer.guarded = guards.empty() || Holds(guards.front());
    if (answer.guarded && !writes.empty()) Put(*writes.front().value);
    answer.cluster = kCluster;
    answer.revision = revision_;
    if (mode_ == Mode::kWritesSilently && !writes.empty()) {
      mode_ = Mode::kAnswers;
      return absl::UnknownError("no answer");
    }
    if (!reads.empty() && value_) answer.found.push_back({kKey, *value_, modified_});
    return answer;
  }
  absl::StatusOr<etcd::Answer> List(const std::string&, bool, std::chrono::milliseconds) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<etcd::MemberStatus> Ask(const std::string&, std::chrono::milliseconds) override {
    return absl::UnimplementedError("");
  }
  std::unique_ptr<etcd::Watch> WatchKey(const std::string&,
                                        etcd::Watch::OnChange on_change) override {
    const std::lock_guard lock(mutex_);
    on_change_ = std::move(on_change);
    return std::make_unique<Watching>(this);
  }

  static constexpr std::uint64_t kCluster = 7;

 private:
  struct Watching final : etcd::Watch {
    explicit Watching(FakeEtcd* owner) : etcd(owner) {}
    ~Watching() override {
      const std::lock_guard lock(etcd->mutex_);
      etcd->on_change_ = nullptr;
    }
    FakeEtcd* const etcd;
  };

  bool Holds(const etcd::Guard& guard) const {
    return guard.mod_revision == modified_ && (!guard.value || guard.value == value_);
  }

  void Put(std::string value) {
    value_ = std::move(value);
    modified_ = ++revision_;
    if (on_change_) on_change_({kCluster, modified_, value_});
  }

  std::mutex mutex_;
  // Guarded by mutex_.
  Mode mode_ = Mode::kAnswers;
  std::optional<std::string> value_;
  std::uint64_t modified_ = 0;
  std::uint64_t revision_ = 10;
  etcd::Watch::OnChange on_change_;
};

// Seen red with a guard on the revision alone.
TEST(LeaderKeyTest, AnEmptiedEtcdWithTheSameRevisionTakesNoLeader) {
  FakeEtcd etcd;
  const LeaderKey key(&etcd, kKey);
  etcd.Write({"other", "h2:29400"});
  const auto seen = key.Read();
  ASSERT_TRUE(seen.ok()) << seen.status();
  etcd.Replace({"new", "h3:29400"});
  const auto put = key.Put({seen->revision, {"me", "h1:29400"}, seen->cluster});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->taken);
  EXPECT_EQ(etcd.record()->id, "new");
}

// Seen red without HasLeft(): the guard held in the new cluster, too.
TEST(LeaderKeyTest, NothingIsWrittenToAClusterThatEtcdHasLeft) {
  FakeEtcd etcd;
  const LeaderKey key(&etcd, kKey);
  etcd.Write({"other", "h2:29400"});
  const auto seen = key.Read();
  ASSERT_TRUE(seen.ok()) << seen.status();
  const auto put = key.Put({seen->revision, {"me", "h1:29400"}, seen->cluster + 1});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->taken);
  EXPECT_EQ(etcd.record()->id, "other");
}

class LeadershipLoopTest : public testing::Test {
 protected:
  ~LeadershipLoopTest() override {
    if (loop_ != nullptr) loop_->Stop();
    writes_.Wait();
  }

  void Start() {
    LeadershipLoop::Options options;
    options.leadership.id = "me";
    options.leadership.endpoint = "h1:29400";
    options.leadership.validity = milliseconds(1000);
    options.leadership.renew_every = milliseconds(100);
    options.board = board_;
    options.validity = &validity_;
    options.key = &key_;
    options.to_peers = &grpc::InsecureChannelCredentials;
    LeadershipLoop::Effects effects;
    effects.in_order = [this](std::function<void()> task) { writes_.Post(std::move(task)); };
    effects.set_writer = [this](Term term) { Note([&] { writer_ = term; }); };
    effects.lead = [this](Term term, Duration hold, bool) {
      absl::Status status;
      Note([&] {
        led_ = term;
        hold_ = hold;
        status = std::exchange(lead_fails_, absl::OkStatus());
      });
      return status;
    };
    effects.change_term = [](Term) {};
    effects.on_valid = [this] { Note([&] { ++valid_again_; }); };
    effects.set_leader = [this](const std::string& leader) {
      Note([&] {
        leader_ = leader;
        valid_under_[leader] = validity_.Holds();
      });
    };
    effects.step_down = [this](const Leadership::StepDown& down) { Note([&] { down_ = down; }); };
    effects.cannot_lead = [this](const absl::Status& why) { Note([&] { cannot_ = why; }); };
    effects.log = [this](std::string_view text) { Note([&] { log_.emplace_back(text); }); };
    loop_ = std::make_unique<LeadershipLoop>(std::move(options), std::move(effects));
    loop_->Start();
  }
  // Waits until the condition holds.
  bool WaitFor(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kHang, holds);
  }
  bool WaitForRole(Role role) {
    const auto until = std::chrono::steady_clock::now() + kHang;
    while (board_->Get().role != role) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(milliseconds(1));  // looks again
    }
    return true;
  }
  void Note(const std::function<void()>& what) {
    const std::lock_guard lock(mutex_);
    what();
    changed_.notify_all();
  }

  FakeEtcd etcd_;
  LeaderKey key_{&etcd_, kKey};
  Validity validity_;
  std::shared_ptr<LeaderBoard> board_ = std::make_shared<LeaderBoard>(&validity_);
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::optional<Term> writer_;
  std::optional<Term> led_;
  Duration hold_{};
  int valid_again_ = 0;
  std::string leader_;
  // Whether this process's validity held when it learned of this leader.
  std::map<std::string, bool> valid_under_;
  std::optional<Leadership::StepDown> down_;
  absl::Status lead_fails_;
  absl::Status cannot_;
  std::vector<std::string> log_;

  std::unique_ptr<LeadershipLoop> loop_;
  TaskQueue writes_{"test-writes"};
};

TEST_F(LeadershipLoopTest, WhereNobodyLeadsItLeads) {
  Start();
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  EXPECT_TRUE(validity_.Holds());
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(led_, (Term{FakeEtcd::kCluster, 11}));
  EXPECT_EQ(writer_, led_);
  EXPECT_EQ(etcd_.record()->id, "me");
}

TEST_F(LeadershipLoopTest, StandsByWhereAnotherOneLeads) {
  etcd_.Write({"other", "127.0.0.1:1", milliseconds(1000), milliseconds(3'000'000), false});
  Start();
  ASSERT_TRUE(WaitFor([&] { return valid_under_.contains("127.0.0.1:1"); }));
  // Nobody listens there: the process is gone.
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(valid_under_.at("127.0.0.1:1"));
  EXPECT_GT(hold_, milliseconds(3'000'000)) << "the longest of those before, and a tenth";
}

// Validity lasts as long as etcd answers renewals, and comes back with the first answer.
TEST_F(LeadershipLoopTest, WhatEtcdDoesNotConfirmEnds) {
  Start();
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  etcd_.Set(FakeEtcd::Mode::kSilent);
  ASSERT_TRUE(WaitForRole(Role::kSilenced));
  EXPECT_FALSE(validity_.Holds());
  etcd_.Set(FakeEtcd::Mode::kAnswers);
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  EXPECT_TRUE(WaitFor([&] { return valid_again_ >= 2; }));
  EXPECT_FALSE(down_.has_value());
}

TEST_F(LeadershipLoopTest, OneThatIsOustedServesNoMore) {
  Start();
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  etcd_.Write({"other", "h2:29400", milliseconds(1000), milliseconds(1000), false});
  ASSERT_TRUE(WaitFor([&] { return down_.has_value(); }));
  EXPECT_FALSE(down_->resigned);
  EXPECT_FALSE(validity_.Holds());
}

TEST_F(LeadershipLoopTest, HandsOverWhenItIsAskedToEnd) {
  Start();
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  loop_->Post(Leadership::EndAsked{});
  ASSERT_TRUE(WaitForRole(Role::kHandsOver));
  EXPECT_FALSE(validity_.Holds());
  ASSERT_TRUE(WaitFor([&] { return down_.has_value(); }));
  EXPECT_TRUE(down_->resigned);
  EXPECT_TRUE(etcd_.record()->resigned);
  loop_->Stop();
  // Seen red when an ended process looked like a standby: sessions of agents would wait there.
  EXPECT_EQ(board_->Get().role, Role::kHandsOver);
}

// Seen red with a role that is published as soon as the leader resigns.
TEST_F(LeadershipLoopTest, TellsThatItHandsOverOnceItsLastWriteIsOver) {
  Start();
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  std::promise<void> written;
  writes_.Post([over = written.get_future().share()] { over.wait(); });
  loop_->Post(Leadership::EndAsked{});
  ASSERT_TRUE(WaitFor([&] { return !validity_.Holds(); }));
  // This wait does not synchronize: the test is that nothing is published meanwhile.
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(board_->Get().role, Role::kLeads);
  written.set_value();
  ASSERT_TRUE(WaitForRole(Role::kHandsOver));
  EXPECT_TRUE(etcd_.record()->resigned);
}

// The store must know its term before its next write, although no answer confirmed the write of the
// key.
TEST_F(LeadershipLoopTest, AWriteOfTheKeyWithoutAnAnswerIsReadBackInOrder) {
  etcd_.Set(FakeEtcd::Mode::kWritesSilently);
  Start();
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(writer_, (Term{FakeEtcd::kCluster, 11}));
  EXPECT_EQ(led_, writer_);
}

TEST_F(LeadershipLoopTest, ReadsTheJobsAgainWhereEtcdDidNotAnswer) {
  lead_fails_ = absl::UnavailableError("no answer");
  Start();
  EXPECT_TRUE(WaitForRole(Role::kLeads));
}

TEST_F(LeadershipLoopTest, SaysThatTheJobsCannotBeRead) {
  lead_fails_ = absl::DataLossError("a key is damaged");
  Start();
  ASSERT_TRUE(WaitFor([&] { return !cannot_.ok(); }));
  EXPECT_TRUE(WaitForRole(Role::kTakesUp));
}

TEST_F(LeadershipLoopTest, WhomEtcdRefusesFromTheStartCannotLead) {
  etcd_.Set(FakeEtcd::Mode::kRefuses);
  Start();
  EXPECT_TRUE(WaitFor([&] { return absl::IsUnauthenticated(cannot_); }));
}

TEST_F(LeadershipLoopTest, WhomEtcdHasLetInOnceWaitsUntilItDoesAgain) {
  Start();
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  etcd_.Set(FakeEtcd::Mode::kRefuses);
  ASSERT_TRUE(WaitForRole(Role::kSilenced));
  etcd_.Set(FakeEtcd::Mode::kAnswers);
  ASSERT_TRUE(WaitForRole(Role::kLeads));
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(cannot_.ok()) << cannot_;
}

TEST_F(LeadershipLoopTest, SaysThatAFullEtcdDoesNotTakeTheLeaderKey) {
  etcd_.Set(FakeEtcd::Mode::kFull);
  Start();
  const auto logged = [this](const std::string& line) {
    return WaitFor([&] { return std::count(log_.begin(), log_.end(), line) == 1; });
  };
  EXPECT_TRUE(logged("cannot lead: etcd does not take the leader key: NOSPACE"));
  etcd_.Set(FakeEtcd::Mode::kAnswers);
  EXPECT_TRUE(logged("etcd takes the leader key again"));
  EXPECT_TRUE(WaitForRole(Role::kLeads));
}

TEST_F(LeadershipLoopTest, WhoMayNotWriteTheLeaderKeyCannotLead) {
  etcd_.Set(FakeEtcd::Mode::kRefusesWrites);
  Start();
  EXPECT_TRUE(WaitFor([&] { return absl::IsPermissionDenied(cannot_); }));
}

}  // namespace leadership_loop_test
}  // namespace ddprun
