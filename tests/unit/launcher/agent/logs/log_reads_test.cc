// LogReads with a real disk, and a WriterThread that writes.
#include "launcher/agent/logs/log_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/os/output/writer_thread.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace log_reads_test {

namespace fs = std::filesystem;
using std::chrono::seconds;
using ::testing::HasSubstr;

class LogReadsTest : public testing::Test {
 protected:
  LogReadsTest() { fs::create_directories(folder_); }

  static WriterThread::Options Written(std::shared_ptr<WrittenFiles> written) {
    WriterThread::Options options;
    options.written = std::move(written);
    return options;
  }
  WriterThread::FileId Open() {
    return writer_.Open(folder_ + "/stdout.log", [] {});
  }

  void Read(std::uint64_t id, bool follow, std::size_t window = kMaxLogWindow) {
    Order(id, ReadLog{Generation{0}, LocalRank{0}, LogStream::kStdout, {}, follow, window});
  }
  void Order(std::uint64_t id, decltype(LogOrder::what) what) {
    Header header;
    header.agent_id = AgentId{7};
    reads_->Perform(header, {LogReadingId{id}, std::move(what)},
                    [this](const Header& of, const LogPiece& piece) {
                      EXPECT_EQ(of.agent_id, AgentId{7});
                      text_ += piece.text;
                      if (piece.last) note_ = piece.note;
                    });
  }
  // Runs the loop until `is_so` returns true, for at most 60 s.
  bool Await(std::function<bool()> is_so) {
    const auto give_up = EventLoop::Clock::now() + seconds(60);
    std::function<void()> look = [&] {
      if (is_so() || EventLoop::Clock::now() > give_up) return loop_.Quit();
      loop_.AddTimer(EventLoop::Clock::now() + std::chrono::milliseconds(1), look);
    };
    loop_.Post(look);
    loop_.Run();
    return is_so();
  }
  bool AwaitEnd() {
    return Await([this] { return note_.has_value(); });
  }
  bool AwaitText(const std::string& text) {
    return Await([&] { return text_ == text; });
  }
  // Orders a log that does not exist, and waits for the answer: so earlier orders had time, too.
  void Settle() {
    text_.clear();
    Order(99, ReadLog{Generation{9}, LocalRank{0}, LogStream::kStdout, {}, false, 1});
    ASSERT_TRUE(AwaitEnd());
    note_.reset();
  }

  const TempDir run_;
  const std::string folder_ = run_.path() + "/attempt_0/0";
  EventLoop loop_;
  const std::shared_ptr<WrittenFiles> written_ = std::make_shared<WrittenFiles>();
  WriterThread writer_{&loop_, [](const absl::Status&) {}, Written(written_)};
  std::unique_ptr<LogReads> reads_ =
      std::make_unique<LogReads>(LogReads::Options{run_.path()}, &loop_, written_);
  std::string text_;
  std::optional<std::string> note_;  // the note of the last piece
};

TEST_F(LogReadsTest, AFileIsReadToItsEnd) {
  std::ofstream(folder_ + "/stdout.log") << "one\ntwo\n";
  Read(1, false);
  ASSERT_TRUE(AwaitEnd());
  EXPECT_EQ(text_, "one\ntwo\n");
  EXPECT_EQ(*note_, "");
}

TEST_F(LogReadsTest, NoMoreIsSentThanIsAllowed) {
  std::ofstream(folder_ + "/stdout.log") << std::string(300'000, 'x');
  Read(1, false, 1000);
  ASSERT_TRUE(AwaitText(std::string(1000, 'x')));
  Settle();
  EXPECT_EQ(text_, "");
  Order(1, MoreLog{500});
  ASSERT_TRUE(AwaitText(std::string(500, 'x')));
  while (!note_) {
    Order(1, MoreLog{kMaxLogWindow});
    ASSERT_TRUE(Await([before = text_.size(), this] { return text_.size() > before || note_; }));
  }
  EXPECT_EQ(text_.size(), 300'000u - 1000);
}

TEST_F(LogReadsTest, FollowsWhatIsWrittenUntilTheFileIsClosed) {
  const auto file = Open();
  writer_.Write(file, "one\n");
  Read(1, true);
  ASSERT_TRUE(AwaitText("one\n"));
  writer_.Write(file, "two\n");
  ASSERT_TRUE(AwaitText("one\ntwo\n"));
  EXPECT_EQ(note_, std::nullopt);
  writer_.Write(file, "three\n");
  writer_.Close(file);
  ASSERT_TRUE(AwaitEnd());
  EXPECT_EQ(text_, "one\ntwo\nthree\n");
}

TEST_F(LogReadsTest, AWorkerThatHasYetToStartIsWaitedFor) {
  reads_->OnGenerationBegun(Generation{0});
  Read(1, true);
  Settle();
  const auto file = Open();
  writer_.Write(file, "here\n");
  ASSERT_TRUE(AwaitText("here\n"));
  writer_.Close(file);
  ASSERT_TRUE(AwaitEnd());
}

TEST_F(LogReadsTest, AWorkerThatNeverStartsIsNot) {
  reads_->OnGenerationBegun(Generation{0});
  Read(1, true);
  Settle();
  reads_->OnGenerationEnded();
  ASSERT_TRUE(AwaitEnd());
  EXPECT_EQ(*note_, "there is no attempt_0/0/stdout.log in its run folder");
}

TEST_F(LogReadsTest, WhatNobodyWantsEnds) {
  Open();
  Read(1, true);
  Order(1, EndLog{});
  ASSERT_TRUE(AwaitEnd());
  EXPECT_EQ(*note_, "");
  note_.reset();
  Order(1, MoreLog{5});
  Order(1, EndLog{});
  Settle();
  EXPECT_EQ(note_, std::nullopt) << "it ends once";
}

TEST_F(LogReadsTest, ASessionThatIsLostTakesItsReadingsWithIt) {
  const auto file = Open();
  Read(1, true);
  reads_->OnSessionLost();
  writer_.Write(file, "one\n");
  Settle();
  EXPECT_EQ(text_, "");
}

TEST_F(LogReadsTest, TooManyAtOnceAreRefused) {
  Open();
  for (std::uint64_t id = 1; id <= kMaxLogReadings; ++id) Read(id, true);
  EXPECT_EQ(note_, std::nullopt);
  Read(50, true);
  EXPECT_THAT(note_.value_or(""), HasSubstr("32 files already"));
}

TEST_F(LogReadsTest, TheEndOfTheJobWaitsForReadersThatGoOn) {
  const auto file = Open();
  writer_.Write(file, "last words\n");
  Read(1, true);
  writer_.Close(file);
  bool finished = false;
  reads_->Finish(seconds(60), [&] { finished = true; });
  EXPECT_FALSE(finished);
  ASSERT_TRUE(Await([&] { return finished; }));
  EXPECT_EQ(text_, "last words\n");
  bool at_once = false;
  reads_->Finish(seconds(60), [&] { at_once = true; });
  EXPECT_TRUE(at_once);
}

TEST_F(LogReadsTest, TheEndOfTheJobWaitsForNoReaderThatIsSlow) {
  std::ofstream(folder_ + "/stdout.log") << "many words\n";
  Read(1, false, 1);
  bool finished = false;
  reads_->Finish(std::chrono::milliseconds(1), [&] { finished = true; });
  EXPECT_TRUE(Await([&] { return finished; }));
}

}  // namespace log_reads_test
}  // namespace ddprun
