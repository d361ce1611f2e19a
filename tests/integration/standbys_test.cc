// Warm standbys: real processes that wait, replace workers, die, and never outlive the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/job.h"
#include "tests/support/two_cores.h"

namespace ddprun {
namespace standbys_test {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class StandbysTest : public testing::Test {
 protected:
  void Start(const std::string& mode, std::vector<std::string> flags = {"--warm"}) {
    std::vector<std::string> arguments = {"-v", "--nproc-per-node", "2", "--max-restarts", "9"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {STANDBY_WORKER, files_.path(), mode});
    job_ = std::make_unique<Job>(folder_.path(), std::map<std::string, std::string>{
                                                     {"RANK", "77"}, {"DDPRUN_STANDBY", "1"}});
    job_->AddNode(arguments);
  }
  Program& agent() { return job_->node(0); }

  // Waits until the worker with this rank has written in this generation. Returns its lines.
  std::vector<std::string> Worker(int generation, int rank) {
    const std::string path =
        files_.path() + "/" + std::to_string(generation) + "." + std::to_string(rank);
    EXPECT_TRUE(WaitForChange(files_.path(), [&] { return fs::exists(path); })) << path << "\n"
                                                                                << agent().err();
    return ReadLines(path);
  }
  static pid_t PidOf(const std::vector<std::string>& lines) {
    return lines.empty() ? 0 : std::stoi(lines[0].substr(4));
  }
  // Waits for `count` standbys that wait or have waited. Returns their pids.
  std::vector<pid_t> Waiting(std::size_t count) {
    std::vector<pid_t> pids;
    EXPECT_TRUE(WaitForChange(files_.path(), [&] {
      pids.clear();
      for (const auto& entry : fs::directory_iterator(files_.path())) {
        const std::string name = entry.path().filename();
        if (name.starts_with("waits.") && name.find(".tmp") == std::string::npos) {
          pids.push_back(std::stoi(name.substr(6)));
        }
      }
      return pids.size() >= count;
    })) << agent().err();
    // The standby has printed that it is about to wait; the agent's log shows when its message
    // arrived.
    for (const pid_t pid : pids) {
      EXPECT_TRUE(agent().WaitForErr("(pid " + std::to_string(pid) + ") waits"));
    }
    return pids;
  }
  // The pid of the first standby that is still loading.
  pid_t Loading() {
    pid_t pid = 0;
    EXPECT_TRUE(WaitForChange(files_.path(), [&] {
      for (const auto& entry : fs::directory_iterator(files_.path())) {
        const std::string name = entry.path().filename();
        if (name.starts_with("loads.") && name.find(".tmp") == std::string::npos) {
          pid = std::stoi(name.substr(6));
        }
      }
      return pid != 0;
    })) << agent().err();
    return pid;
  }
  void KillGuardianOf(pid_t process) {
    std::stringstream stat(ReadFile("/proc/" + std::to_string(process) + "/stat"));
    std::string word;
    pid_t guardian = 0;
    stat >> word >> word >> word >> guardian;
    kill(guardian, SIGKILL);
  }
  std::string LogOf(int generation, int local_rank, const std::string& file) {
    return ReadFile(job_->run(0) + "/attempt_" + std::to_string(generation) + "/" +
                    std::to_string(local_rank) + "/" + file);
  }
  void EndByTerm() {
    agent().Signal(SIGTERM);
    EXPECT_EQ(agent().ExitCode(), 128 + SIGTERM);
    EXPECT_THAT(job_->Survivors(), IsEmpty());
  }

  TempDir folder_;
  TempDir files_;
  std::unique_ptr<Job> job_;
};

TEST_F(StandbysTest, TakeTheWorkersPlacesWithTheirEnvironmentAndLogFiles) {
  Start("train");
  const auto first = Worker(0, 1);
  EXPECT_THAT(first, Contains("warm no"));
  EXPECT_THAT(first, Not(Contains(StartsWith("DDPRUN_STANDBY="))));
  Worker(0, 0);
  const std::vector<pid_t> standbys = Waiting(2);
  kill(PidOf(first), SIGKILL);

  for (const int rank : {0, 1}) {
    const auto worker = Worker(1, rank);
    EXPECT_THAT(worker, Contains("warm yes"));
    EXPECT_THAT(standbys, Contains(PidOf(worker)));
    EXPECT_THAT(worker, Contains("RANK=" + std::to_string(rank)));
    EXPECT_THAT(worker, Contains("LOCAL_RANK=" + std::to_string(rank)));
    EXPECT_THAT(worker, Contains("TORCHELASTIC_RESTART_COUNT=1"));
    EXPECT_THAT(worker, Contains("DDPRUN_TEST_MARK=" + job_->mark()));
    EXPECT_THAT(worker, Not(Contains(StartsWith("DDPRUN_STANDBY="))));
  }
  EndByTerm();
  for (const int rank : {0, 1}) {
    EXPECT_EQ(LogOf(1, rank, "stdout.log"), "after\n");
    EXPECT_EQ(LogOf(1, rank, "standby/stdout.log"), "before\n");
    EXPECT_EQ(LogOf(1, rank, "standby/stderr.log"), "rank before: none\n");
  }
  EXPECT_THAT(agent().out(), HasSubstr("[default1]:after"));
  EXPECT_THAT(agent().out(), Not(HasSubstr("before")));
}

// Needs a machine with at least two cores.
TEST_F(StandbysTest, RunOnTheCpusOfTheirLocalRank) {
  if (!HasTwoCores()) GTEST_SKIP() << "needs two physical cores";
  Start("train", {"--warm", "--numa-binding", "exclusive"});
  const auto cpus_of = [](pid_t pid) {
    for (const std::string& line : ReadLines("/proc/" + std::to_string(pid) + "/status")) {
      if (line.starts_with("Cpus_allowed_list:\t")) return line.substr(19);
    }
    return std::string("none");
  };
  std::map<int, std::string> bound;
  for (const int rank : {0, 1}) {
    bound[rank] = cpus_of(PidOf(Worker(0, rank)));
    EXPECT_THAT(agent().err(), HasSubstr("local rank " + std::to_string(rank) + " runs on CPUs " +
                                         bound[rank] + "\n"));
  }
  EXPECT_NE(bound[0], bound[1]);
  Waiting(2);
  kill(PidOf(Worker(0, 1)), SIGKILL);
  for (const int rank : {0, 1}) {
    const auto worker = Worker(1, rank);
    EXPECT_THAT(worker, Contains("warm yes"));
    EXPECT_EQ(cpus_of(PidOf(worker)), bound[rank]);
  }
  EndByTerm();
}

TEST_F(StandbysTest, TheTimesOfARestartAreInTheReportTheEventsAndTheLog) {
  Daemon daemon(folder_.path());
  Start("train", {"--warm", "--rdzv-endpoint", daemon.endpoint(), "--report", folder_ / "report"});
  const auto first = Worker(0, 1);
  Worker(0, 0);
  Waiting(2);
  kill(PidOf(first), SIGKILL);
  ASSERT_TRUE(agent().WaitForErr("restart into generation 1, to the first step: "));
  EXPECT_THAT(agent().err(), HasSubstr("2 of 2 workers from standbys"));
  ASSERT_TRUE(WaitForChange(folder_ / "state", [&] {
    return ReadFile(folder_ / "state/events.jsonl").find("resumed") != std::string::npos;
  }));
  EndByTerm();
  nlohmann::json resumed;
  for (const std::string& line : ReadLines(folder_ / "state/events.jsonl")) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] == "resumed") resumed = event;
  }
  const auto report = nlohmann::json::parse(ReadFile(folder_ / "report"));
  ASSERT_EQ(report["restart_times"].size(), 1U);
  for (const nlohmann::json& times : {resumed, report["restart_times"][0]}) {
    EXPECT_EQ(times["generation"], 1);
    EXPECT_EQ(times["warm_workers"], 2);
    EXPECT_EQ(times["to_first_step"], true);
    double sum = 0;
    for (const char* const phase : {"stop", "round", "spawn", "load"}) {
      EXPECT_GT(times["phases_ms"][phase], 0) << phase;
      sum += times["phases_ms"][phase].get<double>();
    }
    EXPECT_NEAR(times["total_ms"], sum, 0.01);
  }
  EXPECT_FALSE(resumed["host"].get<std::string>().empty());
}

TEST_F(StandbysTest, AreRefilledAfterEachRestart) {
  Start("train");
  std::vector<pid_t> all;
  for (int generation = 0; generation < 3; ++generation) {
    const auto worker = Worker(generation, 0);
    EXPECT_THAT(worker, Contains(generation == 0 ? "warm no" : "warm yes"));
    Worker(generation, 1);
    Waiting(2 * (generation + 1));
    kill(PidOf(worker), SIGSEGV);
  }
  EXPECT_THAT(Worker(3, 1), Contains("warm yes"));
  EndByTerm();
}

TEST_F(StandbysTest, OneThatIsKilledIsReplacedSilentlyAndCountsAsNoFailure) {
  Start("train");
  const auto worker = Worker(0, 0);
  for (const pid_t pid : Waiting(2)) kill(pid, SIGKILL);
  Waiting(4);
  kill(PidOf(worker), SIGKILL);
  EXPECT_THAT(Worker(1, 0), Contains("warm yes"));
  EXPECT_THAT(Worker(1, 1), Contains("TORCHELASTIC_RESTART_COUNT=1"));
  EndByTerm();
}

TEST_F(StandbysTest, WithoutEnoughTheOthersAreStartedCold) {
  Start("train", {"--warm=1"});
  const auto worker = Worker(0, 1);
  Waiting(1);
  kill(PidOf(worker), SIGKILL);
  EXPECT_THAT(Worker(1, 0), Contains("warm yes"));
  EXPECT_THAT(Worker(1, 1), Contains("warm no"));
  EndByTerm();
}

TEST_F(StandbysTest, AfterEarlyEndsNoStandbyIsStartedAndTheJobContinues) {
  Start("dies");
  const auto worker = Worker(0, 0);
  ASSERT_TRUE(agent().WaitForErr("no more warm standbys are started"));
  EXPECT_THAT(agent().err(), HasSubstr("4 standbys in a row have ended early, the last one by exit "
                                       "code 3 (no such dataset); workers are started cold"));
  kill(PidOf(worker), SIGKILL);
  EXPECT_THAT(Worker(1, 0), Contains("warm no"));
  EndByTerm();
}

TEST_F(StandbysTest, AProgramThatCannotWaitIsNeverStartedAhead) {
  Start("unable");
  const auto worker = Worker(0, 0);
  Worker(0, 1);
  kill(PidOf(worker), SIGKILL);
  EXPECT_THAT(Worker(1, 0), Contains("warm no"));
  ASSERT_TRUE(agent().WaitForErr("there is no warm standby: no worker has come to ddp::init()"));
  Worker(1, 1);
  EndByTerm();
  int started = 0;
  for (const auto& entry : fs::directory_iterator(files_.path())) {
    started += entry.path().filename().string().starts_with("started.") ? 1 : 0;
  }
  EXPECT_EQ(started, 4) << "two workers, twice";
}

TEST_F(StandbysTest, NoneIsLeftWhenTheAgentIsKilled) {
  Start("train");
  Worker(0, 0);
  Waiting(2);
  agent().Signal(SIGKILL);
  agent().ExitCode();
  // The guardian has no mark. It prints its last message when all processes are gone.
  EXPECT_TRUE(agent().WaitForErr("was killed; its 4 workers and all their processes were killed"));
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

TEST_F(StandbysTest, NoneIsLeftWhenTheGuardianIsKilled) {
  Start("train");
  Worker(0, 0);
  KillGuardianOf(Waiting(2)[0]);
  EXPECT_EQ(agent().ExitCode(), 70);
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

TEST_F(StandbysTest, NoneIsLeftWhenTheGuardianIsKilledWhileOneLoads) {
  Start("loads");
  Worker(0, 0);
  KillGuardianOf(Loading());
  EXPECT_EQ(agent().ExitCode(), 70);
  EXPECT_THAT(agent().err(), Not(HasSubstr("standbys in a row")));
  EXPECT_THAT(job_->Survivors(), IsEmpty());
}

TEST_F(StandbysTest, NoneIsLeftAndNothingIsReportedWhenTheJobFails) {
  Start("train", {"--warm", "--max-restarts=0"});
  const auto worker = Worker(0, 1);
  Waiting(2);
  kill(PidOf(worker), SIGABRT);
  EXPECT_EQ(agent().ExitCode(), 128 + SIGABRT);
  EXPECT_THAT(job_->Survivors(), IsEmpty());
  EXPECT_THAT(agent().err(), Not(HasSubstr("victims")));
}

}  // namespace standbys_test
}  // namespace ddprun
