#include "worker/src/peers/rank_failure_detector.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "worker/contract/unique_fd.h"
#include "worker/src/base/peer_crypto.h"
#include "worker/src/peers/activity.h"
#include "worker/src/peers/peer_report.h"

namespace ddp::internal {
namespace rank_failure_detector_test {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using State = PeerReport::State;

PeerReport Doing(const std::string& what, int ms = 1200) {
  return {State::kAnswered, what, milliseconds(ms)};
}

TEST(NameTheCauseTest, NamesWhoIsNotWithTheRankThatAsks) {
  const std::string backward = "is in backward of step 3";
  EXPECT_EQ(NameTheCause({Doing(backward), Doing("has not begun backward of step 3"),
                          Doing(backward), Doing(backward)},
                         2),
            "Rank 1 has not begun backward of step 3 (for 1.2 s). Rank 2 is in backward of step 3 "
            "(for 1.2 s), and so are 2 others.");
  EXPECT_EQ(NameTheCause({Doing(backward), Doing(backward)}, 0),
            "Rank 0 is in backward of step 3 (for 1.2 s), and so is 1 other.");
}

TEST(NameTheCauseTest, WhatIsKnownForSureComesFirst) {
  EXPECT_EQ(NameTheCause({Doing("is in barrier"),
                          {State::kSilent, "", {}},
                          {State::kEnded, "", {}},
                          {State::kFailed, "no such file", {}},
                          {State::kLeft, "", {}},
                          {State::kEnded, "", {}},
                          {State::kEnded, "", {}}},
                         0),
            "Rank 3 failed: no such file. Ranks 2, 5 and 6 have ended without a word, as after a "
            "signal. Rank 4 has finished and left. Rank 1 does not answer: stopped, or cut off. "
            "Rank 0 is in barrier (for 1.2 s).");
}

TEST(NameTheCauseTest, NamesEightAndCountsTheRest) {
  std::vector<PeerReport> ranks(100);
  ranks[0] = Doing("is in barrier");
  EXPECT_THAT(NameTheCause(ranks, 0),
              ::testing::StartsWith("Ranks 1, 2, 3, 4, 5, 6, 7, 8 and 91 more do not answer"));
  for (PeerReport& rank : ranks) rank = {State::kFailed, "x", {}};
  EXPECT_LT(NameTheCause(ranks, 0).size(), kMaxPeerLine);
}

// A job inside this process. Ranks that have ended are null.
struct Job {
  explicit Job(int size) : what(static_cast<std::size_t>(size), "is in barrier") {
    peers.push_back(std::make_unique<RankFailureDetector>(size, Where(0)));
    for (int rank = 1; rank < size; ++rank) {
      peers.push_back(std::make_unique<RankFailureDetector>("127.0.0.1", peers[0]->contact(), rank,
                                                            size, Where(rank)));
    }
  }
  RankFailureDetector::Where Where(int rank) {
    return [this, rank] { return Activity{what[static_cast<std::size_t>(rank)], {}}; };
  }
  std::vector<std::string> what;
  std::vector<std::unique_ptr<RankFailureDetector>> peers;
};

TEST(RankFailureDetectorTest, EveryRankGetsTheSameAnswerAtOnce) {
  Job job(4);
  job.what[1] = "has not begun backward of step 7";
  const std::string expected =
      "Rank 1 has not begun backward of step 7 (for 0.0 s). Rank 3 is in barrier (for 0.0 s), and "
      "so are 2 others.";
  const auto start = steady_clock::now();
  EXPECT_EQ(job.peers[3]->Ask(), expected);
  for (const auto& rank : job.peers) EXPECT_EQ(rank->Ask(), expected);
  EXPECT_LT(steady_clock::now() - start, kPeerPatience) << "all have answered";
}

TEST(RankFailureDetectorTest, RankZeroCanAskToo) {
  Job job(2);
  EXPECT_EQ(job.peers[0]->Ask(), "Rank 0 is in barrier (for 0.0 s), and so is 1 other.");
}

TEST(RankFailureDetectorTest, KnowsWhoFailedAndWithWhatText) {
  Job job(3);
  job.peers[1]->ReportError("cannot read\nthe data");
  EXPECT_THAT(job.peers[2]->Ask(), ::testing::StartsWith("Rank 1 failed: cannot read the data. "));
}

// Seen red when a line was passed on as it came.
TEST(RankFailureDetectorTest, TextOfAnotherRankHasNoControlCharacters) {
  Job job(3);
  job.peers[1]->ReportError("bad \x1b[2J\xc2\x9b text");
  EXPECT_THAT(job.peers[2]->Ask(), ::testing::StartsWith("Rank 1 failed: bad ?[2J? text. "));
  EXPECT_THAT(job.peers[0]->Ask(), ::testing::StartsWith("Rank 1 failed: bad ?[2J? text. "));
}

TEST(RankFailureDetectorTest, AnErrorOfRankZeroReachesTheOthersBeforeItEnds) {
  Job job(3);
  job.peers[0]->ReportError("out of memory");
  job.peers[0].reset();
  EXPECT_EQ(job.peers[1]->Ask(), "Rank 0 failed: out of memory.");
  EXPECT_EQ(job.peers[2]->Ask(), "Rank 0 failed: out of memory.");
}

TEST(RankFailureDetectorTest, KnowsWhoLeft) {
  Job job(3);
  job.peers[2].reset();
  EXPECT_THAT(job.peers[1]->Ask(), ::testing::StartsWith("Rank 2 has finished and left. "));
  Job other(2);
  other.peers[0].reset();
  EXPECT_EQ(other.peers[1]->Ask(), "Rank 0 has finished and left.");
}

// A rank that sends HELLO and then nothing more: stopped, or dead when its socket closes.
class Mute {
 public:
  explicit Mute(const std::string& contact, const std::string& hello = "")
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const std::size_t space = contact.find(' ');
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(contact.substr(0, space))));
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    Send(hello.empty() ? "HELLO " + contact.substr(space + 1) + " 1\n" : hello);
  }
  void Send(const std::string& text) {
    EXPECT_EQ(send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Blocks until the other side sends or closes; true if it closed.
  bool IsClosed() {
    char byte = 0;
    return recv(fd_.get(), &byte, 1, 0) <= 0;
  }
  std::string ReadLine() {
    std::string line;
    for (char byte = 0; recv(fd_.get(), &byte, 1, 0) == 1 && byte != '\n';) line += byte;
    return line;
  }

 private:
  ddprun::UniqueFd fd_;
};

TEST(RankFailureDetectorTest, ASilentRankIsNamedWhenPatienceIsOver) {
  RankFailureDetector hub(2, [] { return Activity{"is in barrier", {}}; });
  Mute rank1(hub.contact());
  const auto start = steady_clock::now();
  EXPECT_THAT(hub.Ask(), ::testing::StartsWith("Rank 1 does not answer: stopped, or cut off. "));
  EXPECT_GE(steady_clock::now() - start, kPeerPatience);
}

TEST(RankFailureDetectorTest, AClosedConnectionNeedsNoPatience) {
  RankFailureDetector hub(2, [] { return Activity{"is in barrier", {}}; });
  auto rank1 = std::make_unique<Mute>(hub.contact());
  const auto start = steady_clock::now();
  auto answer = std::async(std::launch::async, [&] { return hub.Ask(); });
  EXPECT_EQ(rank1->ReadLine(), "WELCOME");
  EXPECT_EQ(rank1->ReadLine(), "WHERE");
  rank1.reset();
  EXPECT_THAT(answer.get(), ::testing::StartsWith("Rank 1 has ended without a word"));
  EXPECT_LT(steady_clock::now() - start, kPeerPatience);
}

TEST(RankFailureDetectorTest, AMemberWhoseRankZeroIsGoneSaysSo) {
  // A rank 0 that vanishes without BYE: a plain listener.
  ddprun::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  auto welcome = std::async(std::launch::async, [&] {
    ddprun::UniqueFd connection(accept(listener.get(), nullptr, nullptr));
    EXPECT_EQ(send(connection.get(), "WELCOME\n", 8, MSG_NOSIGNAL), 8);
    return connection;
  });
  RankFailureDetector rank1("127.0.0.1", std::to_string(ntohs(address.sin_port)) + " token", 1, 2,
                            [] { return Activity{}; });
  { const ddprun::UniqueFd closed = welcome.get(); }
  EXPECT_EQ(rank1.Ask(), "Rank 0 has ended, or can no longer be reached.");
}

// Waits for the call of on_loss.
struct Watcher {
  explicit Watcher(RankFailureDetector& peers) {
    peers.WatchForLoss([this] { told.set_value(); });
  }
  bool IsTold() { return future.wait_for(std::chrono::seconds(10)) == std::future_status::ready; }
  bool IsToldSoFar() { return future.wait_for(milliseconds(0)) == std::future_status::ready; }
  std::promise<void> told;  // a second call would throw
  std::future<void> future = told.get_future();
};

// Like a restore in a job with NCCL: it watches without a call, and the watch that aborts the
// collectives must stay.
TEST(RankFailureDetectorTest, AWatchWithoutACallKeepsTheOneThatIsThere) {
  RankFailureDetector hub(2, [] { return Activity{}; });
  auto rank1 = std::make_unique<Mute>(hub.contact());
  Watcher of_hub(hub);
  hub.WatchForLoss(nullptr);
  EXPECT_EQ(rank1->ReadLine(), "WELCOME");
  rank1.reset();
  EXPECT_TRUE(of_hub.IsTold());
}

// Seen red without LookForLoss(): then a rank learns of the loss only when it asks.
TEST(RankFailureDetectorTest, WhoWatchesIsToldAtOnceThatARankHasEnded) {
  RankFailureDetector hub(3, [] { return Activity{"is in backward of step 3", {}}; });
  auto rank1 = std::make_unique<Mute>(hub.contact());
  RankFailureDetector rank2("127.0.0.1", hub.contact(), 2, 3, [] {
    return Activity{"is in barrier", {}};
  });
  Watcher of_hub(hub);
  Watcher of_rank2(rank2);
  EXPECT_EQ(rank1->ReadLine(), "WELCOME");
  EXPECT_FALSE(of_hub.IsToldSoFar());
  rank1.reset();
  EXPECT_TRUE(of_hub.IsTold());
  EXPECT_TRUE(of_rank2.IsTold());
  for (RankFailureDetector* const detector : {&hub, &rank2}) {
    EXPECT_THAT(detector->Ask(),
                ::testing::StartsWith("Rank 1 has ended without a word, as after a signal. "));
  }
}

TEST(RankFailureDetectorTest, WhoWatchesIsToldOfAnErrorAndOfNoLeave) {
  Job job(4);
  Watcher of_rank0(*job.peers[0]);
  Watcher of_rank3(*job.peers[3]);
  job.peers[2].reset();
  job.peers[1]->ReportError("cannot read the data");
  EXPECT_TRUE(of_rank0.IsTold());
  EXPECT_TRUE(of_rank3.IsTold());
  EXPECT_THAT(
      job.peers[3]->Ask(),
      ::testing::StartsWith("Rank 1 failed: cannot read the data. Rank 2 has finished and left. "));
}

TEST(RankFailureDetectorTest, WhoWatchesIsToldOfTheEndOfRankZeroUnlessItLeft) {
  Job well(2);
  Watcher of_the_well(*well.peers[1]);
  well.peers[0].reset();
  EXPECT_EQ(well.peers[1]->Ask(), "Rank 0 has finished and left.");
  EXPECT_FALSE(of_the_well.IsToldSoFar());
  Job failed(2);
  Watcher of_rank0_itself(*failed.peers[0]);
  Watcher of_the_failed(*failed.peers[1]);
  failed.peers[0]->ReportError("out of memory");
  EXPECT_TRUE(of_the_failed.IsTold());
}

// Rank 1 does not answer a question: this is no loss. Its end afterwards is one.
TEST(RankFailureDetectorTest, WhoWatchesIsToldOfALossThatComesAfterAnAnswer) {
  RankFailureDetector hub(3, [] { return Activity{"is in barrier", {}}; });
  auto rank1 = std::make_unique<Mute>(hub.contact());
  auto rank2 = std::make_unique<RankFailureDetector>("127.0.0.1", hub.contact(), 2, 3, [] {
    return Activity{"is in barrier", {}};
  });
  Watcher of_hub(hub);
  Watcher of_rank2(*rank2);
  EXPECT_THAT(hub.Ask(), ::testing::StartsWith("Rank 1 does not answer"));
  EXPECT_FALSE(of_hub.IsToldSoFar());
  rank1.reset();
  EXPECT_TRUE(of_hub.IsTold());
  EXPECT_TRUE(of_rank2.IsTold());
}

TEST(RankFailureDetectorTest, ConnectionsNoticeAHostThatIsGoneWithoutAWord) {
  // The connected sockets of this process with keepalive, before and with a job of two.
  const auto kept_alive = [] {
    int count = 0;
    for (int fd = 0; fd < 256; ++fd) {
      int on = 0;
      int idle = 0;
      socklen_t size = sizeof(on);
      sockaddr_storage peer = {};
      socklen_t peer_size = sizeof(peer);
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) continue;
      if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) != 0 || on == 0) continue;
      size = sizeof(idle);
      getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size);
      EXPECT_LE(idle, 5) << "seconds";
      ++count;
    }
    return count;
  };
  const int before = kept_alive();
  Job job(2);
  EXPECT_EQ(kept_alive(), before + 2) << "both ends";
}

TEST(RankFailureDetectorTest, WhoWatchesLateIsToldOfWhatWasBefore) {
  RankFailureDetector hub(2, [] { return Activity{"is in barrier", {}}; });
  { const Mute rank1(hub.contact()); }
  EXPECT_THAT(hub.Ask(), ::testing::StartsWith("Rank 1 has ended without a word"));
  Watcher late(hub);
  EXPECT_TRUE(late.IsTold());
  Watcher later(hub);
  EXPECT_TRUE(later.IsToldSoFar());

  RankFailureDetector other(2, [] { return Activity{"is in barrier", {}}; });
  {
    Mute rank1(other.contact());
    EXPECT_EQ(rank1.ReadLine(), "WELCOME");
  }
  Watcher of_other(other);  // independent of whether its thread has seen the end
  EXPECT_TRUE(of_other.IsTold());
}

TEST(RankFailureDetectorTest, StrangersAreCutOff) {
  RankFailureDetector hub(2, [] { return Activity{"is in barrier", {}}; });
  Mute wrong_token(hub.contact(), "HELLO 00000000000000000000000000000000 1\n");
  EXPECT_TRUE(wrong_token.IsClosed());
  const std::string token = hub.contact().substr(hub.contact().find(' ') + 1);
  Mute wrong_rank(hub.contact(), "HELLO " + token + " 2\n");
  EXPECT_TRUE(wrong_rank.IsClosed());
  Mute endless(hub.contact(), std::string(3 * kMaxPeerLine, 'x'));
  EXPECT_TRUE(endless.IsClosed());
  EXPECT_THROW(RankFailureDetector("127.0.0.1", "1 token", 1, 2, [] { return Activity{}; }),
               std::runtime_error);
}

// Seen red when no stranger was ever disconnected.
TEST(RankFailureDetectorTest, StrangersWhoSayNothingTimeOutAndRanksStay) {
  Job job(2);
  const std::string& contact = job.peers[0]->contact();
  const auto start = steady_clock::now();
  // Neither one byte nor a text without a newline is a line.
  Mute slow(contact, "H");
  Mute slower(contact, "HELLO ");
  EXPECT_TRUE(slow.IsClosed());
  EXPECT_TRUE(slower.IsClosed());
  EXPECT_GE(steady_clock::now() - start, kHelloPatience);
  EXPECT_EQ(job.peers[1]->Ask(), "Rank 1 is in barrier (for 0.0 s), and so is 1 other.");
}

// Seen red when a connection that came later was closed instead.
TEST(RankFailureDetectorTest, ManySilentStrangersKeepNoRankOut) {
  const auto where = [] { return Activity{"is in barrier", {}}; };
  RankFailureDetector hub(2, where);
  std::vector<std::unique_ptr<Mute>> strangers;
  for (int i = 0; i < 80; ++i) strangers.push_back(std::make_unique<Mute>(hub.contact(), "H"));
  RankFailureDetector one("127.0.0.1", hub.contact(), 1, 2, where);
  EXPECT_THAT(one.Ask(), ::testing::HasSubstr("and so is 1 other"));
  EXPECT_TRUE(strangers[0]->IsClosed()) << "the oldest makes room";
}

// Seen red with a HandleHello() that does not compare the proof.
TEST(RankFailureDetectorTest, WithASecretOnlyWhoKnowsItIsHeard) {
  const auto where = [] { return Activity{"is in barrier", {}}; };
  RankFailureDetector hub(3, where, "secret");
  const std::string token = hub.contact().substr(hub.contact().find(' ') + 1);
  Mute without(hub.contact(), "HELLO " + token + " 1\n");
  EXPECT_TRUE(without.IsClosed());
  EXPECT_THROW(RankFailureDetector("127.0.0.1", hub.contact(), 1, 3, where, "another"),
               std::runtime_error);
  RankFailureDetector one("127.0.0.1", hub.contact(), 1, 3, where, "secret");
  // A second HELLO of rank 1 is refused although its proof is right, because rank 1 is connected.
  // So an eavesdropper cannot repeat a HELLO.
  const std::string number(32, '0');
  Mute again(hub.contact(), "HELLO " + token + " 1 " + number + " " +
                                Proof("secret", "hello " + token + " 1 " + number) + "\n");
  EXPECT_TRUE(again.IsClosed());
  RankFailureDetector two("127.0.0.1", hub.contact(), 2, 3, where, "secret");
  EXPECT_THAT(two.Ask(), ::testing::HasSubstr("is in barrier (for 0.0 s), and so are 2 others."));
}

// A stranger that has taken rank 0's port.
TEST(RankFailureDetectorTest, WithASecretRankZeroHasToKnowItToo) {
  RankFailureDetector hub(2, [] { return Activity{}; });
  EXPECT_THROW(RankFailureDetector(
                   "127.0.0.1", hub.contact(), 1, 2, [] { return Activity{}; }, "secret"),
               std::runtime_error);
}

TEST(ActivityTest, SaysWhereTheProcessIs) {
  EXPECT_EQ(CurrentActivity().what, "has not entered a collective yet");
  {
    const InCollective here("barrier");
    EXPECT_EQ(CurrentActivity().what, "is in barrier");
  }
  EXPECT_EQ(CurrentActivity().what, "is outside of collectives, after barrier");
  EnterForward(4);
  EXPECT_EQ(CurrentActivity().what, "is in forward of step 4");
  EnterBackward();  // backward of another model
  EXPECT_EQ(CurrentActivity().what, "is in forward of step 4");
  LeaveForward();
  EXPECT_EQ(CurrentActivity().what, "has not begun backward of step 4 since its forward ended");
  EnterBackward();
  EXPECT_EQ(CurrentActivity().what, "is in backward of step 4");
  EXPECT_FALSE(AwaitsBackward());
  LeaveBackward();
  EXPECT_EQ(CurrentActivity().what,
            "has finished backward of step 4 and is outside of collectives");
}

}  // namespace rank_failure_detector_test
}  // namespace ddp::internal
