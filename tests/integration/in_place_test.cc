// ddp::run_in_place() under ddprun: real deaths, and what the survivors do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/job.h"

namespace ddprun {
namespace in_place_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kSteps = 30;

struct Line {
  int generation = 0;
  pid_t pid = 0;
  int step = 0;
  std::string sum;
};

class InPlaceTest : public testing::Test {
 protected:
  static std::vector<std::string> Command(const std::string& files,
                                          const std::vector<std::string>& death) {
    std::vector<std::string> command = {IN_PLACE_WORKER, files, std::to_string(kSteps)};
    command.insert(command.end(), death.begin(), death.end());
    return command;
  }
  // Runs a job of one node to its end.
  void Run(int workers, const std::vector<std::string>& death,
           const std::vector<std::string>& flags = {}) {
    job_ = std::make_unique<Job>(folder_.path());
    std::vector<std::string> arguments = {"-v", "--nproc-per-node", std::to_string(workers),
                                          "--max-restarts", "5"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    for (const std::string& word : Command(files_.path(), death)) arguments.push_back(word);
    job_->AddNode(arguments);
    ASSERT_EQ(job_->node(0).ExitCode(), 0) << job_->node(0).err() << job_->node(0).out();
    EXPECT_THAT(job_->Survivors(), IsEmpty());
  }
  std::vector<Line> Log(int rank, const std::string& folder) const {
    std::vector<Line> lines;
    for (const std::string& text : ReadLines(folder + "/rank" + std::to_string(rank) + ".log")) {
      std::istringstream words(text);
      lines.emplace_back();
      words >> lines.back().generation >> lines.back().pid >> lines.back().step >> lines.back().sum;
    }
    return lines;
  }
  std::vector<Line> Log(int rank) const { return Log(rank, files_.path()); }
  std::set<pid_t> Pids(int rank) const {
    std::set<pid_t> pids;
    for (const Line& line : Log(rank)) pids.insert(line.pid);
    return pids;
  }
  // The sum of each step in a job without faults.
  std::map<int, std::string> Undisturbed(int workers, const std::vector<std::string>& death = {}) {
    const TempDir folder;
    const TempDir files;
    Job job(folder.path());
    std::vector<std::string> arguments = {"--nproc-per-node", std::to_string(workers)};
    for (const std::string& word : Command(files.path(), death)) arguments.push_back(word);
    EXPECT_EQ(job.AddNode(arguments).ExitCode(), 0) << job.node(0).err();
    std::map<int, std::string> sums;
    for (const Line& line : Log(0, files.path())) sums[line.step] = line.sum;
    EXPECT_EQ(sums.size(), static_cast<std::size_t>(kSteps));
    return sums;
  }
  // `untold`: the rank that died in its optimizer's step. It has not reported that step, and a step
  // that the other ranks have finished is not repeated.
  void ExpectStepsOf(const std::map<int, std::string>& undisturbed, int workers,
                     int untold = -1) const {
    for (int rank = 0; rank < workers; ++rank) {
      std::set<int> steps;
      for (const Line& line : Log(rank)) {
        steps.insert(line.step);
        EXPECT_EQ(line.sum, undisturbed.at(line.step))
            << "rank " << rank << ", step " << line.step << ", generation " << line.generation;
      }
      EXPECT_EQ(steps.size(), static_cast<std::size_t>(rank == untold ? kSteps - 1 : kSteps));
    }
  }

  TempDir folder_;
  TempDir files_;
  std::unique_ptr<Job> job_;
};

// Which rank dies, and where in its step.
class InPlaceDeathTest : public InPlaceTest,
                         public testing::WithParamInterface<std::tuple<int, std::string>> {};

TEST_P(InPlaceDeathTest, TheOthersStayAndEndAsIfNothingHadHappened) {
  static const auto undisturbed = Undisturbed(3);
  const auto& [victim, point] = GetParam();
  Run(3, {std::to_string(victim), "12", point});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Pids(rank).size(), rank == victim ? 2u : 1u) << "rank " << rank;
  }
  ExpectStepsOf(undisturbed, 3, point == "optimizer" ? victim : -1);
  EXPECT_THAT(job_->node(0).err(), Not(HasSubstr("did not leave")));
}

INSTANTIATE_TEST_SUITE_P(Points, InPlaceDeathTest,
                         testing::Combine(testing::Values(0, 1),
                                          testing::Values("forward", "backward", "optimizer")));

TEST_F(InPlaceTest, OutputOfTheNextGenerationGoesToItsFolder) {
  Run(2, {"1", "12", "forward"});
  EXPECT_EQ(Log(0).back().generation, 1);
  for (const char* const attempt : {"/attempt_0/0/", "/attempt_1/0/"}) {
    EXPECT_TRUE(std::filesystem::exists(job_->run(0) + attempt + "stdout.log")) << attempt;
  }
}

TEST_F(InPlaceTest, OneThatDoesNotComeBackIsReplaced) {
  Run(2, {"1", "12", "stays"}, {"--in-place-timeout", "300ms"});
  EXPECT_THAT(job_->node(0).err(),
              HasSubstr("did not leave the generation within 0.3 s: it is ended"));
  EXPECT_EQ(Pids(0).size(), 2u);
  EXPECT_EQ(Log(0).back().step, kSteps);
}

TEST_F(InPlaceTest, ANewcomerThatDiesTooCostsOneMoreGeneration) {
  Run(2, {"1", "12", "start"});
  EXPECT_EQ(Log(0).back().generation, 2);
  EXPECT_EQ(Pids(0).size(), 1u);
}

// Seen red with ranks that said STAYS=1 only after they had joined: their agent ended them.
TEST_F(InPlaceTest, ANewcomerThatDiesBeforeItJoinsCostsNoOtherProcess) {
  for (const std::string victim : {"0", "1"}) {
    Run(3, {victim, "12", "early"});
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(Pids(rank).size(), std::to_string(rank) == victim ? 2u : 1u) << "rank " << rank;
      EXPECT_EQ(Log(rank).back().generation, 2);
      std::filesystem::remove(files_ / ("rank" + std::to_string(rank) + ".log"));
    }
    std::filesystem::remove(files_ / "died");
    std::filesystem::remove(files_ / "died early");
  }
}

TEST_F(InPlaceTest, WithoutATimeoutAllAreStartedAnew) {
  Run(2, {"1", "12", "forward"}, {"--in-place-timeout", "0"});
  EXPECT_EQ(Pids(0).size(), 2u);
  EXPECT_EQ(Pids(1).size(), 2u);
}

TEST_F(InPlaceTest, AStandbyTakesThePlaceOfTheDeadRankAlone) {
  Run(2, {"1", "25", "forward"}, {"--warm"});
  EXPECT_EQ(Pids(0).size(), 1u);
  EXPECT_EQ(Pids(1).size(), 2u);
}

TEST_F(InPlaceTest, WorkersOfOtherNodesStayToo) {
  Daemon daemon(folder_.path());
  job_ = std::make_unique<Job>(folder_.path());
  std::vector<std::string> arguments = {
      "--nnodes",       "2", "--nproc-per-node", "1", "--rdzv-endpoint", daemon.endpoint(),
      "--max-restarts", "5"};
  for (const std::string& word : Command(files_.path(), {"1", "12", "forward"})) {
    arguments.push_back(word);
  }
  job_->AddNode(arguments);
  job_->AddNode(arguments);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(job_->node(i).ExitCode(), 0) << job_->node(i).err();
  }
  EXPECT_EQ(Pids(0).size(), 1u);
  EXPECT_EQ(Pids(1).size(), 2u);
  EXPECT_EQ(Log(0).back().step, kSteps);
}

// Two nodes with two workers each. A node is lost while the first of its ranks is in step
// kLostStep, at a point of it. The last regular snapshot is three steps older than the last
// finished step.
class InPlaceLostNodeTest : public InPlaceTest {
 protected:
  static constexpr int kLostStep = 14;

  void LoseNode(int lost, const std::string& point, std::vector<std::string> words) {
    Daemon daemon(folder_.path());
    job_ = std::make_unique<Job>(folder_.path());
    words.insert(words.begin(),
                 {std::to_string(2 * lost), std::to_string(kLostStep), point, "lost"});
    const auto add = [&](int node_rank) {
      std::vector<std::string> arguments = {
          "--nnodes",         "2", "--node-rank",     std::to_string(node_rank),
          "--nproc-per-node", "2", "--rdzv-endpoint", daemon.endpoint()};
      for (const std::string& word : Command(files_.path(), words)) arguments.push_back(word);
      job_->AddNode(arguments);
    };
    add(0);
    add(1);
    const std::string died = files_ / "died";
    ASSERT_TRUE(WaitForChange(files_.path(), [&] { return std::filesystem::exists(died); }));
    ASSERT_TRUE(WaitForStep(2 * (1 - lost), point == "optimizer" ? kLostStep : kLostStep - 1));
    job_->node(lost).Signal(SIGKILL);
    job_->node(lost).Wait();
    add(lost);
    for (const int node : {1 - lost, 2}) {
      EXPECT_EQ(job_->node(node).ExitCode(), 0) << job_->node(node).err();
    }
    for (const int rank : {2 * (1 - lost), 2 * (1 - lost) + 1}) {
      EXPECT_EQ(Pids(rank).size(), 1u) << "rank " << rank << " kept its process";
    }
  }
  bool WaitForStep(int rank, int step) const {
    return WaitForChange(files_.path(),
                         [&] { return !Log(rank).empty() && Log(rank).back().step >= step; });
  }
  // How many steps the rank has made again.
  int Repeated(int rank) const {
    std::set<int> steps;
    for (const Line& line : Log(rank)) steps.insert(line.step);
    return static_cast<int>(Log(rank).size() - steps.size());
  }
};

class InPlaceSharedStepTest : public InPlaceLostNodeTest,
                              public testing::WithParamInterface<std::tuple<int, std::string>> {};

// Seen red without share_each_step: without node 0 three steps are made again, and without node 1
// its ranks continue with older generators. Seen red at `averaged` and `optimizer` with an exchange
// only in Checkpointer::step(): three steps are made again.
TEST_P(InPlaceSharedStepTest, ALostNodeCostsNoFinishedStepAndNoGenerator) {
  static const auto undisturbed = Undisturbed(4);
  const auto& [lost, point] = GetParam();
  LoseNode(lost, point, {"shares"});
  const bool finished = point == "optimizer";  // the survivors have, the lost ranks have not
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(Repeated(rank), 0) << "rank " << rank;
    for (const Line& line : Log(rank)) {
      EXPECT_EQ(line.sum, undisturbed.at(line.step)) << "rank " << rank << ", step " << line.step;
    }
  }
  for (const int rank : {2 * (1 - lost), 2 * (1 - lost) + 1}) {
    EXPECT_EQ(Log(rank).size(), static_cast<std::size_t>(kSteps)) << "rank " << rank;
    const int last = finished ? kLostStep : kLostStep - 1;
    EXPECT_EQ(Log(rank)[last - 1].generation, 0);
    EXPECT_EQ(Log(rank)[last].generation, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Points, InPlaceSharedStepTest,
                         testing::Combine(testing::Values(0, 1),
                                          testing::Values("forward", "averaged", "optimizer")));

// The exchange is then in Checkpointer::step().
TEST_F(InPlaceLostNodeTest, WithoutOptimizerStepAFinishedStepIsSharedToo) {
  const auto undisturbed = Undisturbed(4);
  LoseNode(0, "forward", {"shares", "untold"});
  ExpectStepsOf(undisturbed, 4);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(Repeated(rank), 0) << "rank " << rank;
}

// LBFGS calls forward after OptimizerStep has begun, so the exchange there is too early. Seen red
// with its result: the ranks continue with the generators of the step before.
TEST_F(InPlaceLostNodeTest, AnOptimizerThatCallsForwardIsSharedAfterIt) {
  const auto undisturbed = Undisturbed(4, {"-1", "-1", "none", "closure"});
  LoseNode(1, "forward", {"shares", "closure"});
  ExpectStepsOf(undisturbed, 4);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(Repeated(rank), 0) << "rank " << rank;
}

// True once the rendezvous has heard of a step of the node. Its heartbeat then also says that the
// program can stand by.
bool KnowsAStep(const Daemon& daemon) {
  Program status({DdprunPath(), "status", "job", "--json", "--rdzv-endpoint", daemon.endpoint()});
  if (status.ExitCode() != 0) return false;
  const auto answer = nlohmann::json::parse(status.out());
  if (answer.at("jobs").empty()) return false;
  const auto& nodes = answer["jobs"][0].at("nodes");
  return !nodes.empty() && !nodes[0].at("step").is_null() && nodes[0].at("step") > 0;
}

// Seen red with a rendezvous that took the node in at once: the first node then waited for it to
// load libtorch.
TEST_F(InPlaceTest, ANodeThatJoinsHasLoadedTheProgramBeforeTheOthersStop) {
  Daemon daemon(folder_.path());
  job_ = std::make_unique<Job>(folder_.path());
  std::vector<std::string> arguments = {"-v",
                                        "--nnodes",
                                        "1:2",
                                        "--nproc-per-node",
                                        "1",
                                        "--rdzv-id",
                                        "job",
                                        "--rdzv-conf",
                                        "last_call_timeout=10ms",
                                        "--rdzv-endpoint",
                                        daemon.endpoint(),
                                        IN_PLACE_WORKER,
                                        files_.path(),
                                        "1000000"};
  Program& first = job_->AddNode(arguments);
  ASSERT_TRUE(WaitForChange(files_.path(), [&] { return KnowsAStep(daemon); })) << first.err();
  Program& second = job_->AddNode(arguments);
  ASSERT_TRUE(WaitForChange(files_.path(), [&] { return !Log(1).empty(); })) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("this node is taken in when its standbys have loaded the "
                                      "program"));
  EXPECT_THAT(second.err(), HasSubstr(", which had waited"));
  EXPECT_EQ(Log(1).front().generation, 1) << "it was taken in once";
  for (Program* const node : {&first, &second}) node->Signal(SIGTERM);
  for (Program* const node : {&first, &second}) node->ExitCode();
  EXPECT_EQ(Pids(0).size(), 1u);
}

}  // namespace in_place_test
}  // namespace ddprun
