#include "worker/src/agent/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/agent/send_descriptor.h"
#include "worker/contract/control.h"
#include "worker/contract/progress_page.h"
#include "worker/contract/unique_fd.h"

namespace ddp::internal {
namespace progress_test {

using ddprun::UniqueFd;
using std::chrono::milliseconds;

constexpr milliseconds kNow{0};
constexpr milliseconds kLong{10000};

UniqueFd Page(unsigned seals) {
  UniqueFd fd(memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), ddprun::kProgressFileBytes), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The agent's end of a worker's connection.
class Agent {
 public:
  explicit Agent(const std::string& path)
      : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
  }

  void Send(std::string packet, const UniqueFd& descriptor) {
    if (!connection_.valid()) connection_.reset(accept(listener_.get(), nullptr, nullptr));
    ddprun::SendDescriptor(connection_.get(), std::move(packet), descriptor.get());
  }

 private:
  UniqueFd listener_;
  UniqueFd connection_;
};

// The page as the agent reads it.
std::optional<ddprun::ProgressSnapshot> Read(const UniqueFd& fd) {
  void* const page = mmap(nullptr, ddprun::kProgressFileBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  const auto read = ddprun::ReadProgress(page, ddprun::kProgressFileBytes);
  munmap(page, ddprun::kProgressFileBytes);
  return read;
}

// The message that carries a page.
std::string Message(std::uint64_t version = ddprun::kProgressVersion) {
  return "PROGRESS=" + std::to_string(version);
}

struct ProgressTest : ::testing::Test {
  const ddprun::TempDir folder;
  Agent agent{folder / "s"};
  ControlClient client{folder / "s"};
  Progress progress;

  void SetUp() override { client.Send("READY", "1"); }
};

TEST_F(ProgressTest, GoesOnInTheAgentsPageWithWhatItHadBefore) {
  progress.BeginGeneration(2);
  progress.FinishStep(41);
  progress.Enter(progress.NewGroup(), ProgressOperation::kAllReduce, 8);
  progress.TakePage(&client, kNow);  // no page has arrived
  const UniqueFd page = Page(kSeals);
  agent.Send(Message(), page);
  progress.TakePage(&client, kLong);
  auto read = Read(page);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->generation, 2);
  EXPECT_EQ(read->step, 41);
  EXPECT_EQ(read->groups[0].entered->number, 1u);
  progress.FinishStep(42);
  EXPECT_EQ(Read(page)->step, 42);
  EXPECT_EQ(progress.Read().step, 42);
}

TEST_F(ProgressTest, LeavesAloneAPageThatIsNotSealedOrOfAnotherVersion) {
  const UniqueFd open_page = Page(0);
  agent.Send(Message(), open_page);
  progress.TakePage(&client, kLong);
  const UniqueFd later = Page(kSeals);
  agent.Send(Message(ddprun::kProgressVersion + 1), later);
  progress.TakePage(&client, kNow);
  progress.FinishStep(1);
  EXPECT_FALSE(Read(open_page));
  EXPECT_FALSE(Read(later));
  EXPECT_EQ(progress.Read().step, 1);  // in its own page
  const UniqueFd page = Page(kSeals);
  agent.Send(Message(), page);
  progress.TakePage(&client, kLong);
  ASSERT_TRUE(Read(page));
  EXPECT_EQ(Read(page)->step, 1);
}

TEST_F(ProgressTest, APageAmongOtherMessagesLosesNone) {
  const UniqueFd page = Page(kSeals);
  agent.Send("SAVE=1", page);
  agent.Send(Message() + "\nSAVE=1", page);
  agent.Send("SAVE=1", page);
  EXPECT_EQ(client.SaveRequests(), 3);
  progress.TakePage(&client, kNow);
  EXPECT_TRUE(Read(page));
}

TEST_F(ProgressTest, WorksWithoutAnAgent) {
  ControlClient nobody("");
  progress.TakePage(&nobody, kLong);
  progress.SetStage(ProgressPhase::kRestore);
  EXPECT_EQ(progress.Read().phase, ProgressPhase::kRestore);
}

TEST_F(ProgressTest, TheInnermostScopeIsThePhase) {
  progress.SetStage(ProgressPhase::kFirstStep);
  {
    const Progress::Scope outer(ProgressPhase::kNamed, "epoch 1", &progress);
    EXPECT_EQ(progress.Read().phase_name, "epoch 1");
    {
      const Progress::Scope inner(ProgressPhase::kEvaluation, "", &progress);
      EXPECT_EQ(progress.Read().phase, ProgressPhase::kEvaluation);
      progress.AwaitData();
      EXPECT_EQ(progress.Read().phase, ProgressPhase::kEvaluation);
    }
    EXPECT_EQ(progress.Read().phase_name, "epoch 1");
    progress.FinishStep(1);
    EXPECT_EQ(progress.Read().phase_name, "epoch 1");
  }
  EXPECT_EQ(progress.Read().phase, ProgressPhase::kStep);
}

TEST_F(ProgressTest, ABatchIsBeingLoadedUntilItIsUsed) {
  progress.FinishStep(1);
  progress.AwaitData();
  EXPECT_EQ(progress.Read().phase, ProgressPhase::kData);
  progress.DataIsThere();
  EXPECT_EQ(progress.Read().phase, ProgressPhase::kStep);
  progress.AwaitData();
  progress.Enter(0, ProgressOperation::kAllReduce, 1);  // a rank in a collective has its data
  EXPECT_EQ(progress.Read().phase, ProgressPhase::kStep);
  progress.AwaitData();
  const std::uint64_t moves = progress.Read().moves;
  progress.AwaitData();
  EXPECT_NE(progress.Read().moves, moves);
}

TEST_F(ProgressTest, TheFirstStepIsOverAlsoWhereNobodyTellsOfIt) {
  progress.SetStage(ProgressPhase::kRestore);
  progress.FinishBackward();
  EXPECT_EQ(progress.Read().phase, ProgressPhase::kRestore);
  progress.SetStage(ProgressPhase::kFirstStep);
  progress.FinishBackward();
  EXPECT_EQ(progress.Read().phase, ProgressPhase::kStep);
  EXPECT_EQ(progress.Read().step, -1);
}

TEST_F(ProgressTest, AStepEndsAStageThatTheProgramNamed) {
  progress.SetStage(ProgressPhase::kNamed, "loading");
  EXPECT_EQ(progress.Read().phase_name, "loading");
  progress.FinishStep(3);
  EXPECT_EQ(progress.Read().phase, ProgressPhase::kStep);
}

}  // namespace progress_test
}  // namespace ddp::internal
