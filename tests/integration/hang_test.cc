// ddprun notices workers that do not move, names them, and then restarts them or leaves them alone.
// Real processes report their steps over the control socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/job.h"

namespace ddprun {
namespace hang_test {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Two ranks that make a step every 50 ms and wait for each other at each step, by files. In
// generation 0 rank 1 stops at step 10, in the way that the argument says. With these arguments it
// sleeps before its first message:
//   init    rank 0 reports that it is in init()
//   early   neither rank reports anything
//   import  both ranks have imported the module ddprun
constexpr char kWorker[] = R"(
import os, pathlib, signal, socket, sys, time
folder, fault = pathlib.Path(sys.argv[1]), sys.argv[2]
rank, generation = int(os.environ['RANK']), os.environ['DDPRUN_GENERATION']
if fault == 'import':
    import ddprun
if rank == 1 and generation == '0' and fault in ('init', 'early', 'import'):
    while True: time.sleep(1000)
agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.connect(os.environ['DDPRUN_CONTROL_SOCKET'])
if fault == 'init': agent.send(b'PHASE=init')
def mark(step, of): return folder / f'{generation}.{step}.{of}'
for step in range(30):
    if rank == 1 and step == 10 and generation == '0':
        if fault == 'stop':
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == 'sleep':
            while not (folder / 'wake').exists(): time.sleep(0.01)
    mark(step, rank).touch()
    while not mark(step, 1 - rank).exists(): time.sleep(0.005)
    if fault != 'silent': agent.send(b'STEP=%d' % step)
    time.sleep(0.15 if fault == 'silent' else 0.05)
print('done', rank)
)";

// Reports a step from a process in a session of its own whose parent has ended.
constexpr char kFar[] = R"(
import os, socket, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.3)
        agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        agent.connect(os.environ['DDPRUN_CONTROL_SOCKET'])
        agent.send(b'STEP=1')
        agent.send(b'STEP=2')
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(2)
)";

class HangTest : public testing::Test {
 protected:
  HangTest() { std::ofstream(folder_ / "worker.py") << kWorker; }

  Program& Start(const std::string& fault, std::vector<std::string> flags,
                 const std::vector<std::string>& wrapper = {}) {
    flags.insert(flags.end(), {"--nproc-per-node", "2", "--hang-timeout", "3s", "--max-restarts",
                               "1", "--report", folder_ / "report.json"});
    flags.insert(flags.end(), wrapper.begin(), wrapper.end());
    flags.insert(flags.end(), {folder_ / "worker.py", folder_.path(), fault});
    job_ = std::make_unique<Job>(folder_.path());
    return job_->AddNode(flags);
  }
  std::string err() { return job_->node(0).err(); }
  nlohmann::json Report() { return nlohmann::json::parse(ReadFile(folder_ / "report.json")); }

  TempDir folder_;
  std::unique_ptr<Job> job_;
};

TEST_F(HangTest, AStoppedWorkerIsNamedAndTheJobGoesOnToItsEnd) {
  EXPECT_EQ(Start("stop", {"--on-hang", "restart"}).ExitCode(), 0) << err();
  EXPECT_THAT(err(), HasSubstr("hangs: no rank has moved for "));
  EXPECT_THAT(err(), HasSubstr("rank 1 on "));
  EXPECT_THAT(err(), HasSubstr("is stopped by a signal"));
  EXPECT_THAT(err(), HasSubstr("restart 1 of 1"));
  const auto cause = Report().at("earlier_generations").at(0);
  EXPECT_EQ(cause.at("kind"), "hung");
  EXPECT_EQ(cause.at("rank"), 1);
  EXPECT_EQ(cause.at("step"), 9);
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

// A shell script without `exec`: the rank is a child of the shell. Seen red when ddprun looked at
// the shell alone: "all ranks look alike".
TEST_F(HangTest, AStoppedChildOfAShellIsNamedAndItsStackIsTheRanks) {
  EXPECT_EQ(Start("stop", {"--on-hang", "restart"}, {"sh", "-c", "python3 \"$@\"; exit $?", "sh"})
                .ExitCode(),
            0)
      << err();
  EXPECT_THAT(err(), ContainsRegex("rank 1 on .* is stopped by a signal .*: process [0-9]+ \\("));
  EXPECT_THAT(err(), HasSubstr("<module> worker.py:"));
  EXPECT_THAT(ReadFile(job_->run(0) + "/stacks.0.txt"),
              ContainsRegex("other threads:(.|\n)*process sh"));
  EXPECT_THAT(err(), HasSubstr("restart 1 of 1"));
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

// Seen red when ddprun found a worker's processes by their process group alone: no verdict, and no
// message.
TEST_F(HangTest, AChildInASessionOfItsOwnIsJudged) {
  EXPECT_EQ(Start("stop", {"--on-hang", "restart"}, {"setsid", "-w", "python3"}).ExitCode(), 0)
      << err();
  EXPECT_THAT(err(), ContainsRegex("rank 1 on .* is stopped by a signal .*: process [0-9]+ \\("));
  EXPECT_THAT(err(), HasSubstr("restart 1 of 1"));
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

// The parent of the process has ended. The process still has the control socket of rank 1.
TEST_F(HangTest, StepsOfAProcessThatDescendsFromNoWorkerAreToldOnce) {
  std::ofstream(folder_ / "far.py") << kFar;
  job_ = std::make_unique<Job>(folder_.path());
  Program& node = job_->AddNode({folder_ / "far.py"});
  EXPECT_EQ(node.ExitCode(), 0) << err();
  EXPECT_THAT(err(), ContainsRegex("process [0-9]+ \\(.*\\) reports steps and is not a descendant "
                                   "of any worker: such steps do not count"));
}

TEST_F(HangTest, WithReportTheWorkersAreLeftAloneAndGoOnWhereTheyCan) {
  Program& node = Start("sleep", {"--on-hang", "report"});
  ASSERT_TRUE(node.WaitForErr("hangs: no rank has moved")) << err();
  std::ofstream(folder_ / "wake").put('1');
  EXPECT_EQ(node.ExitCode(), 0) << err();
  EXPECT_THAT(err(), HasSubstr("moves again"));
  EXPECT_THAT(err(), Not(HasSubstr("restart 1 of")));
}

TEST_F(HangTest, ARankThatNeverReachesInitIsNamedWhileTheOtherWaitsThere) {
  EXPECT_EQ(Start("init", {"--on-hang", "restart", "--hang-startup-timeout", "4s"}).ExitCode(), 0)
      << err();
  EXPECT_THAT(err(), ContainsRegex("1 of 2 ranks is in init\\(\\); missing 1 on .*: rank 1 \\(pid "
                                   "[0-9]+\\) started [0-9.]+ s ago, now in "));
  EXPECT_THAT(err(), HasSubstr("before the first step"));
  EXPECT_THAT(err(), HasSubstr("restart 1 of 1"));
  const auto cause = Report().at("earlier_generations").at(0);
  EXPECT_EQ(cause.at("kind"), "hung");
  EXPECT_EQ(cause.at("rank"), 1);
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

// An unmodified program reports nothing before its first step; with --auto-step it reports its
// start.
TEST_F(HangTest, WithAutoStepAProgramIsJudgedFromItsStartOn) {
  EXPECT_EQ(Start("early", {"--auto-step", "--on-hang", "restart", "--hang-startup-timeout", "4s"})
                .ExitCode(),
            0)
      << err();
  EXPECT_THAT(err(), ContainsRegex("no rank has moved for .* before the first step"));
  EXPECT_THAT(err(), HasSubstr("restart 1 of 1"));
}

TEST_F(HangTest, AProgramThatImportsTheModuleIsJudgedFromThereOn) {
  EXPECT_EQ(Start("import", {"--on-hang", "restart", "--hang-startup-timeout", "4s"}).ExitCode(), 0)
      << err();
  EXPECT_THAT(err(), ContainsRegex("no rank has moved for .* before the first step"));
  EXPECT_THAT(err(), HasSubstr("restart 1 of 1"));
}

// With a simpler rule this program would hang: no step came for longer than the limit.
TEST_F(HangTest, AProgramThatTellsNothingIsNotJudged) {
  Program& node = Start("silent", {"--on-hang", "restart", "--hang-startup-timeout", "3s"});
  EXPECT_EQ(node.ExitCode(), 0) << err();
  EXPECT_THAT(err(), Not(HasSubstr("hangs")));
}

// Seen red when ddprun said this after a minute.
TEST_F(HangTest, OfAPythonProgramThatImportsNothingItIsSaidSoon) {
  Program& node = Start("early", {});
  ASSERT_TRUE(node.WaitForErr("no worker has told a step for 15 s")) << err();
  EXPECT_THAT(err(), HasSubstr("if this job hangs, ddprun does not notice. Python: --auto-step"));
  node.Signal(SIGINT);
  EXPECT_EQ(node.ExitCode(), 128 + SIGINT);
}

TEST_F(HangTest, WithoutARestartTheJobEndsWithTheCodeOfItsSignal) {
  job_ = std::make_unique<Job>(folder_.path());
  Program& node = job_->AddNode({"--nproc-per-node", "2", "--hang-timeout", "3s", "--on-hang",
                                 "restart", "--report", folder_ / "report.json",
                                 folder_ / "worker.py", folder_.path(), "stop"});
  EXPECT_EQ(node.ExitCode(), 128 + SIGABRT) << err();
  EXPECT_EQ(Report().at("root_cause").at("kind"), "hung");
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

// ---- stacks: tests/programs/hang_worker.cc; its rank 1 hangs in ReadTheNextShard ----

class HangStacksTest : public testing::Test {
 protected:
  // A node of `workers` workers, with a report of its own.
  Program& AddNode(Job& job, int nodes, int workers, const std::string& report = "report.json") {
    return job.AddNode({"--rdzv-endpoint",  daemon_.endpoint(),
                        "--rdzv-id",        "job",
                        "--nnodes",         std::to_string(nodes),
                        "--nproc-per-node", std::to_string(workers),
                        "--rdzv-conf",      "last_call_timeout=0",
                        "--hang-timeout",   "3s",
                        "--on-hang",        "restart",
                        "--max-restarts",   "1",
                        "--report",         folder_ / report,
                        HANG_WORKER,        folder_.path()});
  }
  nlohmann::json Read(const std::string& file) {
    return nlohmann::json::parse(ReadFile(file), nullptr, /*allow_exceptions=*/false);
  }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
};

TEST_F(HangStacksTest, TheReportNamesTheRankAndTheFunctionThatItHangsIn) {
  Job job(folder_.path());
  Program& node = AddNode(job, 1, 3);
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(node.err(), ContainsRegex("rank 1 on .* is in ReadTheNextShard hang_worker.cc:"));
  EXPECT_THAT(node.err(), ContainsRegex("  rank 1: Train .* → ReadTheNextShard .* → pause since "));
  EXPECT_THAT(node.err(), ContainsRegex("2 \\[0,2\\] .*WaitForThePeers")) << "the tree";
  EXPECT_THAT(node.err(), HasSubstr("restart 1 of 1"));

  const auto report = Read(folder_ / "report.json");
  const auto cause = report.at("earlier_generations").at(0);
  EXPECT_EQ(cause.at("kind"), "hung");
  EXPECT_EQ(cause.at("rank"), 1);
  std::string frames;
  for (const auto& frame : cause.at("frames")) frames += frame.at("function").dump() + " ";
  EXPECT_THAT(frames, HasSubstr("\"ReadTheNextShard\" \"Train\" \"main\""));
  EXPECT_EQ(report.at("hang").at("stacks").at("main").at(0).at("function"), "main");
  EXPECT_EQ(report.at("hang").at("stacks").at("main").at(0).at("count"), 3);

  EXPECT_THAT(ReadFile(job.run(0) + "/stacks.0.txt"),
              AllOf(HasSubstr("job job hangs: no rank has moved"), HasSubstr("ReadTheNextShard")));
  EXPECT_EQ(Read(job.run(0) + "/stacks.0.json").at("stacks").at("ranks").dump(), "[[0,2]]");

  Program events({DdprunPath(), "events", "job", "--rdzv-endpoint", daemon_.endpoint()});
  EXPECT_EQ(events.ExitCode(), 0) << events.err();
  EXPECT_THAT(events.out(), ContainsRegex("\"event\":\"hung\".*\"stacks\":.*ReadTheNextShard"));
  EXPECT_THAT(job.Survivors(), IsEmpty());
}

// The agent's helper for stacks does not start. The agent's loop and its heartbeats continue.
TEST_F(HangStacksTest, AnAgentThatDoesNotAnswerIsNamedAndTheJobStartsAgain) {
  std::ofstream(folder_ / "mute").put('1');
  Job job(folder_.path());
  Job mute(folder_ / "mute_node", {{"LD_PRELOAD", HANG_STACKS_LIBRARY},
                                   {"HANG_STACKS", folder_ / "mute"},
                                   {"ASAN_OPTIONS", "verify_asan_link_order=0"}});
  Program& node = AddNode(job, 2, 3);
  Program& other = AddNode(mute, 2, 1, "other.json");
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_EQ(other.ExitCode(), 0) << other.err();
  for (Program* const program : {&node, &other}) {
    EXPECT_THAT(program->err(), HasSubstr("no stacks came within 5 s from "));
    EXPECT_THAT(program->err(), HasSubstr("restart 1 of 1"));
  }
  EXPECT_EQ(Read(folder_ / "report.json").at("hang").at("missing").size(), 1u);
  EXPECT_EQ(Read(folder_ / "report.json").at("earlier_generations").at(0).at("kind"), "hung");
  EXPECT_THAT(job.Survivors(), IsEmpty());
  EXPECT_THAT(mute.Survivors(), IsEmpty());
}

}  // namespace hang_test
}  // namespace ddprun
