// One node: ddprun with its own rendezvous, and real processes that do not train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/job.h"

namespace ddprun {
namespace one_node_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class OneNodeTest : public testing::Test {
 protected:
  // Runs ddprun to its end.
  int Run(std::vector<std::string> arguments, std::map<std::string, std::string> environment = {}) {
    job_ = std::make_unique<Job>(folder_.path(), std::move(environment));
    return job_->AddNode(std::move(arguments)).ExitCode();
  }
  int RunScript(int workers, const std::string& script, std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--nproc-per-node", std::to_string(workers), "sh", "-c", script});
    return Run(flags);
  }
  std::string err() { return job_->node(0).err(); }
  std::string out() { return job_->node(0).out(); }

  TempDir folder_;
  std::unique_ptr<Job> job_;
};

TEST_F(OneNodeTest, SucceedsWhenEveryWorkerExitsWithZero) {
  EXPECT_EQ(RunScript(3, "exit 0"), 0) << err();
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

TEST_F(OneNodeTest, GivesTheWorkersOwnExitCode) {
  for (const int code : {1, 3, 77, 255}) {
    EXPECT_EQ(RunScript(1, "exit " + std::to_string(code)), code) << err();
  }
  EXPECT_EQ(RunScript(2, "[ $RANK = 1 ] && kill -SEGV $$; exec sleep 1000"), 128 + SIGSEGV);
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

// The worker reports nothing on the control socket, and no restart is allowed.
TEST_F(OneNodeTest, APythonWorkerThatFindsItsPortTakenGetsAnotherOne) {
  std::ofstream(folder_ / "train.py")
      << "import os, socket\n"
         "first = os.environ['DDPRUN_GENERATION'] == '0'\n"
         "address = ('127.0.0.1', int(os.environ['MASTER_PORT']))\n"
         "taken = socket.create_server(address) if first else None\n"
         "socket.create_server(address)\n"
         "print('port', address[1])\n";
  EXPECT_EQ(Run({"--max-restarts", "0", folder_ / "train.py"}), 0) << err();
  EXPECT_THAT(err(), HasSubstr("Address already in use"));
  EXPECT_THAT(err(), HasSubstr("the job succeeded after 0 restarts"));
  EXPECT_THAT(out(), HasSubstr("port "));
}

TEST_F(OneNodeTest, WorkersHaveTorchrunsEnvironmentAndOurs) {
  ASSERT_EQ(Run({"--nproc-per-node", "2", "--max-restarts", "4", "--role", "trainer", "--rdzv-id",
                 "exp-7", "--checkpoint-dir", "ckpt", "sh", "-c", "env"},
                {{"DDPRUN_SNAPSHOT_DIR", ""}}),
            0)
      << err();
  const auto lines = ReadLines(job_->run(0) + "/attempt_0/1/stdout.log");
  const std::string worker = job_->run(0) + "/attempt_0/1";
  for (const std::string& expected :
       std::vector<std::string>{"RANK=1",
                                "LOCAL_RANK=1",
                                "GROUP_RANK=0",
                                "ROLE_RANK=1",
                                "ROLE_NAME=trainer",
                                "WORLD_SIZE=2",
                                "LOCAL_WORLD_SIZE=2",
                                "GROUP_WORLD_SIZE=1",
                                "ROLE_WORLD_SIZE=2",
                                "MASTER_ADDR=127.0.0.1",
                                "TORCHELASTIC_RESTART_COUNT=0",
                                "TORCHELASTIC_MAX_RESTARTS=4",
                                "TORCHELASTIC_RUN_ID=exp-7",
                                "TORCHELASTIC_USE_AGENT_STORE=True",
                                "TORCHELASTIC_ERROR_FILE=" + worker + "/error.json",
                                "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
                                "NCCL_ASYNC_ERROR_HANDLING=1",
                                "OMP_NUM_THREADS=1",
                                "DDPRUN_EPOCH=0",
                                "DDPRUN_GENERATION=0",
                                "DDPRUN_RUN_DIR=" + job_->run(0),
                                "DDPRUN_CHECKPOINT_DIR=" + SourceDir() + "/ckpt"}) {
    EXPECT_THAT(lines, Contains(expected));
  }
  EXPECT_THAT(lines, Contains(testing::MatchesRegex("MASTER_PORT=[1-9][0-9]*")));
  EXPECT_THAT(lines, Contains(StartsWith("DDPRUN_CONTROL_SOCKET=/")));
  EXPECT_THAT(lines, Contains(StartsWith("DDPRUN_SNAPSHOT_DIR=/dev/shm/ddprun-")));
  EXPECT_THAT(lines, Not(Contains(StartsWith("DDPRUN_RESTORE_"))));
}

TEST_F(OneNodeTest, WhatIsPromisedUnlessSetIsLeftToTheUser) {
  ASSERT_EQ(Run({"--nproc-per-node", "2", "sh", "-c",
                 "echo $OMP_NUM_THREADS $TORCH_NCCL_ASYNC_ERROR_HANDLING"},
                {{"OMP_NUM_THREADS", "5"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}}),
            0);
  EXPECT_EQ(ReadFile(job_->run(0) + "/attempt_0/0/stdout.log"), "5 0\n");
}

TEST_F(OneNodeTest, LocalRankIsPutIntoTheArguments) {
  ASSERT_EQ(Run({"--nproc-per-node", "2", "sh", "-c", "echo ${local_rank}"}), 0);
  EXPECT_EQ(ReadFile(job_->run(0) + "/attempt_0/1/stdout.log"), "1\n");
}

TEST_F(OneNodeTest, EachLineHasItsRankInFrontAndIsNeverTorn) {
  // 8 workers write 2,000 lines each, in halves.
  ASSERT_EQ(RunScript(8, "for i in $(seq 2000); do printf 'line '; echo \"$RANK.$i\"; done"), 0);
  std::map<std::string, int> next;
  std::istringstream lines(out());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string rank = line.substr(8, 1);
    const std::string expected =
        "[default" + rank + "]:line " + rank + "." + std::to_string(++next[rank]);
    ASSERT_EQ(line, expected);
  }
  EXPECT_EQ(count, 16000);
}

TEST_F(OneNodeTest, LogsStandInTorchrunsLayoutWithLinksByRank) {
  ASSERT_EQ(RunScript(2, "echo out$RANK; echo err$RANK >&2; printf half"), 0);
  const std::string attempt = job_->run(0) + "/attempt_0";
  EXPECT_EQ(ReadFile(attempt + "/0/stdout.log"), "out0\nhalf");
  EXPECT_EQ(ReadFile(attempt + "/1/stderr.log"), "err1\n");
  EXPECT_EQ(ReadFile(attempt + "/by_rank/1/stdout.log"), "out1\nhalf");
  EXPECT_THAT(out(), HasSubstr("[default0]:half\n"));
  EXPECT_THAT(err(), HasSubstr("[default1]:err1\n"));
}

TEST_F(OneNodeTest, RestartsUntilTheBudgetIsSpentAndSaysWhatBroke) {
  const std::string report = folder_ / "report.json";
  ASSERT_EQ(RunScript(2,
                      "[ $RANK = 1 ] || exec sleep 1000; echo \"boom $TORCHELASTIC_RESTART_COUNT\" "
                      ">&2; kill -KILL $$",
                      {"--max-restarts", "2", "--report", report}),
            128 + SIGKILL);
  const auto json = nlohmann::json::parse(ReadFile(report));
  EXPECT_EQ(json["outcome"], "failed");
  EXPECT_EQ(json["exit_code"], 137);
  EXPECT_EQ(json["restarts"], 2);
  EXPECT_EQ(json["root_cause"]["rank"], 1);
  EXPECT_EQ(json["root_cause"]["signal"], "SIGKILL");
  EXPECT_EQ(json["root_cause"]["generation"], 2);
  EXPECT_EQ(json["root_cause"]["stderr_tail"], nlohmann::json::array({"boom 2"}));
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  EXPECT_EQ(json["root_cause"]["host"], host);
  const int pid = json["root_cause"]["pid"];
  EXPECT_THAT(err(), HasSubstr("root cause: rank 1 (local rank 1, pid " + std::to_string(pid) +
                               ") on " + host + ": SIGKILL (generation 2, at "));
  EXPECT_THAT(err(), HasSubstr("no restart is left (2 of 2 used)"));
  for (const std::string attempt : {"0", "1", "2"}) {
    EXPECT_EQ(ReadFile(job_->run(0) + "/attempt_" + attempt + "/1/stderr.log"),
              "boom " + attempt + "\n");
  }
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

TEST_F(OneNodeTest, ARestartThatHelpsEndsWithSuccess) {
  const std::string once = folder_ / "once";
  EXPECT_EQ(
      RunScript(2, "mkdir " + once + " 2>/dev/null && exit 1; exit 0", {"--max-restarts", "1"}), 0);
  EXPECT_THAT(err(), HasSubstr("succeeded after 1 restart"));
}

TEST_F(OneNodeTest, TheControlSocketTellsTheReportTheStepAndTheError) {
  const std::string report = folder_ / "report.json";
  ASSERT_EQ(Run({"--report", report, "/usr/bin/python3", "-c",
                 "import os, socket, sys\n"
                 "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                 "s.connect(os.environ['DDPRUN_CONTROL_SOCKET'])\n"
                 "s.send(b'READY=1')\n"
                 "s.send(b'STEP=41')\n"
                 "s.send(b'STEP=42\\nERROR=user loss is NaN')\n"
                 "sys.exit(9)\n"}),
            9)
      << err();
  const auto cause = nlohmann::json::parse(ReadFile(report))["root_cause"];
  EXPECT_EQ(cause["step"], 42);
  EXPECT_EQ(cause["error_kind"], "user");
  EXPECT_EQ(cause["error"], "loss is NaN");
}

TEST_F(OneNodeTest, ACommandThatCannotBeExecutedIsNamedAndNotTriedAgain) {
  EXPECT_EQ(Run({"--max-restarts", "3", "./trian"}), 127);
  EXPECT_THAT(err(), HasSubstr("cannot start rank 0 on "));
  EXPECT_THAT(err(), HasSubstr(": ./trian: no such file"));
  EXPECT_EQ(Run({"--max-restarts", "3", "./LICENSE"}), 126);
  EXPECT_THAT(err(), HasSubstr("./LICENSE: "));
}

TEST_F(OneNodeTest, WorkersThatIgnoreSigtermAreKilledAfterTheGrace) {
  EXPECT_EQ(RunScript(2,
                      "[ $RANK = 0 ] && { trap '' TERM; touch " + folder_.path() +
                          "/deaf; while :; do sleep 1000; done; }; "
                          "while [ ! -e " +
                          folder_.path() + "/deaf ]; do :; done; exit 5",
                      {"--stop-grace", "100ms"}),
            5)
      << err();
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

TEST_F(OneNodeTest, SignalsEndTheJobWith128PlusTheSignalAndLeaveNothing) {
  for (const int signo : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
    Job job(folder_.path());
    Program& node =
        job.AddNode({"--nproc-per-node", "2", "sh", "-c", "echo up; sleep 1000 & wait"});
    ASSERT_TRUE(node.WaitForOut("[default0]:up"));
    ASSERT_TRUE(node.WaitForOut("[default1]:up"));
    node.Signal(signo);
    EXPECT_EQ(node.ExitCode(), 128 + signo) << node.err();
    EXPECT_THAT(job.Survivors(), IsEmpty());
  }
}

TEST_F(OneNodeTest, UserSignalsReachTheWorkers) {
  Job job(folder_.path());
  Program& node =
      job.AddNode({"sh", "-c", "trap 'exit 6' USR1; echo up; while :; do sleep 0.01; done"});
  ASSERT_TRUE(node.WaitForOut("up"));
  node.Signal(SIGUSR1);
  EXPECT_EQ(node.ExitCode(), 6);
}

TEST_F(OneNodeTest, KillingTheAgentKillsItsWorkers) {
  Job job(folder_.path());
  Program& node = job.AddNode({"--nproc-per-node", "2", "sh", "-c", "echo up; exec sleep 1000"});
  ASSERT_TRUE(node.WaitForOut("[default0]:up"));
  ASSERT_TRUE(node.WaitForOut("[default1]:up"));
  node.Signal(SIGKILL);
  node.Wait();
  // The kernel kills the workers when the agent ends. They are gone when init has reaped them.
  const auto deadline = std::chrono::steady_clock::now() + kHang;
  while (!job.Survivors().empty() && std::chrono::steady_clock::now() < deadline) continue;
  EXPECT_THAT(job.Survivors(), IsEmpty());
}

TEST_F(OneNodeTest, TheSearchForSurvivorsFindsOne) {
  Job job(folder_.path());
  Program planted({"sh", "-c", "echo up; exec sleep 1000"}, {{"DDPRUN_TEST_MARK", job.mark()}});
  ASSERT_TRUE(planted.WaitForOut("up"));
  // While the process executes `sleep`, its environment cannot be read for a moment.
  const auto deadline = std::chrono::steady_clock::now() + kHang;
  while (job.Survivors().empty() && std::chrono::steady_clock::now() < deadline) continue;
  EXPECT_THAT(job.Survivors(), ElementsAre(planted.pid()));
}

TEST_F(OneNodeTest, NothingIsLeftInTemporaryFolders) {
  ASSERT_EQ(RunScript(1,
                      "echo $DDPRUN_CONTROL_SOCKET; echo $DDPRUN_SNAPSHOT_DIR; touch "
                      "$DDPRUN_SNAPSHOT_DIR/slot0"),
            0);
  for (const std::string& path : ReadLines(job_->run(0) + "/attempt_0/0/stdout.log")) {
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
  }
}

TEST_F(OneNodeTest, ABadJobFileIsNamedWithLineAndColumn) {
  const std::string path = folder_ / "job.yaml";
  std::ofstream(path) << "command: [/bin/true]\nnproc_per_node: 0\n";
  EXPECT_EQ(Run({"-c", path}), 65);
  EXPECT_THAT(err(), HasSubstr(path + ":2:17: nproc_per_node: "));
}

TEST_F(OneNodeTest, FlagsWinOverTheFile) {
  const std::string path = folder_ / "job.yaml";
  std::ofstream(path) << "command: [/bin/false]\nnproc_per_node: 1\n";
  EXPECT_EQ(Run({"-c", path, "--nproc-per-node", "2", "--", "sh", "-c", "echo $WORLD_SIZE"}), 0);
  EXPECT_EQ(ReadFile(job_->run(0) + "/attempt_0/0/stdout.log"), "2\n");
}

TEST_F(OneNodeTest, AnUnknownFlagIsAUsageError) { EXPECT_EQ(Run({"--nproc", "2", "true"}), 64); }

TEST_F(OneNodeTest, ALogFolderThatCannotBeMadeIsNamedAlsoInTheReport) {
  const std::string report = folder_ / "report.json";
  Program node({DdprunPath(), "--log-dir", "/proc/nowhere", "--report", report, "true"});
  EXPECT_EQ(node.ExitCode(), 70);
  EXPECT_THAT(node.err(), HasSubstr("cannot make the folder /proc/nowhere"));
  const auto json = nlohmann::json::parse(ReadFile(report));
  EXPECT_EQ(json["outcome"], "failed");
  EXPECT_EQ(json["exit_code"], 70);
}

TEST_F(OneNodeTest, ALongTmpdirIsNotUsedForSockets) {
  const std::string longer = folder_ / std::string(100, 'x');
  std::filesystem::create_directories(longer);
  EXPECT_EQ(Run({"true"}, {{"TMPDIR", longer}}), 0) << err();
}

TEST_F(OneNodeTest, ManyWorkersStartWithTheUsualLimitOfDescriptors) {
  Job job(folder_.path());
  Program node({"sh", "-c",
                "ulimit -Sn 256; exec " + DdprunPath() + " --log-dir " + folder_.path() +
                    "/logs --nproc-per-node 100 sh -c 'ulimit -Sn'"});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(node.out(), HasSubstr("[default99]:256\n")) << "workers get the user's limit";
}

}  // namespace one_node_test
}  // namespace ddprun
