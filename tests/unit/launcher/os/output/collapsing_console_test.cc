#include "launcher/os/output/collapsing_console.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/text/log_format.h"
#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace collapsing_console_test {

class CollapsingConsoleTest : public testing::Test {
 protected:
  // Runs the loop until the console has as many bytes as `text`. True if they are `text`.
  bool Shows(const std::string& text) {
    return test::RunUntil(&loop_,
                          [&] {
                            test::ReadAvailable(pipe_.read_end.get(), &shown_);
                            return shown_.size() >= text.size();
                          }) &&
           shown_ == text;
  }

  EventLoop loop_;
  test::PipeEnds pipe_ = test::MakePipe();
  std::shared_ptr<ConsoleWriter> writer_ =
      std::make_shared<ConsoleWriter>(pipe_.write_end.get(), ConsoleWriter::Options{});
  CollapsingConsole console_{&loop_, writer_, [](const std::vector<int>& ranks) {
                               return "[" + FormatRanks(ranks) + "]:";
                             }};
  std::string shown_;
};

TEST_F(CollapsingConsoleTest, EqualLinesOfAllWorkersAreOneLineWithTheirRanks) {
  for (int i = 0; i < 8; ++i) console_.Enter(i);
  for (int i = 0; i < 8; ++i) console_.Write(i, "NCCL version 2\nready\n");
  EXPECT_TRUE(Shows("[0-7]:NCCL version 2\n[0-7]:ready\n")) << shown_;
}

TEST_F(CollapsingConsoleTest, ALineThatNobodyElseWritesComesAfterTheHoldByItself) {
  console_.Enter(0);
  console_.Enter(1);
  const auto start = EventLoop::Clock::now();
  console_.Write(0, "only mine");
  EXPECT_TRUE(Shows("[0]:only mine\n")) << shown_;
  EXPECT_GE(EventLoop::Clock::now() - start, CollapsingConsole::kHold);
}

TEST_F(CollapsingConsoleTest, WhatIsHeldIsShownWhenTheOthersEnd) {
  console_.Enter(0);
  console_.Enter(0);  // rank 0 has two streams
  console_.Enter(1);
  console_.Write(1, "still here\n");
  console_.Leave(0);
  test::ReadAvailable(pipe_.read_end.get(), &shown_);
  EXPECT_EQ(shown_, "") << "its other stream may still say it";
  console_.Leave(0);
  ASSERT_TRUE(writer_->Flush(EventLoop::Clock::now() + test::kPatience));
  test::ReadAvailable(pipe_.read_end.get(), &shown_);
  EXPECT_EQ(shown_, "[1]:still here\n");
}

TEST_F(CollapsingConsoleTest, NothingIsLostInAFloodOfShortLines) {
  console_.Enter(0);
  console_.Enter(1);
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string line = std::to_string(i % 3) + "\n";
    console_.Write(0, line);
    expected += "[0]:" + line;
  }
  console_.Flush();
  EXPECT_TRUE(Shows(expected));
}

}  // namespace collapsing_console_test
}  // namespace ddprun
