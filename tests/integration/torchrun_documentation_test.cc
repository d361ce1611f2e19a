// The commands of PyTorch's page "torchrun (Elastic Launch)"; only the word torchrun is replaced.
// Commands for several nodes run on hosts that are network namespaces, with a token in the
// environment as their credential.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"
#include "tests/support/network.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace torchrun_documentation_test {

using testing::HasSubstr;

// Prints its rank and its own arguments, and ends when the file $GO exists.
constexpr char kScript[] = R"(
import os, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:], flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
)";

constexpr char kSingleNode[] = R"(torchrun \
    --standalone \
    --nnodes=1 \
    --nproc-per-node=$NUM_TRAINERS \
    YOUR_TRAINING_SCRIPT.py --arg1)";

constexpr char kStackedSingleNode[] = R"(torchrun \
    --rdzv-backend=c10d \
    --rdzv-endpoint=localhost:0 \
    --nnodes=1 \
    --nproc-per-node=$NUM_TRAINERS \
    YOUR_TRAINING_SCRIPT.py --arg1)";

constexpr char kFaultTolerant[] = R"(torchrun \
    --nnodes=$NUM_NODES \
    --nproc-per-node=$NUM_TRAINERS \
    --max-restarts=3 \
    --rdzv-id=$JOB_ID \
    --rdzv-backend=c10d \
    --rdzv-endpoint=$HOST_NODE_ADDR \
    YOUR_TRAINING_SCRIPT.py --arg1)";

constexpr char kElastic[] = R"(torchrun \
    --nnodes=1:4 \
    --nproc-per-node=$NUM_TRAINERS \
    --max-restarts=3 \
    --rdzv-id=$JOB_ID \
    --rdzv-backend=c10d \
    --rdzv-endpoint=$HOST_NODE_ADDR \
    YOUR_TRAINING_SCRIPT.py --arg1)";

class TorchrunDocumentationTest : public testing::Test {
 protected:
  TorchrunDocumentationTest() {
    mkdir((folder_ / "bin").c_str(), 0755);
    std::ofstream(folder_ / "bin/ddprun") << "#!/bin/sh\nexec " << DdprunPath() << " \"$@\"\n";
    chmod((folder_ / "bin/ddprun").c_str(), 0755);
    std::ofstream(folder_ / "YOUR_TRAINING_SCRIPT.py") << kScript;
    std::ofstream(folder_ / "token") << "0123456789abcdef0123456789abcdef\n";
    chmod((folder_ / "token").c_str(), 0600);
  }

  void MakeNetwork() {
    DDPRUN_NEEDS(MissingForNetworks());
    std::string why_not;
    network_ = std::make_unique<Network>(2, &why_not);
    ASSERT_EQ(why_not, "");
  }

  // `node`: a node of the network; −1: this host.
  Program& Start(std::string command, int node = -1) {
    command.replace(0, std::string("torchrun").size(), "exec ddprun");
    const std::vector<std::string> argv = {"sh", "-c", command};
    const std::string number = std::to_string(programs_.size());
    const std::map<std::string, std::string> variables = {
        {"PATH", folder_ / "bin:" + std::getenv("PATH")},
        {"GO", folder_ / "go"},
        {"DDPRUN_LOG_DIR", folder_ / "logs" + number},
        {"DDPRUN_STATE_HOME", folder_ / "state" + number},
        {"DDPRUN_TOKEN_FILE", folder_ / "token"},
        {"NUM_TRAINERS", "2"},
        {"NUM_NODES", "2"},
        {"JOB_ID", "17"},
        {"HOST_NODE_ADDR", "10.77.1.2:29400"},
        // With this, the first host does not wait for more hosts.
        {"DDPRUN_RDZV_CONF", "last_call_timeout=0"}};
    programs_.push_back(std::make_unique<Program>(node < 0 ? argv : network_->OnNode(node, argv),
                                                  variables, folder_.path()));
    return *programs_.back();
  }

  void LetThemEnd() { std::ofstream(folder_ / "go") << ""; }
  void ExpectEnd() {
    LetThemEnd();
    for (const auto& program : programs_) EXPECT_EQ(program->ExitCode(), 0) << program->err();
  }

 private:
  const TempDir folder_;
  std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<Program>> programs_;
};

TEST_F(TorchrunDocumentationTest, SingleNodeMultiWorker) {
  Program& program = Start(kSingleNode);
  ExpectEnd();
  EXPECT_THAT(program.out(), HasSubstr("rank 0 of 2 --arg1\n"));
  EXPECT_THAT(program.out(), HasSubstr("rank 1 of 2 --arg1\n"));
}

// Two jobs on one host at the same time do not meet.
TEST_F(TorchrunDocumentationTest, StackedSingleNodeMultiWorker) {
  Program& first = Start(kStackedSingleNode);
  Program& second = Start(kStackedSingleNode);
  for (Program* const program : {&first, &second}) {
    EXPECT_TRUE(program->WaitForOut("rank 1 of 2 --arg1")) << program->err();
  }
  ExpectEnd();
}

TEST_F(TorchrunDocumentationTest, FaultTolerantOnTwoHosts) {
  MakeNetwork();
  if (IsSkipped()) return;
  Program& first = Start(kFaultTolerant, 0);
  Program& second = Start(kFaultTolerant, 1);
  EXPECT_TRUE(first.WaitForOut("rank 0 of 4 --arg1")) << first.err();
  EXPECT_TRUE(second.WaitForOut("rank 3 of 4 --arg1")) << second.err();
  ExpectEnd();
}

TEST_F(TorchrunDocumentationTest, ElasticGrowsWhenAHostComes) {
  MakeNetwork();
  if (IsSkipped()) return;
  Program& first = Start(kElastic, 0);
  EXPECT_TRUE(first.WaitForOut("rank 1 of 2 --arg1")) << first.err();
  Program& second = Start(kElastic, 1);
  EXPECT_TRUE(second.WaitForOut("rank 3 of 4 --arg1")) << second.err();
  EXPECT_TRUE(first.WaitForOut("rank 1 of 4 --arg1")) << first.err();
  ExpectEnd();
}

}  // namespace torchrun_documentation_test
}  // namespace ddprun
