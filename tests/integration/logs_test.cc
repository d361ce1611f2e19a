// Workers' output on its way to files and console: real processes, pipes and a real terminal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/support/job.h"
#include "tests/support/program.h"
#include "tests/support/sanitizer.h"

namespace ddprun {
namespace logs_test {

using testing::HasSubstr;
using testing::Not;

class LogsTest : public testing::Test {
 protected:
  // Runs `script` in this many workers to the end. Returns ddprun's exit code.
  int Run(int workers, const std::string& script, std::vector<std::string> flags = {},
          std::map<std::string, std::string> environment = {}) {
    job_ = std::make_unique<Job>(folder_.path(), std::move(environment));
    flags.insert(flags.end(), {"--nproc-per-node", std::to_string(workers), "sh", "-c", script});
    return job_->AddNode(std::move(flags)).ExitCode();
  }
  std::string out() { return job_->node(0).out(); }
  std::string err() { return job_->node(0).err(); }
  std::string Log(const std::string& name) { return ReadFile(job_->run(0) + "/attempt_0/" + name); }
  // The folder of the only run below `logs`.
  static std::string RunBelow(const std::string& logs) {
    for (const auto& entry : std::filesystem::directory_iterator(logs)) return entry.path();
    return "";
  }
  std::string MakeFifo(const std::string& name) {
    EXPECT_EQ(mkfifo((folder_ / name).c_str(), 0600), 0);
    return folder_ / name;
  }

  TempDir folder_;
  std::unique_ptr<Job> job_;
};

const char kSpeak[] = "echo out$RANK; echo err$RANK >&2";

TEST_F(LogsTest, RedirectedStreamsAreInTheirFilesOnly) {
  ASSERT_EQ(Run(3, kSpeak, {"-r", "0:1,2:3"}), 0) << err();
  EXPECT_EQ(out(), "[default1]:out1\n");
  EXPECT_THAT(err(), HasSubstr("[default0]:err0\n"));
  EXPECT_THAT(err(), HasSubstr("[default1]:err1\n"));
  EXPECT_THAT(err(), Not(HasSubstr("err2")));
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_EQ(Log(rank + "/stdout.log"), "out" + rank + "\n");
    EXPECT_EQ(Log(rank + "/stderr.log"), "err" + rank + "\n");
  }
}

TEST_F(LogsTest, TeedStreamsAreShownThoughRedirectedAlsoOfRanksFromTenOn) {
  ASSERT_EQ(Run(12, kSpeak, {"-r", "3", "-t", "10:1,11:2"}), 0) << err();
  EXPECT_EQ(out(), "[default10]:out10\n");
  EXPECT_THAT(err(), HasSubstr("[default11]:err11\n"));
  EXPECT_THAT(err(), Not(HasSubstr("err10")));
  EXPECT_EQ(Log("10/stdout.log"), "out10\n");
  EXPECT_EQ(Log("0/stdout.log"), "out0\n");
}

TEST_F(LogsTest, OnlyTheChosenLocalRanksAreShown) {
  ASSERT_EQ(Run(3, kSpeak, {"--local-ranks-filter", "1"}), 0) << err();
  EXPECT_EQ(out(), "[default1]:out1\n");
  EXPECT_THAT(err(), Not(HasSubstr("err0")));
  EXPECT_EQ(Log("2/stderr.log"), "err2\n");
}

TEST_F(LogsTest, ABadFormIsAUsageError) {
  EXPECT_EQ(Run(1, kSpeak, {"--redirects", "0:1,1:9"}), 64);
  EXPECT_THAT(err(), HasSubstr("--redirects: expected 0 (none), 1 (stdout), 2 (stderr) or 3"));
  EXPECT_THAT(err(), HasSubstr("(found \"1:9\" in \"0:1,1:9\")"));
}

TEST_F(LogsTest, ThePrefixFollowsTorchrunsTemplate) {
  ASSERT_EQ(Run(2, "echo hello", {"--role", "trainer"},
                {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
                  "<${role_name} ${rank}/$local_rank ${other}> "}}),
            0)
      << err();
  EXPECT_THAT(out(), HasSubstr("<trainer 0/0 ${other}> hello\n"));
  EXPECT_THAT(out(), HasSubstr("<trainer 1/1 ${other}> hello\n"));
  EXPECT_EQ(Log("0/stdout.log"), "hello\n");
}

TEST_F(LogsTest, AFileOrAPipeGetsNoEscapeSequences) {
  ASSERT_EQ(Run(2, "printf '\\r 10%%\\r100%%\\n'", {}, {{"TERM", "xterm"}}), 0);
  EXPECT_THAT(out(), HasSubstr("[default0]:\r 10%\r100%\n"));
  EXPECT_THAT(out(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(err(), Not(HasSubstr("\x1b")));
}

TEST_F(LogsTest, LinesReachAPipeAsTheyAreWritten) {
  const std::string go = MakeFifo("go");
  Program pipe({"sh", "-c",
                "\"$0\" --log-dir \"$1\" sh -c 'echo first; read line < \"$1\"; echo "
                "second' worker \"$2\" | cat",
                DdprunPath(), folder_ / "logs", go});
  ASSERT_TRUE(pipe.WaitForOut("[default0]:first\n")) << pipe.err();
  EXPECT_THAT(pipe.out(), Not(HasSubstr("second")));
  std::ofstream(go) << "on\n";
  EXPECT_EQ(pipe.ExitCode(), 0);
  EXPECT_EQ(pipe.out(), "[default0]:first\n[default0]:second\n");
}

TEST_F(LogsTest, LinesThatManyWorkersWriteAreOneWithTheirRanks) {
  // Each worker waits until all four are up, so that they write at the same moment.
  const std::string script = "touch " + folder_.path() + "/up$RANK; until [ $(ls " +
                             folder_.path() +
                             " | grep -c up) = 4 ]; do :; done; echo NCCL version 2.22.3; "
                             "echo only $RANK";
  ASSERT_EQ(Run(4, script, {"--collapse"}), 0) << err();
  // The order of the lines varies, but each rank has said the version once, before its own line.
  std::map<std::string, int> said;
  std::istringstream lines(out());
  int versions = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string prefix = "[default";
    ASSERT_EQ(line.rfind(prefix, 0), 0u) << line;
    const std::string ranks = line.substr(prefix.size(), line.find("]:") - prefix.size());
    const std::string text = line.substr(line.find("]:") + 2);
    std::istringstream parts(ranks);
    versions += text == "NCCL version 2.22.3" ? 1 : 0;
    for (std::string part; std::getline(parts, part, ',');) {
      const int first = std::stoi(part);
      const int last =
          part.find('-') == std::string::npos ? first : std::stoi(part.substr(part.find('-') + 1));
      for (int rank = first; rank <= last; ++rank) {
        const std::string name = std::to_string(rank);
        EXPECT_EQ(text, said[name]++ == 0 ? "NCCL version 2.22.3" : "only " + name);
      }
    }
  }
  EXPECT_EQ(said, (std::map<std::string, int>{{"0", 2}, {"1", 2}, {"2", 2}, {"3", 2}})) << out();
  EXPECT_LT(versions, 4) << "nothing was collapsed:\n" << out();
  EXPECT_EQ(Log("3/stdout.log"), "NCCL version 2.22.3\nonly 3\n");
}

TEST_F(LogsTest, BytesThatAreNoTextAreExactInTheFileAndOnTheConsole) {
  ASSERT_EQ(Run(1, "printf 'a\\000b\\377\\376\\303\\050 c\\n\\000'"), 0) << err();
  const std::string bytes("a\0b\xff\xfe\xc3\x28 c\n\0", 11);
  EXPECT_EQ(Log("0/stdout.log"), bytes);
  EXPECT_EQ(out(),
            "[default0]:" + bytes.substr(0, 10) + "[default0]:" + std::string(1, '\0') + "\n");
}

TEST_F(LogsTest, AWorkerThatClosesItsOutputWorksOn) {
  const std::string report = folder_ / "done";
  ASSERT_EQ(Run(2, "echo before; exec >&- 2>&-; touch " + report + "$RANK; exit 0"), 0) << err();
  EXPECT_TRUE(std::filesystem::exists(report + "0"));
  EXPECT_TRUE(std::filesystem::exists(report + "1"));
  EXPECT_EQ(Log("1/stdout.log"), "before\n");
  EXPECT_EQ(Run(1, "exec >&- 2>&-; exit 9"), 9);
}

TEST_F(LogsTest, HalfALineBeforeDeathIsKept) {
  ASSERT_EQ(Run(1, "printf 'whole\\nhal'; printf dying >&2; kill -SEGV $$"), 128 + 11);
  EXPECT_EQ(Log("0/stdout.log"), "whole\nhal");
  EXPECT_EQ(Log("0/stderr.log"), "dying");
  EXPECT_EQ(out(), "[default0]:whole\n[default0]:hal\n");
}

TEST_F(LogsTest, AConsoleReaderThatGoesAwayDoesNotEndTheJob) {
  const std::string go = MakeFifo("go");
  // head ends after the first line. What the worker writes after that has no reader.
  Program pipe({"sh", "-c",
                "{ \"$0\" --log-dir \"$1\" sh -c 'echo first; read line < \"$1\"; seq 100000; "
                "echo end; exit 7' worker \"$2\"; echo $? > \"$3\"; } | head -n 1",
                DdprunPath(), folder_ / "logs", go, folder_ / "code"});
  ASSERT_TRUE(pipe.WaitForOut("[default0]:first\n"));
  std::ofstream(go) << "on\n";
  pipe.Wait();
  EXPECT_EQ(ReadFile(folder_ / "code"), "7\n");
  EXPECT_THAT(ReadFile(RunBelow(folder_ / "logs") + "/attempt_0/0/stdout.log"),
              testing::EndsWith("\n100000\nend\n"));
}

// "VmHWM:	  9000 kB" → 9000
long PeakKib(pid_t pid) {
  std::istringstream lines(ReadFile("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stol(line.substr(6));
  }
  return -1;
}

// A worker writes 300 MB as fast as it can, while nobody reads the console. Every byte is in the
// file. Seen red when ConsoleWriter's capacity was ignored: memory grew by everything that could
// not be shown.
TEST_F(LogsTest, AFloodIsWholeInTheFileWithinBoundedMemoryOfTheAgent) {
  const std::string go = MakeFifo("go");
  const std::string console = MakeFifo("console");
  const int reader = open(console.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const std::string numbers = "33500000";  // 300 MB of lines
  Program node({"sh", "-c", "exec \"$0\" \"$@\" > " + console, DdprunPath(), "--log-dir",
                folder_ / "logs", "sh", "-c",
                "seq " + numbers + "; echo flooded >&2; read line < \"$0\"", go});
  ASSERT_TRUE(node.WaitForErr("[default0]:flooded", std::chrono::seconds(100))) << node.err();
  const long peak = PeakKib(node.pid());
  std::ofstream(go) << "on\n";
  close(reader);
  ASSERT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_GT(peak, 0);
  constexpr long kBoundKib = (40 << 10) + kSanitizerKib;
  EXPECT_LT(peak, kBoundKib);
  const std::string file = RunBelow(folder_ / "logs") + "/attempt_0/0/stdout.log";
  EXPECT_GT(std::filesystem::file_size(file), 290'000'000u);
  Program compare({"sh", "-c", "seq " + numbers + " | cmp - \"$0\"", file});
  EXPECT_EQ(compare.ExitCode(), 0) << compare.out() << compare.err();
}

// The test's side of a pseudo-terminal.
class Terminal {
 public:
  Terminal() : master_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) abort();
    char name[64];
    if (ptsname_r(master_, name, sizeof name) != 0) abort();
    name_ = name;
    // Held open: without a writer, a read of the master is an error.
    slave_ = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  ~Terminal() {
    close(slave_);
    close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  const std::string& name() const { return name_; }

  // Reads until the terminal has shown `text`. The kernel turns "\n" into "\r\n"; this is undone.
  bool WaitFor(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + kHang;
    while (shown_.find(text) == std::string::npos) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd ready{master_, POLLIN, 0};
      if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
      char buffer[4096];
      const ssize_t size = read(master_, buffer, sizeof buffer);
      if (size <= 0) return false;
      shown_.append(buffer, static_cast<std::size_t>(size));
      for (std::size_t at; (at = shown_.find("\r\n")) != std::string::npos;) shown_.erase(at, 1);
    }
    return true;
  }
  const std::string& shown() const { return shown_; }

 private:
  const int master_;
  int slave_ = -1;
  std::string name_;
  std::string shown_;
};

// The worker of rank 0 draws a bar as tqdm does. The worker of rank 1 writes lines in between. Each
// step has a fifo of its own: a reader that opens a fifo again may still meet its old writer.
constexpr char kTwoWorkers[] =
    "wait_for() { read x < $DIR/$1; }; "
    "if [ $RANK = 0 ]; then "
    "  printf '\\r 45%%|###'; wait_for move; printf '\\r 46%%|###'; wait_for finish; "
    "  printf '\\r100%%|######\\n'; echo trained; "
    "else wait_for speak; echo between; wait_for end; fi";

TEST_F(LogsTest, OnATerminalTheBarOfRankZeroStaysWholeAndLinesStandAboveIt) {
  for (const char* const step : {"move", "finish", "speak", "end"}) MakeFifo(step);
  const auto go = [&](const std::string& step) { std::ofstream(folder_ / step) << "on\n"; };
  Terminal terminal;
  Program node({"sh", "-c", "exec \"$0\" \"$@\" > " + terminal.name() + " 2>&1", DdprunPath(), "-q",
                "--log-dir", folder_ / "logs", "--nproc-per-node", "2", "sh", "-c", kTwoWorkers},
               {{"TERM", "xterm-256color"}, {"NO_COLOR", "1"}, {"DIR", folder_.path()}});
  const std::string bar45 = "\r\x1b[?7l[default0]: 45%|###\x1b[K\x1b[?7h";
  const std::string bar46 = "\r\x1b[?7l[default0]: 46%|###\x1b[K\x1b[?7h";
  ASSERT_TRUE(terminal.WaitFor(bar45)) << terminal.shown();
  go("speak");
  const std::string between = "\r\x1b[K[default1]:between\n" + bar45;
  ASSERT_TRUE(terminal.WaitFor(between)) << terminal.shown();
  go("move");
  ASSERT_TRUE(terminal.WaitFor(bar46)) << terminal.shown();
  go("finish");
  const std::string end = "\r\x1b[K[default0]:100%|######\n[default0]:trained\n";
  ASSERT_TRUE(terminal.WaitFor(end)) << terminal.shown();
  go("end");
  EXPECT_EQ(node.ExitCode(), 0);
  EXPECT_EQ(terminal.shown(), bar45 + between + bar46 + end);
  EXPECT_EQ(ReadFile(RunBelow(folder_ / "logs") + "/attempt_0/0/stdout.log"),
            "\r 45%|###\r 46%|###\r100%|######\ntrained\n");
}

TEST_F(LogsTest, OnATerminalPrefixesHaveTheColourOfTheirRank) {
  Terminal terminal;
  Program node({"sh", "-c", "exec \"$0\" \"$@\" > " + terminal.name(), DdprunPath(), "--log-dir",
                folder_ / "logs", "--nproc-per-node", "2", "sh", "-c", "echo hello"},
               {{"TERM", "xterm-256color"}, {"NO_COLOR", ""}});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_TRUE(terminal.WaitFor("\x1b[36m[default0]:\x1b[0mhello\n")) << terminal.shown();
  EXPECT_TRUE(terminal.WaitFor("\x1b[32m[default1]:\x1b[0mhello\n")) << terminal.shown();
  EXPECT_THAT(node.err(), Not(HasSubstr("\x1b"))) << "stderr is a file";
}

TEST_F(LogsTest, ADumbTerminalIsUsedLikeAPipe) {
  Terminal terminal;
  Program node({"sh", "-c", "exec \"$0\" \"$@\" > " + terminal.name(), DdprunPath(), "--log-dir",
                folder_ / "logs", "sh", "-c", "printf '\\r50%%\\r100%%\\n'"},
               {{"TERM", "dumb"}});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_TRUE(terminal.WaitFor("[default0]:\r50%\r100%\n")) << terminal.shown();
}

// Seen red when log files had no maximum size.
TEST_F(LogsTest, AFileIsKeptAtItsSize) {
  std::ofstream(folder_ / "job.yaml") << "logs: {redirects: 3, max_size: 64KiB}\n";
  ASSERT_EQ(Run(1, "seq -f 'line %06g' 100000", {"-c", folder_ / "job.yaml"}), 0) << err();
  const std::string older = Log("0/stdout.log.1");
  const std::string newer = Log("0/stdout.log");
  EXPECT_LE(older.size(), 64u << 10);
  EXPECT_GT(older.size(), 63u << 10);
  EXPECT_LE(newer.size(), 64u << 10);
  // The last lines of the output, complete and in order.
  std::istringstream lines(older + newer);
  const std::size_t count = (older.size() + newer.size()) / std::string("line 000000\n").size();
  std::size_t next = 100'000 - count;
  for (std::string line; std::getline(lines, line);) {
    std::string number = std::to_string(++next);
    ASSERT_EQ(line, "line " + std::string(6 - number.size(), '0') + number);
  }
  EXPECT_EQ(next, 100'000u);
  EXPECT_FALSE(std::filesystem::exists(job_->run(0) + "/attempt_0/0/stdout.log.2"));
}

TEST_F(LogsTest, OldRunsOfTheJobAreRemoved) {
  std::ofstream(folder_ / "job.yaml") << "logs: {keep_runs: 2}\n";
  const std::vector<std::string> flags = {"-c", folder_ / "job.yaml", "--rdzv-id", "mine"};
  ASSERT_EQ(Run(1, "true", {"--rdzv-id", "other"}), 0) << err();
  const std::string others = RunBelow(job_->logs(0));
  ASSERT_EQ(Run(1, "true", flags), 0) << err();
  ASSERT_EQ(Run(1, "true", flags), 0) << err();
  EXPECT_THAT(err(), Not(HasSubstr("removed")));
  ASSERT_EQ(Run(1, "true", flags), 0) << err();
  EXPECT_THAT(err(),
              HasSubstr("logs.keep_runs: removed the old run folder " + job_->logs(0) + "/mine_"));
  int mine = 0;
  for (const auto& entry : std::filesystem::directory_iterator(job_->logs(0))) {
    if (entry.path() != others) ++mine;
  }
  EXPECT_EQ(mine, 2);
  EXPECT_TRUE(std::filesystem::exists(others));
}

}  // namespace logs_test
}  // namespace ddprun
