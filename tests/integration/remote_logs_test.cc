// `ddprun logs`: the output of workers, read from another host, with the real daemon, agents and
// workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/job.h"

namespace ddprun {
namespace remote_logs_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

class RemoteLogsTest : public testing::Test {
 protected:
  RemoteLogsTest() { fs::create_directories(go()); }

  // In a worker's script, `hold NAME` waits until NAME is in this folder, and `tell NAME` creates
  // it. Go(NAME) creates it, too.
  std::string go() const { return folder_ / "go"; }
  void Go(const std::string& name) { fs::create_directories(go() + "/" + name); }

  std::vector<std::string> Logs(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {DdprunPath(), "logs", "train"});
    return arguments;
  }
  Program Following(std::vector<std::string> arguments) const {
    return Program(Logs(std::move(arguments)), environment_);
  }
  Result Read(std::vector<std::string> arguments) const {
    Program program(Logs(std::move(arguments)), environment_);
    const int code = program.ExitCode();
    return {code, program.out(), program.err()};
  }

  // Two nodes of two workers each.
  void Start(const std::string& script, std::vector<std::string> more = {}) {
    const std::string hold = "hold() { until [ -e " + go() +
                             "/$1 ]; do sleep 0.01; done; }; tell() { mkdir " + go() + "/$1; }; ";
    for (int node = 0; node < 2; ++node) {
      std::vector<std::string> arguments = {
          "--rdzv-endpoint",  daemon_.endpoint(),
          "--rdzv-id",        "train",
          "--nnodes",         "2",
          "--rdzv-conf",      "last_call_timeout=0",
          "--nproc-per-node", "2",
          "--local-addr",     "127.0.0." + std::to_string(node + 1),
          "--stop-grace",     "1s",
          "--no-python"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      arguments.insert(arguments.end(), {"/bin/sh", "-c", hold + script});
      job_.AddNode(arguments);
    }
  }
  bool Told(const std::string& name) const {
    return WaitForChange(go(), [&] { return fs::exists(go() + "/" + name); });
  }
  void AwaitLine(int node, const std::string& text) {
    ASSERT_TRUE(job_.node(static_cast<std::size_t>(node)).WaitForOut(text));
  }
  // The node that has this rank: the nodes join in any order.
  std::size_t NodeOf(int rank) const {
    const std::string name = "/attempt_0/by_rank/" + std::to_string(rank);
    return fs::exists(fs::symlink_status(job_.run(0) + name)) ? 0 : 1;
  }

  const TempDir folder_;
  Daemon daemon_{folder_.path()};
  const std::map<std::string, std::string> environment_{
      {"DDPRUN_RDZV_ENDPOINT", daemon_.endpoint()}};
  Job job_{folder_.path()};
};

TEST_F(RemoteLogsTest, RanksOfTwoNodesAreReadByRankStreamAndPattern) {
  Start("for i in 1 2 3; do echo step $i of $RANK; done; echo oops $RANK >&2; hold end");
  for (int node = 0; node < 2; ++node) {
    AwaitLine(node, "step 3");
    ASSERT_TRUE(job_.node(static_cast<std::size_t>(node)).WaitForErr("oops"));
  }
  const Result one = Read({"--rank", "3", "--stdout", "--tail", "2"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "step 2 of 3\nstep 3 of 3\n");
  EXPECT_EQ(Read({"--rank", "1-2", "--grep", "step [13]|oops"}).out,
            "[1]:step 1 of 1\n[1]:step 3 of 1\n[1 stderr]:oops 1\n"
            "[2]:step 1 of 2\n[2]:step 3 of 2\n[2 stderr]:oops 2\n");
  EXPECT_EQ(Read({"--stderr"}).out,
            "[0 stderr]:oops 0\n[1 stderr]:oops 1\n[2 stderr]:oops 2\n[3 stderr]:oops 3\n");
  EXPECT_EQ(Read({"--rank", "0", "--stdout", "--since", "1h"}).out,
            "step 1 of 0\nstep 2 of 0\nstep 3 of 0\n");

  const Result no_such = Read({"--rank", "4"});
  EXPECT_EQ(no_such.code, 1);
  EXPECT_THAT(no_such.err, HasSubstr("generation 0 of job train has ranks 0 to 3 (found 4)"));
  const Result pattern = Read({"--grep", "("});
  EXPECT_EQ(pattern.code, 64);
  EXPECT_THAT(pattern.err, HasSubstr("--grep: expected a regular expression"));
  Go("end");
  for (int node = 0; node < 2; ++node)
    EXPECT_EQ(job_.node(static_cast<std::size_t>(node)).ExitCode(), 0);
  const Result over = Read({"--rank", "0", "--stdout"});
  EXPECT_EQ(over.code, 1);
  EXPECT_THAT(over.err, AllOf(HasSubstr("is not connected; the file is "),
                              HasSubstr(job_.run(NodeOf(0)) + "/attempt_0/")));
}

TEST_F(RemoteLogsTest, FollowingGoesOnIntoTheNextGenerationUntilTheJobEnds) {
  Start(
      "echo generation $DDPRUN_GENERATION of $RANK; hold $DDPRUN_GENERATION; "
      "test $DDPRUN_GENERATION = 1",
      {"--max-restarts", "1"});
  AwaitLine(0, "generation 0");
  Program follower = Following({"--follow", "--rank", "1", "--stdout"});
  ASSERT_TRUE(follower.WaitForOut("generation 0 of 1"));
  Go("0");
  ASSERT_TRUE(follower.WaitForOut("generation 1 of 1"));
  Go("1");
  EXPECT_EQ(follower.ExitCode(), 0) << follower.err();
  EXPECT_EQ(follower.out(), "generation 0 of 1\ngeneration 1 of 1\n");
  EXPECT_THAT(follower.err(), HasSubstr("generation 1"));
}

TEST_F(RemoteLogsTest, WhatAJobEndedForCanBeReadWhenItsAgentsAreGone) {
  Start(
      "echo rank $RANK begins; hold end; test $RANK != 2 || { echo Traceback >&2; echo say no "
      "more; exit 3; }; "
      "exec sleep 1000",
      {"--max-restarts", "0"});
  AwaitLine(0, "begins");
  AwaitLine(1, "begins");
  Go("end");
  for (int node = 0; node < 2; ++node)
    EXPECT_EQ(job_.node(static_cast<std::size_t>(node)).ExitCode(), 3);
  const Result ended = Read({});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "[2]:rank 2 begins\n[2]:say no more\n[2 stderr]:Traceback\n");
  EXPECT_THAT(ended.err, HasSubstr("generation 0: what the rendezvous has kept of rank 2; other "
                                   "ranks: --rank"));
  EXPECT_EQ(Read({"--rank", "2", "--stdout", "--tail", "1"}).out, "say no more\n");
  const Result since = Read({"--rank", "2", "--stdout", "--since", "1s"});
  EXPECT_EQ(since.code, 0) << since.err;
  EXPECT_EQ(since.out, "rank 2 begins\nsay no more\n");
  EXPECT_THAT(since.err, HasSubstr("--since does not shorten them"));
}

TEST_F(RemoteLogsTest, AnAgentThatIsLostEndsItsFilesAndTheOthersGoOn) {
  Start("echo rank $RANK begins; exec sleep 1000");
  AwaitLine(0, "begins");
  Program follower = Following({"--follow", "--generation", "0", "--rank", "0,2", "--stdout"});
  ASSERT_TRUE(follower.WaitForOut("rank 0 begins"));
  ASSERT_TRUE(follower.WaitForOut("rank 2 begins"));
  job_.node(NodeOf(2)).Signal(SIGKILL);
  ASSERT_TRUE(follower.WaitForErr("has lost contact"));
  EXPECT_EQ(follower.ExitCode(), 1);
  EXPECT_THAT(follower.err(), AllOf(HasSubstr("[2]: the agent on "), HasSubstr("the file is "),
                                    HasSubstr("/attempt_0/0/stdout.log")));
}

// The follower of the logs is stopped and reads nothing. The worker still writes 30 MB.
TEST_F(RemoteLogsTest, AReaderThatIsStoppedHoldsUpNobody) {
  Start(
      "echo rank $RANK begins; tell begun$RANK; hold flood; test $RANK != 1 || "
      "{ head -c 30000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo done; tell done; }; "
      "hold end",
      {"-r", "3"});
  ASSERT_TRUE(Told("begun1"));
  Program follower = Following({"--follow", "--rank", "1", "--stdout"});
  ASSERT_TRUE(follower.WaitForOut("begins"));
  follower.Signal(SIGSTOP);
  Go("flood");
  ASSERT_TRUE(Told("done"));
  const Result tail = Read({"--rank", "1", "--stdout", "--tail", "1"});
  EXPECT_EQ(tail.out, "done\n") << "another reader is not held up either";
  Go("end");
  for (int node = 0; node < 2; ++node)
    EXPECT_EQ(job_.node(static_cast<std::size_t>(node)).ExitCode(), 0);
  follower.Signal(SIGCONT);
  follower.ExitCode();
  EXPECT_THAT(follower.err(), Not(HasSubstr("more than it was asked for")));
}

TEST_F(RemoteLogsTest, ALinkInPlaceOfALogIsNotFollowed) {
  std::ofstream(folder_ / "secret") << "secret\n";
  Start("test $RANK != 1 || { d=$DDPRUN_RUN_DIR/attempt_0/$LOCAL_RANK; ln -sf " +
        (folder_ / "secret") + " $d/stderr.log; }; echo ready; hold end");
  AwaitLine(0, "ready");
  AwaitLine(1, "ready");
  const Result link = Read({"--rank", "1", "--stderr"});
  EXPECT_EQ(link.code, 1);
  EXPECT_EQ(link.out, "");
  EXPECT_THAT(link.err, HasSubstr("stderr.log is a link, and is not followed"));
  Go("end");
}

TEST_F(RemoteLogsTest, TheHistoryIsATrace) {
  Start("exit 0");
  for (int node = 0; node < 2; ++node)
    EXPECT_EQ(job_.node(static_cast<std::size_t>(node)).ExitCode(), 0);
  Program program({DdprunPath(), "events", "train", "--trace"}, environment_);
  EXPECT_EQ(program.ExitCode(), 0) << program.err();
  EXPECT_THAT(program.out(),
              AllOf(HasSubstr("\"traceEvents\":[{"), HasSubstr("generation 0"),
                    HasSubstr("job train"), HasSubstr("#2 (job train)"), HasSubstr("\"rank 3\"")));
}

// With a token, a job belongs to the token's holders.
TEST(RemoteLogsOwnerTest, AnotherOwnerHasNoSuchJob) {
  const TempDir folder;
  const auto token = [&](const std::string& name, const std::string& secret) {
    const std::string file = folder / name;
    std::ofstream(file) << secret << "\n";
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    return file;
  };
  const std::string tokens = token(
      "tokens", "alice:0123456789abcdef0123456789abcdef\nbob:fedcba9876543210fedcba9876543210");
  const std::string alice = token("alice", "alice:0123456789abcdef0123456789abcdef");
  const std::string bob = token("bob", "bob:fedcba9876543210fedcba9876543210");
  Daemon daemon(folder.path(), {"--token-file", tokens});
  Job job(folder.path());
  Program& node = job.AddNode({"--rdzv-endpoint", daemon.endpoint(), "--rdzv-id", "train",
                               "--nnodes", "1", "--token-file", alice, "--no-python", "/bin/sh",
                               "-c", "echo secret; exec sleep 1000"});
  ASSERT_TRUE(node.WaitForOut("secret"));
  const auto read = [&](const std::string& as) {
    Program program({DdprunPath(), "logs", "train", "--rank", "0", "--stdout", "--rdzv-endpoint",
                     daemon.endpoint(), "--token-file", as});
    const int code = program.ExitCode();
    return Result{code, program.out(), program.err()};
  };
  EXPECT_EQ(read(alice).out, "secret\n");
  const Result other = read(bob);
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(other.out, "");
  EXPECT_THAT(other.err, HasSubstr("there is no job train"));
}

}  // namespace remote_logs_test
}  // namespace ddprun
