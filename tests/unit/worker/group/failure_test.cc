// Tests what happens when a rank fails: how each process ends, and what it prints and reports.
#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace failure_test {

using test::InRank;
using test::RankResult;
using test::RunRanks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void TrainForever(const Context& ctx, const std::function<void(int step)>& before_step) {
  auto net = std::make_shared<torch::nn::LinearImpl>(4, 4);
  DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net);
  for (int step = 0;; ++step) {
    before_step(step);
    model.zero_grad();
    model(torch::ones({2, 4})).sum().backward();
  }
}

// Blocks until process `pid`, which need not be a child, has ended.
void WaitForEndOf(pid_t pid) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd ended = {pidfd, POLLIN, 0};
  if (pidfd >= 0) poll(&ended, 1, -1);
}

// The agent's control socket. The test reads its packets after the job has ended.
class Agent {
 public:
  explicit Agent(const std::string& path) : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) abort();
    if (listen(fd_, 8) != 0) abort();
  }
  ~Agent() { close(fd_); }

  // All messages of the worker that connected next.
  std::vector<std::string> Packets() {
    std::vector<std::string> packets;
    const int connection = accept(fd_, nullptr, nullptr);
    char packet[16384];
    for (ssize_t size; (size = recv(connection, packet, sizeof(packet), 0)) > 0;) {
      packets.emplace_back(packet, static_cast<std::size_t>(size));
    }
    close(connection);
    return packets;
  }

  // The messages of the worker that connected next, after the four messages of init().
  std::vector<std::string> PacketsAfterInit() {
    std::vector<std::string> packets = Packets();
    const std::vector<std::string> init = {"PHASE=init", "SAVES=0", "READY=1", "STANDBY=able"};
    if (packets.size() < init.size() || !std::equal(init.begin(), init.end(), packets.begin())) {
      ADD_FAILURE() << "init() said something else: " << ::testing::PrintToString(packets);
      return packets;
    }
    packets.erase(packets.begin(), packets.begin() + static_cast<std::ptrdiff_t>(init.size()));
    return packets;
  }

 private:
  const int fd_;
};

TEST(FailureTest, AWorkerReportsItsLifeToTheAgent) {
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      ctx.report_phase("training");
      ctx.report_phase("");
      ctx.report_phase(std::string(65, 'x'));
      ctx.report_step(17);
      ctx.report_checkpoint(17, "/c/step 17");
      ctx.report_checkpoint_failed(18, 2, "disk full");
      return 0;
    }));
  }
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  EXPECT_EQ(RunRanks({1, {}, {{"DDPRUN_CONTROL_SOCKET", folder / "s"}}})[0].exit_code, 0);
  EXPECT_THAT(agent.PacketsAfterInit(),
              ElementsAre("PHASE=training", "PHASE=" + std::string(64, 'x'), "STEP=17",
                          "CHECKPOINT=17 /c/step 17", "CHECKPOINT_FAILED=18 2 disk full", "BYE=1"));
}

TEST(FailureTest, TheAgentHearsOfACheckpointWhenItIsOnDiskOrHasFailed) {
  const ddprun::TempDir folder;
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      torch::nn::Linear net(2, 1);
      torch::optim::SGD optimizer(net->parameters(), 0.1);
      const std::string folder = std::getenv("DDP_TEST_FOLDER");
      std::ofstream(folder + "/file") << "in the way";
      for (const char* name : {"/good", "/file"}) {
        Checkpointer checkpointer(ctx, folder + name);
        checkpointer.save(State(), *net, optimizer);
      }
      return 0;
    }));
  }
  Agent agent(folder / "s");
  EXPECT_EQ(
      RunRanks(
          {1, {}, {{"DDPRUN_CONTROL_SOCKET", folder / "s"}, {"DDP_TEST_FOLDER", folder.path()}}})[0]
          .exit_code,
      0);
  EXPECT_THAT(agent.PacketsAfterInit(),
              ElementsAre("SAVES=1",
                          "CHECKPOINT=0 " + folder.path() + "/good/step-000000000000.safetensors",
                          ::testing::MatchesRegex("SAVED=durable [0-9]+"), "SAVES=1",
                          ::testing::MatchesRegex("CHECKPOINT_FAILED=0 1 cannot .*Not a directory"),
                          "BYE=1"));
}

TEST(FailureTest, AUsersErrorIsOneLineOneReportAndOneFile) {
  if (InRank()) {
    exit(run([]() -> int {
      const Context ctx = init();
      throw std::invalid_argument("no such\nthing");
    }));
  }
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  const RankResult rank = RunRanks({1,
                                    {},
                                    {{"DDPRUN_CONTROL_SOCKET", folder / "s"},
                                     {"TORCHELASTIC_ERROR_FILE", folder / "error.json"}}})[0];
  EXPECT_EQ(rank.exit_code, 1);
  EXPECT_EQ(rank.err, "[rank 0] error: no such thing\n");
  EXPECT_THAT(agent.PacketsAfterInit(), ElementsAre("ERROR=user no such thing"));
  const auto file = nlohmann::json::parse(test::ReadFile(folder / "error.json"));
  EXPECT_EQ(file["message"]["message"], "std::invalid_argument: no such thing");
  EXPECT_GT(std::stoll(file["message"]["extraInfo"]["timestamp"].get<std::string>()),
            1'600'000'000);
}

TEST(FailureTest, ATakenPortIsReportedAsBind) {
  if (InRank()) {
    exit(run([] { return init(), 0; }));
  }
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  test::HeldPort port;
  port.Listen();
  const RankResult rank = RunRanks({1,
                                    {},
                                    {{"DDPRUN_CONTROL_SOCKET", folder / "s"},
                                     {"WORLD_SIZE", "2"},
                                     {"MASTER_PORT", port.text()}}})[0];
  EXPECT_EQ(rank.exit_code, 1);
  EXPECT_THAT(agent.Packets(), ElementsAre("PHASE=init", "SAVES=0", StartsWith("ERROR=bind ")));
}

TEST(FailureTest, AKilledRankEndsTheOthersWithACollectiveError) {
  if (InRank()) {
    exit(run([]() -> int {
      const Context ctx = init();
      TrainForever(ctx, [&](int step) {
        if (ctx.rank() == 1 && step == 5) kill(getpid(), SIGKILL);
      });
      return 0;
    }));
  }
  const ddprun::TempDir folder;
  Agent agent(folder / "s");
  const auto ranks = RunRanks({2, {}, {{"DDPRUN_CONTROL_SOCKET", folder / "s"}}});
  EXPECT_EQ(ranks[1].signal, SIGKILL);
  EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].signal << ranks[0].err;
  EXPECT_THAT(ranks[0].err, StartsWith("[rank 0] error: a collective failed: "));
  std::vector<std::string> all = agent.PacketsAfterInit();
  for (const std::string& packet : agent.PacketsAfterInit()) all.push_back(packet);
  std::erase(all, "COMPARES=1");
  EXPECT_THAT(all, ElementsAre(StartsWith("ERROR=collective ")));
}

TEST(FailureTest, AnAgreedErrorIsPrintedByTheFailingRankAlone) {
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      throw_if_any_failed(ctx, ctx.rank() == 1 ? "my disk is gone" : "");
      return 0;
    }));
  }
  const auto ranks = RunRanks({3, {}, {}});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1);
  EXPECT_EQ(ranks[1].err, "[rank 1] error: rank 1: my disk is gone\n");
  EXPECT_EQ(ranks[0].err + ranks[2].err, "");
}

// If every rank reported itself, ddprun could name a rank whose stderr is empty.
TEST(FailureTest, OfSeveralRanksThatFailOnlyTheOneThatPrintsReportsItselfAsTheCause) {
  if (InRank()) {
    const std::string socket = std::string(std::getenv("DDPRUN_CONTROL_SOCKET"));
    // One socket per rank.
    setenv("DDPRUN_CONTROL_SOCKET", (socket + std::getenv("RANK")).c_str(), 1);
    exit(run([] {
      const Context ctx = init();
      throw_if_any_failed(ctx, ctx.rank() == 0 ? "" : "my disk is gone");
      return 0;
    }));
  }
  const ddprun::TempDir folder;
  Agent agent0(folder / "s0");
  Agent agent1(folder / "s1");
  Agent agent2(folder / "s2");
  const auto ranks = RunRanks({3, {}, {{"DDPRUN_CONTROL_SOCKET", folder / "s"}}});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1);
  EXPECT_EQ(ranks[1].err, "[rank 1] error: rank 1: my disk is gone\n");
  EXPECT_EQ(ranks[0].err + ranks[2].err, "");
  const std::string text = " rank 1: my disk is gone";
  EXPECT_THAT(agent0.PacketsAfterInit(), ElementsAre("ERROR=collective" + text));
  EXPECT_THAT(agent1.PacketsAfterInit(), ElementsAre("ERROR=user" + text));
  EXPECT_THAT(agent2.PacketsAfterInit(), ElementsAre("ERROR=collective" + text));
}

// ddprun names the damage in its events, ends the job, and does not start it again.
TEST(FailureTest, ADamagedCheckpointIsReportedAndWithoutAWholeOneTheStateIsUnreadable) {
  const ddprun::TempDir folder;
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      torch::nn::Linear net(2, 1);
      torch::optim::SGD optimizer(net->parameters(), 0.1);
      const std::string folder = std::getenv("DDP_TEST_FOLDER");
      std::ofstream(folder + "/step-000000000007.safetensors") << "short";
      Checkpointer(ctx, folder).load_latest(*net, optimizer);
      return 0;
    }));
  }
  Agent agent(folder / "s");
  const auto rank = RunRanks(
      {1, {}, {{"DDPRUN_CONTROL_SOCKET", folder / "s"}, {"DDP_TEST_FOLDER", folder.path()}}})[0];
  EXPECT_EQ(rank.exit_code, 1);
  EXPECT_THAT(agent.PacketsAfterInit(),
              ElementsAre("SAVES=1", "PHASE=restore",
                          "CHECKPOINT_DAMAGED=7 " + folder.path() +
                              "/step-000000000007.safetensors: it is too short (5 bytes)",
                          StartsWith("ERROR=state rank 0: there are checkpoints, and none of ")));
}

TEST(FailureTest, SigtermEndsARankInACollectiveAtOnce) {
  if (InRank()) {
    const Context ctx = init();
    const auto rank0 =
        static_cast<pid_t>(all_reduce_sum(ctx, std::int64_t{ctx.rank() == 0 ? getpid() : 0}));
    if (ctx.rank() == 0) barrier(ctx);  // rank 1 never comes
    kill(rank0, SIGTERM);
    WaitForEndOf(rank0);
    _exit(0);
  }
  const auto ranks = RunRanks({2, {}, {}});
  EXPECT_EQ(ranks[0].signal, SIGTERM);
  EXPECT_EQ(ranks[1].exit_code, 0) << ranks[1].err;
}

TEST(FailureTest, AnErrorWhileACollectiveIsPendingDoesNotHang) {
  if (InRank()) {
    exit(run([]() -> int {
      const Context ctx = init();
      const auto rank0 =
          static_cast<pid_t>(all_reduce_sum(ctx, std::int64_t{ctx.rank() == 0 ? getpid() : 0}));
      if (ctx.rank() == 0) {
        std::vector<torch::Tensor> tensors = {torch::ones(1)};
        const auto pending = ctx.process_group()->allreduce(tensors);
        throw std::runtime_error("something else");
      }
      WaitForEndOf(rank0);  // this rank never enters the collective
      return 0;
    }));
  }
  const auto ranks = RunRanks({2, {}, {}});
  EXPECT_EQ(ranks[0].exit_code, 1) << ranks[0].signal;
  EXPECT_EQ(ranks[1].exit_code, 0) << ranks[1].signal << ranks[1].err;
}

TEST(FailureTest, ShutdownDoesNotHangWhenThePeersAreDead) {
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      const auto rank1 =
          static_cast<pid_t>(all_reduce_sum(ctx, std::int64_t{ctx.rank() == 1 ? getpid() : 0}));
      if (ctx.rank() == 1) kill(getpid(), SIGKILL);
      WaitForEndOf(rank1);
      return 0;
    }));
  }
  const auto ranks = RunRanks({2, {}, {}});
  EXPECT_EQ(ranks[0].exit_code, 0) << ranks[0].signal << ranks[0].err;
  EXPECT_EQ(ranks[1].signal, SIGKILL);
}

}  // namespace failure_test
}  // namespace ddp
