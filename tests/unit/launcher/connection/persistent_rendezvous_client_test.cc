#include "launcher/connection/persistent_rendezvous_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/connection/shared_place.h"

namespace ddprun {
namespace persistent_rendezvous_client_test {

using testing::ElementsAre;

constexpr std::chrono::seconds kHang{60};

// The record of one attempt to connect. It outlives the client of the attempt.
struct Attempt {
  Duration limit{};
  TimePoint made_at;
  std::vector<AgentMessage> sent;
  bool closed = false;
  bool abandoned = false;
  RendezvousClient::Handler handler;
  int place = 0;
  bool waits = false;
};

class AttemptClient final : public RendezvousClient {
 public:
  explicit AttemptClient(std::shared_ptr<Attempt> attempt) : attempt_(std::move(attempt)) {}
  void Open(Handler handler) override { attempt_->handler = std::move(handler); }
  void Send(const Header&, const AgentMessage& message) override {
    attempt_->sent.push_back(message);
  }
  void Close() override { attempt_->closed = true; }
  void Abandon() override { attempt_->closed = attempt_->abandoned = true; }

 private:
  const std::shared_ptr<Attempt> attempt_;
};

class PersistentRendezvousClientTest : public testing::Test {
 protected:
  void Open() {
    options_.make_client = [this](int place, Duration limit) {
      attempts_.push_back(std::make_shared<Attempt>());
      attempts_.back()->place = place;
      attempts_.back()->limit = limit;
      attempts_.back()->made_at = EventLoop::Clock::now();
      loop_.Quit();
      return std::make_unique<AttemptClient>(attempts_.back());
    };
    options_.make_waiting = [this](int place) {
      attempts_.push_back(std::make_shared<Attempt>());
      attempts_.back()->place = place;
      attempts_.back()->waits = true;
      return std::make_unique<AttemptClient>(attempts_.back());
    };
    options_.ensure_running = [this](int place) {
      ++ensured_;
      if (ensured_ == wanted_ensured_) loop_.Quit();
      return place == our_place_;
    };
    client_ = std::make_unique<PersistentRendezvousClient>(&loop_, options_);
    client_->Open([this](RendezvousClient::Event event) {
      if (std::holds_alternative<RendezvousClient::Opened>(event)) heard_.push_back("opened");
      if (std::holds_alternative<RendezvousClient::Received>(event)) heard_.push_back("message");
      if (const auto* lost = std::get_if<RendezvousClient::Lost>(&event)) {
        heard_.push_back((lost->denied    ? "denied: "
                          : lost->refused ? "refused: "
                                          : "lost: ") +
                         lost->reason);
      }
      loop_.Quit();
    });
    loop_.Run();  // returns at once: an attempt was made
  }
  // Waits until the next attempt or the next event for the agent.
  void Run() {
    const auto hang = loop_.AddTimer(EventLoop::Clock::now() + kHang, [this] {
      ADD_FAILURE() << "nothing happens";
      loop_.Quit();
    });
    loop_.Run();
    loop_.CancelTimer(hang);
  }
  void Say(RendezvousClient::Event event) {
    attempts_.back()->handler(std::move(event));
    Run();
  }
  // Loses the session or the attempt, and waits for the next one.
  void LoseAndRetry(bool refused = false) {
    Say(RendezvousClient::Lost{"gone", refused, {}});
    Run();
  }

  EventLoop loop_;
  PersistentRendezvousClient::Options options_;
  std::vector<std::shared_ptr<Attempt>> attempts_;
  int ensured_ = 0;
  int wanted_ensured_ = -1;
  int our_place_ = -1;
  std::vector<std::string> heard_;
  std::unique_ptr<PersistentRendezvousClient> client_;
};

TEST_F(PersistentRendezvousClientTest, EverySessionAndEveryFailedAttemptIsTheAgentsToKnow) {
  Open();
  LoseAndRetry(/*refused=*/true);
  Say(RendezvousClient::Opened{});
  Say(RendezvousClient::Received{{}, Start{}});
  LoseAndRetry();
  Say(RendezvousClient::Opened{});
  EXPECT_THAT(heard_, ElementsAre("refused: gone", "opened", "message", "lost: gone", "opened"));
  ASSERT_EQ(attempts_.size(), 3u);
  EXPECT_TRUE(attempts_[0]->closed);
  EXPECT_TRUE(attempts_[1]->closed);
  EXPECT_FALSE(attempts_[2]->closed);
}

TEST_F(PersistentRendezvousClientTest, EveryPlaceIsTriedUntilOneSpeaksAndItIsKept) {
  options_.places = 3;
  SharedPlace heard_at;
  options_.heard_at = [&](int place) { heard_at.Set(place); };
  Open();
  LoseAndRetry(/*refused=*/true);
  LoseAndRetry();
  LoseAndRetry();
  LoseAndRetry();
  Say(RendezvousClient::Opened{});
  Say(RendezvousClient::Received{{}, Waiting{}});
  LoseAndRetry();
  LoseAndRetry(/*refused=*/true);
  std::vector<int> places;
  for (const auto& attempt : attempts_) places.push_back(attempt->place);
  EXPECT_THAT(places, ElementsAre(0, 1, 2, 0, 1, 1, 1));
  EXPECT_EQ(heard_at.Get(), 1);
}

TEST(SharedPlaceTest, AForkedProcessSeesWhatIsSetLater) {
  SharedPlace place;
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    const bool told = read(go[0], &byte, 1) == 1;
    _exit(told ? place.Get() : 100);
  }
  place.Set(3);
  EXPECT_EQ(write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  close(go[0]);
  close(go[1]);
}

TEST_F(PersistentRendezvousClientTest, PlaceWhereItRunsAsOurChildIsWaitedFor) {
  options_.places = 3;
  our_place_ = 1;
  Open();
  LoseAndRetry();
  LoseAndRetry(/*refused=*/true);
  LoseAndRetry(/*refused=*/true);
  EXPECT_EQ(attempts_.back()->place, 1);
}

TEST_F(PersistentRendezvousClientTest, OnlyWhoIsDeniedEverywhereIsDenied) {
  options_.places = 2;
  Open();
  const auto past_patience = loop_.AddTimer(
      EventLoop::Clock::now() + std::chrono::milliseconds(600), [this] { loop_.Quit(); });
  loop_.Run();
  loop_.CancelTimer(past_patience);
  RendezvousClient::Lost denied{"no", false, {}};
  denied.denied = true;
  Say(denied);
  Run();
  Say(denied);
  EXPECT_THAT(heard_, ElementsAre("lost: no", "denied: no"));
}

// A daemon that was started again has a new token. The client still had the old one.
TEST_F(PersistentRendezvousClientTest, ADenialOfOutdatedCredentialsIsNone) {
  bool outdated = true;
  options_.credentials_outdated = [&outdated](int) { return outdated; };
  Open();
  Say(RendezvousClient::Opened{});
  Say(RendezvousClient::Received{{}, Start{}});
  const auto past_patience = loop_.AddTimer(
      EventLoop::Clock::now() + std::chrono::milliseconds(600), [this] { loop_.Quit(); });
  loop_.Run();
  loop_.CancelTimer(past_patience);
  RendezvousClient::Lost denied{"no", false, {}};
  denied.denied = true;
  Say(denied);
  Run();
  outdated = false;
  Say(denied);
  EXPECT_THAT(heard_, ElementsAre("opened", "message", "lost: no", "denied: no"));
}

TEST_F(PersistentRendezvousClientTest, WhatIsDeniedEverywhereIsNotTriedElsewhere) {
  options_.places = 4;
  Open();
  RendezvousClient::Lost denied{"munged is away", false, {}};
  denied.denied = denied.denied_everywhere = true;
  const auto begin = EventLoop::Clock::now();
  // The client has patience with a munged that is just starting. Ends when the patience is over.
  while (heard_.empty() || heard_.back() != "denied: munged is away") {
    Say(denied);
    EXPECT_EQ(attempts_.back()->place, 0);
    if (heard_.back() != "denied: munged is away") Run();
    ASSERT_LT(EventLoop::Clock::now() - begin, kHang);
  }
}

TEST_F(PersistentRendezvousClientTest, WhatIsSentWithoutASessionIsDropped) {
  Open();
  client_->Send({}, Join{});
  EXPECT_TRUE(attempts_[0]->sent.empty());
  Say(RendezvousClient::Opened{});
  client_->Send({}, AssignmentAck{});
  LoseAndRetry();
  client_->Send({}, Leave{});
  Say(RendezvousClient::Opened{});
  client_->Send({}, Join{});
  EXPECT_THAT(attempts_[0]->sent, ElementsAre(AgentMessage(AssignmentAck{})));
  EXPECT_THAT(attempts_[1]->sent, ElementsAre(AgentMessage(Join{})));
}

TEST_F(PersistentRendezvousClientTest, AttemptsComeAtLeastAsOftenAsTheLongestBackoffSays) {
  options_.timing.first_backoff = std::chrono::milliseconds(4);
  options_.timing.longest_backoff = std::chrono::milliseconds(16);
  Open();
  std::vector<Duration> gaps;
  for (int i = 0; i < 8; ++i) {
    LoseAndRetry(/*refused=*/true);
    gaps.push_back(attempts_.back()->made_at - attempts_[attempts_.size() - 2]->made_at);
  }
  EXPECT_GE(gaps[0], std::chrono::milliseconds(2)) << "half of the first";
  for (std::size_t i = 3; i < gaps.size(); ++i) {
    EXPECT_GE(gaps[i], std::chrono::milliseconds(8)) << "half of the longest";
  }
  EXPECT_EQ(std::set<Duration>(gaps.begin(), gaps.end()).size(), gaps.size()) << "jitter";
}

TEST_F(PersistentRendezvousClientTest, AttemptsAreLongAtFirstShortAfterASessionAndLongerInSilence) {
  Open();
  EXPECT_EQ(attempts_.back()->limit, std::chrono::seconds(10));
  Say(RendezvousClient::Opened{});
  Say(RendezvousClient::Received{{}, Start{}});
  LoseAndRetry(/*refused=*/true);
  EXPECT_EQ(attempts_.back()->limit, std::chrono::seconds(1));
  LoseAndRetry(/*refused=*/true);
  EXPECT_EQ(attempts_.back()->limit, std::chrono::seconds(1));
  LoseAndRetry();
  EXPECT_EQ(attempts_.back()->limit, std::chrono::seconds(2));
}

TEST_F(PersistentRendezvousClientTest, HasTheRendezvousRunAgainWhileNothingIsHeard) {
  wanted_ensured_ = 3;
  Open();
  EXPECT_EQ(ensured_, 1) << "before the first attempt";
  Run();
  EXPECT_EQ(ensured_, 3);
  EXPECT_EQ(attempts_.size(), 1u) << "an attempt that goes on is left alone";
}

TEST_F(PersistentRendezvousClientTest, HasTheRendezvousRunAgainWhenItIsGone) {
  Open();
  Say(RendezvousClient::Opened{});
  Say(RendezvousClient::Received{{}, Start{}});
  const int before = ensured_;
  LoseAndRetry();
  EXPECT_EQ(ensured_, before + 1);
}

// The client knows several rendezvous, and one of them leads.
class LeaderOfSeveralTest : public PersistentRendezvousClientTest {
 protected:
  LeaderOfSeveralTest() {
    options_.places = 3;
    options_.several = true;
    // No test may pass only because a pause has ended: the pauses are longer than a test.
    options_.timing.first_backoff = options_.timing.longest_backoff = 2 * kHang;
  }
  void Lead(std::optional<int> place) {
    const std::size_t before = attempts_.size();
    client_->Lead(place, "another one leads");
    if (attempts_.size() > before) loop_.Run();  // returns at once: an attempt was made
  }
  // Runs the loop until everything posted before is done.
  void Settle() {
    loop_.Post([this] { loop_.Quit(); });
    loop_.Run();
  }
  // The rendezvous at `place` leads now, and a session waits there: the agent hears of it at once.
  void LeadAt(int place) {
    client_->Lead(place, "another one leads");
    loop_.Run();  // returns at once
  }
  void Accept(const std::shared_ptr<Attempt>& waiting) {
    waiting->handler(RendezvousClient::Opened{});
    Settle();
  }
  void Serve() {
    Say(RendezvousClient::Opened{});
    Say(RendezvousClient::Received{{}, HeartbeatAck{}});
  }
};

TEST_F(LeaderOfSeveralTest, ASessionElsewhereIsDroppedForOneWithTheLeader) {
  Open();
  Serve();
  const auto before = attempts_.back();
  Lead(2);
  ASSERT_EQ(attempts_.size(), 2u) << "at once";
  EXPECT_EQ(attempts_.back()->place, 2);
  EXPECT_TRUE(before->abandoned) << "its end must not wait for a network that may be gone";
  EXPECT_THAT(heard_, ElementsAre("opened", "message", "lost: another one leads"));
  client_->Send({}, Join{});
  before->handler(RendezvousClient::Received{{}, Start{}});
  before->handler(RendezvousClient::Lost{"late"});
  Serve();
  EXPECT_THAT(heard_,
              ElementsAre("opened", "message", "lost: another one leads", "opened", "message"));
  EXPECT_TRUE(before->sent.empty());
}

// The number of the place stays the same. make_client knows the new address.
TEST_F(LeaderOfSeveralTest, APlaceThatMovesIsFollowedAtOnce) {
  options_.places = 1;
  Open();
  Serve();
  const auto before = attempts_.back();
  client_->Move("it is elsewhere");
  loop_.Run();  // returns at once: an attempt was made
  ASSERT_EQ(attempts_.size(), 2u);
  EXPECT_TRUE(before->abandoned);
  EXPECT_THAT(heard_, ElementsAre("opened", "message", "lost: it is elsewhere"));
  Say(RendezvousClient::Lost{"gone"});
  client_->Move("it is elsewhere again");
  loop_.Run();
  ASSERT_EQ(attempts_.size(), 3u) << "the pause is cut short";
  EXPECT_THAT(heard_, ElementsAre("opened", "message", "lost: it is elsewhere", "lost: gone"));
}

TEST_F(LeaderOfSeveralTest, WhatIsLostIsToldBeforeTheAgentHearsIt) {
  options_.lost = [this](const RendezvousClient::Lost& lost) {
    heard_.push_back(lost.refused ? "told: refused" : "told");
  };
  Open();
  Say(RendezvousClient::Lost{"gone", /*refused=*/true, {}});
  EXPECT_THAT(heard_, ElementsAre("told: refused", "refused: gone"));
}

TEST_F(LeaderOfSeveralTest, ThePauseAfterALossIsCutShort) {
  Open();
  Serve();
  Say(RendezvousClient::Lost{"gone"});
  Lead(std::nullopt);
  ASSERT_EQ(attempts_.size(), 1u);
  Lead(1);
  ASSERT_EQ(attempts_.size(), 2u);
  EXPECT_EQ(attempts_.back()->place, 1);
  EXPECT_THAT(heard_, ElementsAre("opened", "message", "lost: gone")) << "lost once";
}

TEST_F(LeaderOfSeveralTest, ALeaderThatIsThereAlreadyIsLeftAlone) {
  Open();
  Serve();
  Lead(0);
  Lead(0);
  EXPECT_EQ(attempts_.size(), 1u);
  EXPECT_FALSE(attempts_.back()->closed);
}

// The rendezvous refused the attempt while it stood by, and leads now.
TEST_F(LeaderOfSeveralTest, AnAttemptThatWasTooEarlyIsRepeatedAtOnceButOnce) {
  Open();
  Lead(0);
  LoseAndRetry();
  ASSERT_EQ(attempts_.size(), 2u);
  EXPECT_EQ(attempts_.back()->place, 0);
  Say(RendezvousClient::Lost{"stands by"});
  EXPECT_EQ(attempts_.size(), 2u) << "a leader that refuses is not asked in a loop";
}

// Break: make a new client for the leader.
TEST_F(LeaderOfSeveralTest, TheSessionThatWaitsWithTheNextLeaderIsUsed) {
  Open();
  Serve();
  client_->StandBy(1);
  client_->StandBy(1);
  client_->StandBy(2);
  ASSERT_EQ(attempts_.size(), 3u) << "one at each place";
  Accept(attempts_[1]);
  EXPECT_THAT(heard_, ElementsAre("opened", "message")) << "the agent hears nothing of it yet";
  LeadAt(1);
  EXPECT_EQ(attempts_.size(), 3u);
  EXPECT_TRUE(attempts_[0]->abandoned);
  EXPECT_FALSE(attempts_[1]->closed);
  client_->Send({}, Join{});
  EXPECT_THAT(attempts_[1]->sent, ElementsAre(AgentMessage(Join{})));
  attempts_[1]->handler(RendezvousClient::Received{{}, HeartbeatAck{}});
  Run();
  EXPECT_THAT(heard_,
              ElementsAre("opened", "message", "lost: another one leads", "opened", "message"));
}

// The client sees the end of the old leader first, and then the new leader.
TEST_F(LeaderOfSeveralTest, ThePauseAfterALossEndsWithTheSessionThatWaits) {
  Open();
  Serve();
  client_->StandBy(1);
  Accept(attempts_[1]);
  attempts_[0]->handler(RendezvousClient::Lost{"gone"});
  Run();
  LeadAt(1);
  EXPECT_EQ(attempts_.size(), 2u);
  EXPECT_THAT(heard_, ElementsAre("opened", "message", "lost: gone", "opened"));
}

TEST_F(LeaderOfSeveralTest, ASessionThatIsNotAcceptedYetIsNotWaitedFor) {
  Open();
  Serve();
  client_->StandBy(1);
  Lead(1);
  ASSERT_EQ(attempts_.size(), 3u);
  EXPECT_TRUE(attempts_[1]->abandoned);
  EXPECT_EQ(attempts_[2]->place, 1);
  EXPECT_FALSE(attempts_[2]->waits);
}

// The waiting session had ended before its rendezvous took over, but the agent did not know it yet.
TEST_F(LeaderOfSeveralTest, AUsedSessionThatHadEndedIsReplacedAtOnce) {
  Open();
  Serve();
  client_->StandBy(1);
  Accept(attempts_[1]);
  LeadAt(1);
  attempts_[1]->handler(RendezvousClient::Lost{"gone"});
  Run();
  Run();
  ASSERT_EQ(attempts_.size(), 3u);
  EXPECT_EQ(attempts_[2]->place, 1);
}

// A rendezvous of an earlier version refuses sessions that wait. The client tries again when this
// rendezvous says again that it stands by.
TEST_F(LeaderOfSeveralTest, ASessionThatIsRefusedIsForgotten) {
  Open();
  Serve();
  client_->StandBy(1);
  attempts_[1]->handler(RendezvousClient::Lost{"stands by"});
  Settle();
  EXPECT_TRUE(attempts_[1]->closed);
  EXPECT_EQ(attempts_.size(), 2u);
  EXPECT_THAT(heard_, ElementsAre("opened", "message"));
  client_->StandBy(1);
  EXPECT_EQ(attempts_.size(), 3u);
}

TEST_F(LeaderOfSeveralTest, CloseEndsTheSessionsThatWait) {
  Open();
  Serve();
  client_->StandBy(1);
  client_->Close();
  EXPECT_TRUE(attempts_[1]->closed);
  client_->StandBy(2);
  EXPECT_EQ(attempts_.size(), 2u);
}

TEST_F(LeaderOfSeveralTest, NobodyIsLedAfterClose) {
  Open();
  Serve();
  client_->Close();
  Lead(2);
  EXPECT_EQ(attempts_.size(), 1u);
  EXPECT_EQ(heard_.size(), 2u);
}

TEST_F(PersistentRendezvousClientTest, NothingIsHeardAfterClose) {
  Open();
  client_->Close();
  EXPECT_TRUE(attempts_[0]->closed);
  attempts_[0]->handler(RendezvousClient::Lost{"late"});
  loop_.Post([this] { loop_.Quit(); });
  Run();
  EXPECT_TRUE(heard_.empty());
}

}  // namespace persistent_rendezvous_client_test
}  // namespace ddprun
