#include "launcher/os/output/console_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace console_writer_test {

using test::MakePipe;
using test::PipeEnds;
using test::RunUntil;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

TEST(ConsoleWriterTest, PutsThePrefixBeforeEveryLineAndEndsTheLast) {
  const PipeEnds pipe = MakePipe();
  ConsoleWriter console(pipe.write_end.get(), {});
  console.Write("[default3]:", "one\n\ntwo\nhalf");
  console.Write("", "ddprun: plain\n");
  ASSERT_TRUE(console.Flush(Clock::now() + test::kPatience));
  std::string text;
  test::ReadAvailable(pipe.read_end.get(), &text);
  EXPECT_EQ(text, "[default3]:one\n[default3]:\n[default3]:two\n[default3]:half\nddprun: plain\n");
}

TEST(ConsoleWriterTest, ABlockedTerminalDropsLinesAndSaysHowManyWhenItMoves) {
  constexpr int kLines = 20000;
  const PipeEnds pipe = MakePipe();
  const std::size_t in_the_way = test::FillPipe(pipe);
  ConsoleWriter console(pipe.write_end.get(), {.log_directory = "/logs/job_1", .capacity = 8192});
  const std::string filler(100, 'x');
  for (int i = 0; i < kLines; ++i) console.Write("[default0]:", std::to_string(i) + filler + "\n");
  EXPECT_FALSE(console.Flush(Clock::now()));

  EventLoop loop;
  std::string text;
  std::uint64_t dropped = 0;
  ASSERT_TRUE(RunUntil(&loop, [&] {
    test::ReadAvailable(pipe.read_end.get(), &text);
    dropped = test::LinesNotShown(text, "/logs/job_1");
    return dropped > 0;
  })) << text.substr(text.size() < 300 ? 0 : text.size() - 300);

  text.erase(0, in_the_way);
  // The console has the first lines, whole and in order, then one note, and later the next line.
  std::vector<std::string> lines = test::SplitLines(text);
  ASSERT_EQ(lines.size(), kLines - dropped + 1);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    ASSERT_EQ(lines[i], "[default0]:" + std::to_string(i) + filler);
  }
  text.clear();
  console.Write("[default0]:", "next\n");
  ASSERT_TRUE(RunUntil(&loop, [&] {
    test::ReadAvailable(pipe.read_end.get(), &text);
    return text == "[default0]:next\n";
  }));
}

TEST(ConsoleWriterTest, AReaderThatWentAwayIsGivenUpSilently) {
  PipeEnds pipe = MakePipe();
  ConsoleWriter console(pipe.write_end.get(), {});
  pipe.read_end.reset();
  console.Write("", "nobody reads this\n");
  EXPECT_TRUE(console.Flush(Clock::now() + test::kPatience));
  for (int i = 0; i < 100000; ++i) console.Write("", "nor this, and it is not queued\n");
  EXPECT_TRUE(console.Flush(Clock::now() + test::kPatience));
}

TEST(ConsoleWriterTest, AReaderThatGoesAwayWhileTheWriterIsBlockedIsGivenUp) {
  PipeEnds pipe = MakePipe();
  ConsoleWriter console(pipe.write_end.get(), {});
  console.Write("", std::string(256 << 10, 'x'));  // more than a pipe holds
  EXPECT_FALSE(console.Flush(Clock::now()));
  pipe.read_end.reset();
  EXPECT_TRUE(console.Flush(Clock::now() + test::kPatience));
}

TEST(ConsoleWriterTest, ANonblockingDescriptorIsWaitedFor) {
  const PipeEnds pipe = MakePipe();
  ASSERT_EQ(::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK), 0);
  ConsoleWriter console(pipe.write_end.get(), {});
  const std::string line(300 << 10, 'y');
  console.Write("", line);
  EventLoop loop;
  std::string text;
  ASSERT_TRUE(RunUntil(&loop, [&] {
    test::ReadAvailable(pipe.read_end.get(), &text);
    return text.size() == line.size() + 1;
  }));
  EXPECT_EQ(text, line + "\n");
}

TEST(ConsoleWriterTest, EndsInTimeThoughTheTerminalHangs) {
  PipeEnds pipe = MakePipe();
  const Clock::time_point start = Clock::now();
  {
    ConsoleWriter console(pipe.write_end.get(), {});
    console.Write("", std::string(256 << 10, 'x'));
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  pipe.read_end.reset();           // the writer's thread, left behind, gets EPIPE and ends:
  (void)pipe.write_end.release();  // perhaps after this test, so the descriptor stays open
}

// Two writers on one pipe stand for two agents on one terminal. Proved to fail: when parts were cut
// at PIPE_BUF instead of at the end of a line, lines were torn.
TEST(ConsoleWriterTest, LinesOfAnotherProcessOnTheSameConsoleAreNotTorn) {
  constexpr int kLines = 3000;
  const PipeEnds pipe = MakePipe();
  ConsoleWriter a(pipe.write_end.get(), {});
  ConsoleWriter b(pipe.write_end.get(), {});
  const std::string filler(60, 'x');
  std::string lines;
  for (int i = 0; i < kLines; ++i) lines += std::to_string(i) + filler + "\n";
  a.Write("A", lines);
  b.Write("B", lines);
  EventLoop loop;
  std::string text;
  ASSERT_TRUE(RunUntil(&loop, [&] {
    test::ReadAvailable(pipe.read_end.get(), &text);
    return a.Flush(Clock::now()) && b.Flush(Clock::now());
  }));
  test::ReadAvailable(pipe.read_end.get(), &text);
  int next[2] = {};
  for (const std::string& line : test::SplitLines(text)) {
    int& i = next[line[0] == 'A' ? 0 : 1];
    ASSERT_EQ(line.substr(1), std::to_string(i++) + filler);
  }
  EXPECT_EQ(next[0], kLines);
  EXPECT_EQ(next[1], kLines);
}

TEST(ConsoleWriterTest, OnATerminalTheBarStaysBelowTheLines) {
  const PipeEnds pipe = MakePipe();
  ConsoleWriter console(pipe.write_end.get(), {.log_directory = "", .style = {true, false}});
  console.ShowBar(0, "[r0]:", "45%");
  console.Write("[r1]:", "hello\n");
  console.ShowBar(0, "", "");
  console.Write("[r0]:", "100%\n");
  ASSERT_TRUE(console.Flush(Clock::now() + test::kPatience));
  std::string text;
  test::ReadAvailable(pipe.read_end.get(), &text);
  EXPECT_EQ(text,
            "\r\x1b[?7l[r0]:45%\x1b[K\x1b[?7h"
            "\r\x1b[K[r1]:hello\n\r\x1b[?7l[r0]:45%\x1b[K\x1b[?7h"
            "\r\x1b[K[r0]:100%\n");
}

TEST(ConsoleWriterTest, ABarOfAnEagerWorkerIsBoundedOnASlowTerminalAndComesToItsEnd) {
  const PipeEnds pipe = MakePipe();
  const std::size_t in_the_way = test::FillPipe(pipe);
  ConsoleWriter console(pipe.write_end.get(),
                        {.log_directory = "", .capacity = 16 << 10, .style = {true, false}});
  for (int i = 0; i < 100000; ++i) console.ShowBar(0, "[r0]:", std::to_string(i) + "%");
  console.ShowBar(0, "", "");
  EventLoop loop;
  std::string text;
  ASSERT_TRUE(RunUntil(&loop, [&] {
    test::ReadAvailable(pipe.read_end.get(), &text);
    return console.Flush(Clock::now());
  }));
  test::ReadAvailable(pipe.read_end.get(), &text);
  text.erase(0, in_the_way);
  EXPECT_LT(text.size(), std::size_t{20} << 10);
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
  EXPECT_THAT(text, Not(HasSubstr("not shown"))) << "a redraw that is left out is no line";
}

TEST(ConsoleTest, StdoutAndStderrOnTheSameFileShareOneWriterSoThatOrderIsKept) {
  const PipeEnds one = MakePipe();
  const UniqueFd same(::dup(one.write_end.get()));
  const Console shared = OpenConsole(one.write_end.get(), same.get(), {});
  EXPECT_EQ(shared.out, shared.err);
  shared.out->Write("", "1");
  shared.err->Write("", "2");
  shared.out->Write("", "3");
  ASSERT_TRUE(shared.out->Flush(Clock::now() + test::kPatience));
  std::string text;
  test::ReadAvailable(one.read_end.get(), &text);
  EXPECT_EQ(text, "1\n2\n3\n");

  const PipeEnds other = MakePipe();
  const Console apart = OpenConsole(one.write_end.get(), other.write_end.get(), {});
  EXPECT_NE(apart.out, apart.err);
}

}  // namespace console_writer_test
}  // namespace ddprun
