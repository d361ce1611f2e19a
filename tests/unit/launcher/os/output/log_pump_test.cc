#include "launcher/os/output/log_pump.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/os/process/posix_process_runner.h"
#include "tests/unit/launcher/os/pattern.h"
#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace log_pump_test {

using test::Child;
using test::MakePipe;
using test::PipeEnds;
using test::RunUntil;
using test::RunUntilDead;
using test::Shell;
using ::testing::ElementsAre;
using Clock = std::chrono::steady_clock;

class LogPumpTest : public ::testing::Test {
 protected:
  struct Worker {
    SpawnedProcess process;
    std::unique_ptr<LogPump> pump;
  };

  std::shared_ptr<ConsoleWriter> Show(const PipeEnds& pipe) {
    return std::make_shared<ConsoleWriter>(pipe.write_end.get(),
                                           ConsoleWriter::Options{"", 256 << 20});
  }

  Worker Start(const SpawnRequest& request, LogPump::Options options) {
    Worker worker;
    absl::StatusOr<SpawnedProcess> process = runner_.Spawn(request);
    EXPECT_TRUE(process.ok()) << process.status();
    worker.process = *std::move(process);
    worker.pump = std::make_unique<LogPump>(&loop_, &files_, std::move(options),
                                            std::move(worker.process.stdout_pipe),
                                            std::move(worker.process.stderr_pipe));
    return worker;
  }

  // Does what the agent does when a worker ends.
  void End(Worker* worker) {
    ASSERT_TRUE(RunUntilDead(&loop_, worker->process.pidfd.get()));
    worker->pump->ReadToEnd();
    EXPECT_TRUE(worker->pump->finished());
    runner_.SignalGroup(worker->process.pid, SIGKILL).IgnoreError();
    EXPECT_TRUE(runner_.Reap(worker->process.pidfd.get()).ok());
  }

  void Flush(const std::vector<std::shared_ptr<ConsoleWriter>>& consoles) {
    EXPECT_TRUE(files_.Flush(Clock::now() + test::kPatience));
    for (const auto& console : consoles) {
      EXPECT_TRUE(console->Flush(Clock::now() + test::kPatience));
    }
  }

  const test::TempDir dir_;
  EventLoop loop_;
  PosixProcessRunner runner_;
  WriterThread files_{&loop_, [](const absl::Status& error) { ADD_FAILURE() << error; }};
  const PipeEnds out_ = MakePipe();
  const PipeEnds err_ = MakePipe();
  const Console console_{Show(out_), Show(err_)};
};

TEST_F(LogPumpTest, CarriesBothStreamsToTheirFilesAndTheirConsole) {
  Worker worker =
      Start(Shell("echo out; echo err >&2; echo more"), {dir_.path(), "[default3]:", console_});
  End(&worker);
  Flush({console_.out, console_.err});
  EXPECT_EQ(test::ReadFile(dir_ / "stdout.log"), "out\nmore\n");
  EXPECT_EQ(test::ReadFile(dir_ / "stderr.log"), "err\n");
  std::string out;
  std::string err;
  test::ReadAvailable(out_.read_end.get(), &out);
  test::ReadAvailable(err_.read_end.get(), &err);
  EXPECT_EQ(out, "[default3]:out\n[default3]:more\n");
  EXPECT_EQ(err, "[default3]:err\n");
}

TEST_F(LogPumpTest, AHalfLineAtTheEndIsKeptExactInTheFileAndShownAsALine) {
  Worker worker = Start(Shell("printf 'whole\\nhalf'; printf 'dying words' >&2; kill -KILL $$"),
                        {dir_.path(), "[default0]:", console_});
  End(&worker);
  Flush({console_.out, console_.err});
  EXPECT_EQ(test::ReadFile(dir_ / "stdout.log"), "whole\nhalf");
  std::string out;
  test::ReadAvailable(out_.read_end.get(), &out);
  EXPECT_EQ(out, "[default0]:whole\n[default0]:half\n");
  EXPECT_THAT(worker.pump->StderrTail(), ElementsAre("dying words"));
}

TEST_F(LogPumpTest, BytesThatAreNotTextPassThrough) {
  Worker worker = Start(Shell("printf 'a\\000b\\377\\r\\n'"), {dir_.path(), "[r0]:", console_});
  End(&worker);
  Flush({console_.out});
  EXPECT_EQ(test::ReadFile(dir_ / "stdout.log"), std::string("a\0b\xff\r\n", 6));
  std::string out;
  test::ReadAvailable(out_.read_end.get(), &out);
  EXPECT_EQ(out, std::string("[r0]:a\0b\xff\r\n", 11));
}

TEST_F(LogPumpTest, OnATerminalABarIsDrawnAndEndsAsALineWhileTheFileHasTheBytes) {
  const auto terminal = std::make_shared<ConsoleWriter>(
      out_.write_end.get(), ConsoleWriter::Options{.log_directory = "", .style = {true, true}});
  LogPump::Options options{dir_.path(), "[r1]:", {terminal, terminal}};
  options.rank = 1;
  ASSERT_EQ(::mkfifo((dir_ / "go").c_str(), 0600), 0);
  Worker worker = Start(
      Shell("printf '\\r 50%%'; read line < " + (dir_ / "go") + "; printf '\\r100%%\\nbye\\n'"),
      options);
  std::string text;
  const std::string bar = "\r\x1b[?7l\x1b[32m[r1]:\x1b[0m 50%\x1b[K\x1b[?7h";
  ASSERT_TRUE(RunUntil(&loop_, [&] {
    test::ReadAvailable(out_.read_end.get(), &text);
    return text.size() >= bar.size();
  })) << "a bar is shown as it is written, not with the next one";
  EXPECT_EQ(text, bar);
  std::ofstream(dir_ / "go") << "on\n";
  End(&worker);
  Flush({terminal});
  test::ReadAvailable(out_.read_end.get(), &text);
  EXPECT_EQ(text.substr(bar.size()), "\r\x1b[K\x1b[32m[r1]:\x1b[0m100%\n\x1b[32m[r1]:\x1b[0mbye\n");
  EXPECT_EQ(test::ReadFile(dir_ / "stdout.log"), "\r 50%\r100%\nbye\n");
}

TEST_F(LogPumpTest, AStreamWithoutAConsoleIsNotShownAndIsInItsFile) {
  Worker worker =
      Start(Shell("echo out; echo err >&2"), {dir_.path(), "[r0]:", {nullptr, console_.err}});
  End(&worker);
  Flush({console_.out, console_.err});
  std::string out;
  std::string err;
  test::ReadAvailable(out_.read_end.get(), &out);
  test::ReadAvailable(err_.read_end.get(), &err);
  EXPECT_EQ(out, "");
  EXPECT_EQ(err, "[r0]:err\n");
  EXPECT_EQ(test::ReadFile(dir_ / "stdout.log"), "out\n");
}

TEST_F(LogPumpTest, TwoWorkersBehindOneCollapsingConsoleAreOneLine) {
  CollapsingConsole collapse(&loop_, console_.out, [](const std::vector<int>& ranks) {
    return "[r" + FormatRanks(ranks) + "]:";
  });
  const auto options = [&](int rank) {
    LogPump::Options result{dir_ / std::to_string(rank), "", {console_.out, console_.out}};
    result.local_rank = rank;
    result.collapse_out = result.collapse_err = &collapse;
    return result;
  };
  Worker a = Start(Shell("echo same; echo a >&2"), options(0));
  Worker b = Start(Shell("echo same; echo b >&2"), options(1));
  End(&a);
  End(&b);
  Flush({console_.out});
  std::string out;
  test::ReadAvailable(out_.read_end.get(), &out);
  // On a very slow machine, one rank may end before the other writes. Then "same" comes twice.
  EXPECT_THAT(out,
              ::testing::AnyOf("[r0-1]:same\n[r0]:a\n[r1]:b\n", "[r0-1]:same\n[r1]:b\n[r0]:a\n",
                               "[r0]:same\n[r0]:a\n[r1]:same\n[r1]:b\n"));
}

TEST_F(LogPumpTest, WithoutAFolderOrAConsoleTheWorkerIsStillRead) {
  Worker worker = Start(Shell("seq 100000; echo last >&2"), {"", "", {}});
  End(&worker);
  EXPECT_THAT(worker.pump->StderrTail(), ElementsAre("last"));
}

// Proved to fail: without the pause in LogPump::Stream::ReadOnce, the queue grows past its bound.
TEST_F(LogPumpTest, AFloodIsInTheFileByteForByteWithinBoundedMemory) {
  constexpr std::uint64_t kBlocks = 3200;  // 200 MiB
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto sink = std::make_shared<ConsoleWriter>(null.get(), ConsoleWriter::Options{});
  Worker worker =
      Start(Child({"flood", std::to_string(kBlocks)}), {dir_.path(), "[default0]:", {sink, sink}});
  End(&worker);
  Flush({sink});
  EXPECT_LE(files_.PeakQueuedBytes(), WriterThread::kHighWater + (1 << 20));

  std::ifstream file(dir_ / "stdout.log", std::ios::binary);
  std::vector<char> expected(test::kPatternBlock);
  std::vector<char> actual(test::kPatternBlock);
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    test::FillPattern(i, expected.data());
    ASSERT_TRUE(file.read(actual.data(), test::kPatternBlock)) << "the file ends in block " << i;
    ASSERT_EQ(std::memcmp(actual.data(), expected.data(), test::kPatternBlock), 0) << "block " << i;
  }
  EXPECT_EQ(file.peek(), std::ifstream::traits_type::eof()) << "the file is too long";
}

// If a log file hangs, the pump must stop reading: the worker waits, and memory does not grow.
TEST_F(LogPumpTest, AHungLogFileStopsTheWorkerAndNothingIsLostWhenItMovesAgain) {
  constexpr std::uint64_t kBlocks = 320;  // 20 MiB: more than queue and pipe together
  ASSERT_EQ(::mkfifo((dir_ / "stdout.log").c_str(), 0600), 0);
  Worker worker = Start(Child({"flood", std::to_string(kBlocks)}), {dir_.path(), "", {}});
  ASSERT_TRUE(
      RunUntil(&loop_, [&] { return files_.PeakQueuedBytes() > WriterThread::kHighWater; }));
  int turns = 0;
  ASSERT_TRUE(RunUntil(&loop_, [&] { return ++turns > 50; }));
  EXPECT_LE(files_.PeakQueuedBytes(), WriterThread::kHighWater + test::kPatternBlock);
  EXPECT_FALSE(runner_.Reap(worker.process.pidfd.get()).ok()) << "the worker should be waiting";

  const UniqueFd reader(::open((dir_ / "stdout.log").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  ASSERT_TRUE(RunUntil(&loop_, [&] {
    test::ReadAvailable(reader.get(), &text);
    return text.size() == kBlocks * test::kPatternBlock;
  }));
  std::vector<char> expected(test::kPatternBlock);
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    test::FillPattern(i, expected.data());
    ASSERT_EQ(
        std::memcmp(text.data() + i * test::kPatternBlock, expected.data(), test::kPatternBlock), 0)
        << "block " << i;
  }
  End(&worker);
}

TEST_F(LogPumpTest, ABlockedConsoleLosesLinesWhileTheFileHasThemAll) {
  constexpr int kLines = 20000;
  const PipeEnds stuck = MakePipe();
  const std::size_t in_the_way = test::FillPipe(stuck);
  const auto console = std::make_shared<ConsoleWriter>(
      stuck.write_end.get(),
      ConsoleWriter::Options{.log_directory = dir_.path(), .capacity = 64 << 10});
  Worker worker = Start(Child({"lines", "A", std::to_string(kLines)}),
                        {dir_.path(), "[default0]:", {console, nullptr}});
  End(&worker);
  EXPECT_TRUE(files_.Flush(Clock::now() + test::kPatience));
  const std::vector<std::string> in_file = test::SplitLines(test::ReadFile(dir_ / "stdout.log"));
  ASSERT_EQ(in_file.size(), static_cast<std::size_t>(kLines));

  std::string text;
  std::uint64_t dropped = 0;
  ASSERT_TRUE(RunUntil(&loop_, [&] {
    test::ReadAvailable(stuck.read_end.get(), &text);
    dropped = test::LinesNotShown(text, dir_.path());
    return dropped > 0;
  }));
  text.erase(0, in_the_way);
  const std::vector<std::string> shown = test::SplitLines(text);
  ASSERT_EQ(shown.size(), kLines - dropped + 1);
  for (std::size_t i = 0; i + 1 < shown.size(); ++i) {
    ASSERT_EQ(shown[i], "[default0]:" + in_file[i]);
  }
}

TEST_F(LogPumpTest, LinesOfTwoWorkersAreNeverTorn) {
  constexpr int kLines = 20000;
  const std::string count = std::to_string(kLines);
  const Console one{console_.out, console_.out};
  Worker a = Start(Child({"lines", "A", count}), {dir_ / "a", "[default0]:", one});
  Worker b = Start(Child({"lines", "B", count}), {dir_ / "b", "[default1]:", one});
  std::string text;
  ASSERT_TRUE(RunUntil(&loop_, [&] {
    test::ReadAvailable(out_.read_end.get(), &text);
    return a.pump->finished() && b.pump->finished() && one.out->Flush(Clock::now());
  }));
  test::ReadAvailable(out_.read_end.get(), &text);
  End(&a);
  End(&b);

  std::map<std::string, int> next;
  for (const std::string& line : test::SplitLines(text)) {
    const std::string name = line.substr(0, line.find(' '));
    const int i = next[name]++;
    const std::string filler(static_cast<std::size_t>(i * 37 % 500), 'x');
    ASSERT_EQ(line, name + " " + std::to_string(i) + " " + filler);
  }
  EXPECT_THAT(next,
              ElementsAre(std::pair("[default0]:A", kLines), std::pair("[default1]:B", kLines)));
}

TEST_F(LogPumpTest, AWorkerWhoseConsoleReaderWentAwayRunsToItsEnd) {
  PipeEnds gone = MakePipe();
  const auto console =
      std::make_shared<ConsoleWriter>(gone.write_end.get(), ConsoleWriter::Options{});
  gone.read_end.reset();
  Worker worker = Start(Child({"flood", "100"}), {dir_.path(), "", {console, console}});
  End(&worker);
  Flush({console});
  EXPECT_EQ(test::ReadFile(dir_ / "stdout.log").size(), 100 * test::kPatternBlock);
}

TEST_F(LogPumpTest, DrainDoesNotWaitForAGrandchildThatHoldsThePipe) {
  Worker silent = Start(Shell("sleep 100000 & echo started"), {dir_ / "a", "", {}});
  End(&silent);
  Worker noisy = Start(Shell("yes & sleep 0; echo done"), {dir_ / "b", "", {}});
  End(&noisy);
  EXPECT_TRUE(files_.Flush(Clock::now() + test::kPatience));
  EXPECT_EQ(test::ReadFile(dir_ / "a/stdout.log"), "started\n");
  EXPECT_THAT(test::ReadFile(dir_ / "b/stdout.log"), ::testing::HasSubstr("done\n"));
}

TEST_F(LogPumpTest, WhatWasWrittenJustBeforeDeathIsReadByDrainAlone) {
  absl::StatusOr<SpawnedProcess> process = runner_.Spawn(Shell("seq 1000 >&2; kill -KILL $$"));
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(RunUntilDead(&loop_, process->pidfd.get()));  // nothing has read the pipes
  LogPump pump(&loop_, &files_, {dir_.path(), "", {}}, std::move(process->stdout_pipe),
               std::move(process->stderr_pipe));
  pump.ReadToEnd();
  const std::vector<std::string> tail = pump.StderrTail();
  ASSERT_EQ(tail.size(), 20u);
  EXPECT_EQ(tail.front(), "981");
  EXPECT_EQ(tail.back(), "1000");
  EXPECT_TRUE(runner_.Reap(process->pidfd.get()).ok());
}

}  // namespace log_pump_test
}  // namespace ddprun
