// The LogRelay with agents that answer as the test says.
#include "rendezvous/service/job/logs/log_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace log_relay_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Records its calls.
class Listener final : public LogReader {
 public:
  void OnText(const LogSource& source, std::string text) override {
    heard.push_back(absl::StrCat(NameOf(source), " ", text));
    bytes += text.size();
  }
  void OnAbout(const LogSource& source, std::string about) override {
    heard.push_back(absl::StrCat(NameOf(source), " about: ", about));
  }
  void OnSourceEnd(const LogSource& source, std::string note) override {
    heard.push_back(absl::StrCat(NameOf(source), note.empty() ? " end" : " end: ", note));
  }
  void OnEnd(absl::Status why) override { end = std::move(why); }

  static std::string NameOf(const LogSource& source) {
    return absl::StrCat("g", source.generation.value, ".", source.rank.value,
                        source.stream == LogStream::kStdout ? "o" : "e");
  }

  std::vector<std::string> heard;
  std::size_t bytes = 0;
  std::optional<absl::Status> end;
};

struct Ordered {
  std::uint64_t agent;
  LogOrder order;
};

class LogRelayTest : public testing::Test, public LogRelay::Actor {
 protected:
  bool Order(ServedJob&, AgentId agent_id, const LogOrder& order) override {
    if (!connected_.contains(agent_id.value)) return false;
    orders_.push_back({agent_id.value, order});
    return true;
  }

  // Two nodes of two workers each.
  static JobRecord RecordOf(int generation, bool finished = false) {
    JobRecord record;
    record.spec.min_nodes = record.spec.max_nodes = 2;
    record.generation = Generation{generation};
    for (const std::uint64_t agent : {1, 2}) {
      NodeRecord member;
      member.agent_id = AgentId{agent};
      member.spec = {absl::StrCat("n", agent), "127.0.0.1", 2};
      member.offered_port = 29500;
      member.rank = NodeRank{static_cast<int>(agent) - 1};
      member.first_rank = Rank{2 * (static_cast<int>(agent) - 1)};
      record.members.push_back(member);
    }
    if (finished) record.finished = Finished{};
    return record;
  }
  static JobPtr MakeJob(bool finished = false) {
    return std::make_shared<ServedJob>(RecordedJob{"train", "", RecordOf(0, finished)},
                                       TimePoint(std::chrono::hours(1)), JobMachineOptions());
  }
  JobPtr Running() {
    JobPtr job = MakeJob();
    for (const std::uint64_t agent : {1, 2}) Connect(job, agent);
    relay_.OnTakenUp(*job, RecordOf(0));
    return job;
  }
  void Connect(const JobPtr& job, std::uint64_t agent) {
    connected_.insert(agent);
    Join join;
    join.log_folder = absl::StrCat("/logs/", agent);
    relay_.OnJoin(*job, AgentId{agent}, join);
  }
  void Start(const JobPtr& job, int generation) {
    relay_.OnRecord(*job, RecordOf(generation));
    JobEvent started{.kind = JobEvent::Kind::kStarted};
    started.generation = Generation{generation};
    relay_.OnEvent(*job, started);
  }

  LogReadId Read(const JobPtr& job, LogRequest request) {
    request.job = "train";
    const LogReadId id = relay_.NewId();
    relay_.Read(id, job, std::move(request), listener_);
    return id;
  }
  static LogRequest Of(std::vector<Rank> ranks, bool follow = false) {
    LogRequest request;
    request.ranks = std::move(ranks);
    request.streams = LogStreams::kStdout;
    request.follow = follow;
    return request;
  }

  // The orders since the last call, for example "1: read g0.1o window 65536".
  std::vector<std::string> Orders() {
    std::vector<std::string> texts;
    for (const auto& [agent, order] : std::exchange(orders_, {})) {
      std::string text = absl::StrCat(agent, ": #", order.reading.value);
      if (const auto* const read = std::get_if<ReadLog>(&order.what)) {
        absl::StrAppend(&text, " read g", read->generation.value, " local ", read->local_rank.value,
                        read->follow ? " follow" : "", " window ", read->window);
      } else if (const auto* const more = std::get_if<MoreLog>(&order.what)) {
        absl::StrAppend(&text, " more ", more->bytes);
      } else {
        absl::StrAppend(&text, " end");
      }
      texts.push_back(text);
    }
    return texts;
  }
  void Piece(std::uint64_t agent, std::uint64_t reading, std::string text, bool last = false,
             std::string note = "") {
    relay_.OnPiece(AgentId{agent}, {LogReadingId{reading}, std::move(text), last, std::move(note)});
  }

  std::set<std::uint64_t> connected_;
  std::vector<Ordered> orders_;
  LogRelay relay_{this, 64 << 20};
  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
};

TEST_F(LogRelayTest, FilesComeOneAfterTheOther) {
  const JobPtr job = Running();
  const LogReadId id = Read(job, Of({Rank{3}, Rank{0}}));
  EXPECT_THAT(Orders(), ElementsAre("2: #1 read g0 local 1 window 65536"));
  Piece(2, 1, "three\n");
  Piece(2, 1, "", true);
  EXPECT_THAT(Orders(), IsEmpty()) << "what came is not acknowledged";
  relay_.Acknowledge(id, 6);
  EXPECT_THAT(Orders(), ElementsAre("1: #2 read g0 local 0 window 65536"));
  Piece(1, 2, "", true, "there is no such file");
  EXPECT_THAT(listener_->heard,
              ElementsAre("g0.3o three\n", "g0.3o end", "g0.0o end: n1: there is no such file"));
  EXPECT_EQ(listener_->end, absl::OkStatus());
}

TEST_F(LogRelayTest, ASlowReaderHasAWindowAndNoMore) {
  const JobPtr job = Running();
  const LogReadId id = Read(job, Of({Rank{0}}));
  Orders();
  const std::string piece(kMaxLogPieceBytes, 'x');
  for (int i = 0; i < 4; ++i) Piece(1, 1, piece);
  EXPECT_THAT(Orders(), IsEmpty());
  relay_.Acknowledge(id, kMaxLogPieceBytes);
  EXPECT_THAT(Orders(), IsEmpty()) << "not each piece is worth a message";
  relay_.Acknowledge(id, kMaxLogPieceBytes);
  EXPECT_THAT(Orders(), ElementsAre("1: #1 more 32768"));
  Piece(1, 1, piece);
  Piece(1, 1, piece);
  EXPECT_EQ(listener_->bytes, 6 * kMaxLogPieceBytes);
  // If an agent sends more than its window, its reading ends.
  Piece(1, 1, "one byte too many");
  EXPECT_EQ(listener_->bytes, 6 * kMaxLogPieceBytes);
  EXPECT_THAT(listener_->heard.back(), HasSubstr("more than it was asked for"));
  EXPECT_THAT(Orders(), ElementsAre("1: #1 end"));
}

TEST_F(LogRelayTest, AllThatIsFollowedSharesOneBound) {
  const JobPtr job = Running();
  LogRequest request = Of({}, true);
  request.streams = LogStreams::kBoth;
  Read(job, request);
  std::size_t windows = 0;
  for (const Ordered& ordered : orders_) windows += std::get<ReadLog>(ordered.order.what).window;
  EXPECT_THAT(orders_, SizeIs(8));
  EXPECT_EQ(windows, kMaxUnreadLogBytes);
}

TEST_F(LogRelayTest, ALostSessionEndsItsFilesWithWhereTheyAre) {
  const JobPtr job = Running();
  Read(job, Of({Rank{0}, Rank{2}}, true));
  Orders();
  connected_.erase(2);
  relay_.OnSessionLost(*job, AgentId{2});
  EXPECT_THAT(listener_->heard,
              ElementsAre("g0.2o end: the agent on n2 has lost contact; the file is "
                          "n2:/logs/2/attempt_0/0/stdout.log"));
  Piece(2, 2, "late");  // of a reading that is over
  Piece(1, 1, "still here\n");
  EXPECT_THAT(listener_->heard, ElementsAre(HasSubstr("lost contact"), "g0.0o still here\n"));
  EXPECT_EQ(listener_->end, std::nullopt) << "the next generation may come";
}

TEST_F(LogRelayTest, AnAgentAnswersForItsOwnReadingsAlone) {
  const JobPtr job = Running();
  Read(job, Of({Rank{0}}));
  Piece(2, 1, "made up");
  EXPECT_THAT(listener_->heard, IsEmpty());
}

TEST_F(LogRelayTest, FollowingGoesOnIntoTheNextGenerationAndEndsWithTheJob) {
  const JobPtr job = Running();
  Read(job, Of({Rank{1}}, true));
  EXPECT_THAT(Orders(), ElementsAre("1: #1 read g0 local 1 follow window 65536"));
  Piece(1, 1, "", true);
  EXPECT_EQ(listener_->end, std::nullopt);
  Start(job, 1);
  EXPECT_THAT(Orders(), ElementsAre("1: #2 read g1 local 1 follow window 65536"));
  Piece(1, 2, "again\n");
  Piece(1, 2, "", true);
  EXPECT_THAT(listener_->heard, ElementsAre("g0.1o end", "g1.1o again\n", "g1.1o end"));
}

TEST_F(LogRelayTest, OneGenerationIsFollowedToItsEndAlone) {
  const JobPtr job = Running();
  LogRequest request = Of({Rank{1}}, true);
  request.generation = Generation{0};
  Read(job, request);
  Orders();
  Start(job, 1);
  EXPECT_THAT(Orders(), IsEmpty());
  Piece(1, 1, "", true);
  EXPECT_EQ(listener_->end, absl::OkStatus());
}

TEST_F(LogRelayTest, WhoCancelsHearsNothingMore) {
  const JobPtr job = Running();
  const LogReadId id = Read(job, Of({Rank{0}}));
  Orders();
  relay_.Cancel(id);
  EXPECT_THAT(Orders(), ElementsAre("1: #1 end"));
  Piece(1, 1, "late");
  Piece(1, 1, "", true);
  EXPECT_THAT(listener_->heard, IsEmpty());
  EXPECT_EQ(listener_->end, std::nullopt);
}

// Otherwise readers that come and go would fill the queue of an agent that does not read, and its
// session would end.
TEST_F(LogRelayTest, AnAgentHasABoundedNumberOfReadingsUntilItHasEndedThem) {
  const JobPtr job = Running();
  for (int i = 0; i < kMaxLogReadings; ++i) relay_.Cancel(Read(job, Of({Rank{0}})));
  EXPECT_THAT(Orders(), SizeIs(2 * kMaxLogReadings));
  Read(job, Of({Rank{0}}));
  EXPECT_THAT(Orders(), IsEmpty());
  EXPECT_THAT(listener_->heard, ElementsAre(HasSubstr("reads 32 files already")));
  Piece(1, 5, "", true);
  Read(job, Of({Rank{0}}));
  EXPECT_THAT(Orders(), SizeIs(1));
}

TEST_F(LogRelayTest, WhatCannotBeReadIsRefusedWithTheReason) {
  const JobPtr job = Running();
  const auto refused = [&](LogRequest request) {
    listener_->end.reset();
    Read(job, std::move(request));
    return std::string(listener_->end.value_or(absl::OkStatus()).message());
  };
  EXPECT_EQ(refused(Of({Rank{4}})), "generation 0 of job train has ranks 0 to 3 (found 4)");
  EXPECT_THAT(refused(Of(std::vector<Rank>(65))), HasSubstr("at most 64 ranks"));
  LogRequest unknown = Of({Rank{0}});
  unknown.generation = Generation{7};
  EXPECT_EQ(refused(unknown),
            "generation 7 of job train is not known: the rendezvous knows 0 to 0");
  EXPECT_THAT(orders_, IsEmpty());
  for (std::size_t i = 0; i < kMaxLogReaders; ++i) Read(job, Of({Rank{0}}, true));
  EXPECT_THAT(refused(Of({Rank{0}})), HasSubstr("128 readers of logs already"));
}

TEST_F(LogRelayTest, WhatAGenerationEndedForIsKeptAndShownWhenItsAgentIsGone) {
  const JobPtr job = Running();
  JobEvent failed{.kind = JobEvent::Kind::kFailed};
  failed.cause.emplace();
  failed.cause->failure.exit.rank = Rank{2};
  relay_.OnEvent(*job, failed);
  EXPECT_THAT(Orders(), ElementsAre("2: #1 read g0 local 0 follow window 65536",
                                    "2: #2 read g0 local 0 follow window 65536"));
  Piece(2, 1, "", true);
  const std::string piece(kMaxLogPieceBytes, 'x');
  for (int i = 0; i < 10; ++i) Piece(2, 2, piece);
  EXPECT_THAT(Orders(), SizeIs(5)) << "what is kept is acknowledged at once";
  Piece(2, 2, "Traceback\n");
  Piece(2, 2, "", true);
  connected_.erase(2);
  relay_.OnSessionLost(*job, AgentId{2});

  LogRequest request = Of({Rank{2}, Rank{3}});
  request.streams = LogStreams::kStderr;
  const LogReadId id = Read(job, request);
  EXPECT_EQ(listener_->bytes, KeptLogs::kMaxBytes);
  EXPECT_TRUE(listener_->heard[3].ends_with("Traceback\n"));
  EXPECT_THAT(listener_->heard[4],
              AllOf(HasSubstr("the last 64 KiB"), HasSubstr("n2:/logs/2/attempt_0/0/stderr.log")));
  relay_.Acknowledge(id, KeptLogs::kMaxBytes);
  EXPECT_THAT(listener_->heard.back(),
              AllOf(HasSubstr("g0.3e end: the agent on n2 is not connected"),
                    HasSubstr("n2:/logs/2/attempt_0/1/stderr.log")));
  EXPECT_EQ(listener_->end, absl::OkStatus());
}

TEST_F(LogRelayTest, AfterTheEndOnlyLogsOfItsCauseAreRead) {
  const JobPtr job = MakeJob(/*finished=*/true);
  relay_.OnTakenUp(*job, RecordOf(0));
  RootCause cause;
  cause.failure.exit.rank = Rank{1};
  job->kept_logs.Begin(cause);
  job->kept_logs.Add({Generation{0}, Rank{1}, LogStream::kStdout}, "last words\n");
  Read(job, Of({}, true));
  EXPECT_THAT(listener_->heard,
              ElementsAre("g0.1o about: generation 0: what the rendezvous has kept of rank 1; "
                          "other ranks: --rank",
                          "g0.1o last words\n", "g0.1o end"));
  EXPECT_EQ(listener_->end, absl::OkStatus()) << "there is nothing to follow";
}

TEST_F(LogRelayTest, WhatIsKeptIsAsMuchAsIsWanted) {
  const JobPtr job = MakeJob(/*finished=*/true);
  relay_.OnTakenUp(*job, RecordOf(0));
  job->kept_logs.Begin({});
  job->kept_logs.Add({Generation{0}, Rank{0}, LogStream::kStdout}, "one\ntwo\nthree\n");
  LogRequest tail = Of({Rank{0}});
  tail.span.lines = 2;
  Read(job, tail);
  EXPECT_THAT(std::exchange(listener_->heard, {}), ElementsAre("g0.0o two\nthree\n", "g0.0o end"));
  LogRequest recent = Of({Rank{0}});
  recent.span.since = std::chrono::minutes(10);
  Read(job, recent);
  EXPECT_THAT(listener_->heard,
              ElementsAre(HasSubstr("no times of these lines, so --since does not shorten them"),
                          "g0.0o one\ntwo\nthree\n", "g0.0o end"));
}

TEST_F(LogRelayTest, OfAnOlderGenerationWhatIsKeptIsReadOnlyIfThereIsSomeAndIsSaid) {
  const JobPtr job = MakeJob(/*finished=*/true);
  relay_.OnTakenUp(*job, RecordOf(0));
  relay_.OnTakenUp(*job, RecordOf(1));
  RootCause cause;
  cause.failure.exit.rank = Rank{1};
  job->kept_logs.Begin(cause);
  LogRequest all = Of({});
  Read(job, all);
  EXPECT_THAT(std::exchange(listener_->heard, {}), Each(StartsWith("g1.")));
  job->kept_logs.Add({Generation{0}, Rank{1}, LogStream::kStdout}, "last words\n");
  Read(job, all);
  EXPECT_THAT(std::exchange(listener_->heard, {}),
              ElementsAre("g0.1o about: generation 0: what the rendezvous has kept of rank 1; "
                          "other ranks: --rank; the newest generation: --generation 1",
                          "g0.1o last words\n", "g0.1o end"));
  all.generation = Generation{1};
  Read(job, all);
  EXPECT_THAT(listener_->heard, Each(StartsWith("g1.")));
}

TEST_F(LogRelayTest, TheOldestKeptLogsGoFirst) {
  LogRelay small(this, 2 * KeptLogs::kMaxRanks * KeptLogs::kMaxBytes + 100);
  const JobPtr old = Running();
  small.OnTakenUp(*old, RecordOf(0));
  const auto fail = [&](const JobPtr& job) {
    JobEvent failed{.kind = JobEvent::Kind::kFailed};
    failed.cause.emplace();
    small.OnEvent(*job, failed);
  };
  fail(old);
  old->kept_logs.Add({Generation{0}, Rank{0}, LogStream::kStdout}, std::string(200, 'x'));
  const JobPtr young = Running();
  small.OnTakenUp(*young, RecordOf(0));
  fail(young);
  EXPECT_EQ(old->kept_logs.bytes(), 0u);
  EXPECT_THAT(young->kept_logs.ranks(), ElementsAre(Rank{0}));
}

TEST_F(LogRelayTest, TheEndOfTheRendezvousIsTold) {
  const JobPtr job = Running();
  Read(job, Of({Rank{0}}));
  relay_.EndAll(absl::UnavailableError("shutting down"));
  EXPECT_EQ(listener_->end, absl::UnavailableError("shutting down"));
}

}  // namespace log_relay_test
}  // namespace ddprun
