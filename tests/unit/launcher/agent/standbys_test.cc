// How standbys are started. The runner is a fake.
#include "launcher/agent/standbys/standbys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "tests/support/temp_dir.h"
#include "tests/unit/launcher/agent/fake_runner.h"

namespace ddprun {
namespace standbys_test {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class StandbysSpawnTest : public testing::Test {
 protected:
  StandbysSpawnTest() {
    auto control = ControlSocket::Listen(
        &loop_, folder_.path(), [](const ControlPeer&, const ControlMessage&) {},
        [](pid_t, const std::string&) {}, [](pid_t) { return false; });
    EXPECT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
    auto run = RunDirectory::Create(folder_.path(), "job", 0);
    EXPECT_TRUE(run.ok()) << run.status();
    run_.emplace(*std::move(run));
    Standbys::Options options;
    options.pool.workers = 2;
    options.request = [](LocalRank) { return SpawnRequest{}; };
    standbys_ = std::make_unique<Standbys>(std::move(options), &loop_, &runner_, &files_,
                                           control_.get(), nullptr, &*run_);
  }

  // Starts the standbys of both local ranks, and runs the loop until the workers can start.
  void StartAhead() {
    standbys_->StartAhead(seconds(60), [this] { loop_.Quit(); });
    loop_.AddTimer(EventLoop::Clock::now() + seconds(10), [this] {
      ADD_FAILURE() << "the workers cannot start";
      loop_.Quit();
    });
    loop_.Run();
  }

  const TempDir folder_;
  EventLoop loop_;
  WriterThread files_{&loop_, [](const absl::Status&) {}};
  FakeRunner runner_;
  std::unique_ptr<ControlSocket> control_;
  std::optional<RunDirectory> run_;
  std::unique_ptr<Standbys> standbys_;
};

// Seen red with a pool that heard of the failure before the second standby was started: the pool
// then ended a standby that did not exist, and the agent with it.
TEST_F(StandbysSpawnTest, IfTheFirstStandbyCannotBeSpawnedTheWorkersStart) {
  runner_.refused_ = 0;
  StartAhead();
  EXPECT_EQ(runner_.calls_, 2);
  EXPECT_THAT(runner_.discarded_, ElementsAre(0));
}

TEST_F(StandbysSpawnTest, IfTheLastStandbyCannotBeSpawnedTheWorkersStart) {
  runner_.refused_ = 1;
  StartAhead();
  EXPECT_EQ(runner_.calls_, 2);
  EXPECT_THAT(runner_.discarded_, ElementsAre(0));
}

}  // namespace standbys_test
}  // namespace ddprun
