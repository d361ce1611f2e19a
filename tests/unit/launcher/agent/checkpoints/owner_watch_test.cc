#include "launcher/agent/checkpoints/owner_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "launcher/os/event_loop.h"
#include "tests/support/temp_dir.h"
#include "worker/contract/checkpoint_owner.h"

namespace ddprun {
namespace owner_watch_test {

class OwnerWatchTest : public testing::Test {
 protected:
  void SetOwner(const std::string& line) { std::ofstream(folder_ / kOwnerFile) << line << "\n"; }
  std::string Owner() const {
    const auto owner = ReadOwner(folder_.path());
    return owner ? Describe(*owner) : "nobody";
  }
  static CheckpointOwner Life(std::int64_t requeue_number, const std::string& slurm = "") {
    CheckpointOwner life{"17", requeue_number, 0};
    life.slurm = slurm;
    return life;
  }
  // Runs the loop until the watch reports, or for a few checks.
  std::string Watch(std::int64_t requeue_number) { return Watch(Life(requeue_number)); }
  std::string Watch(const CheckpointOwner& life) {
    std::string told = "nothing";
    const OwnerWatch watch(&loop_, {folder_.path(), life, std::chrono::milliseconds(1)},
                           [&](std::string why) {
                             told = std::move(why);
                             loop_.Quit();
                           });
    loop_.AddTimer(EventLoop::Clock::now() + std::chrono::milliseconds(50), [&] { loop_.Quit(); });
    loop_.Run();
    return told;
  }

  TempDir folder_;
  EventLoop loop_;
};

// The owner has ended: 4194305 is above the highest pid that Linux gives.
constexpr char kHeld[] = "1 5 17\nrun=a host=n pid=4194305 started=1 machine=m slurm= state=held";

TEST_F(OwnerWatchTest, AFolderIsReleasedByTheAgentOfWhoHeldIt) {
  SetOwner(kHeld);
  CheckpointOwner holder{"17", 1, 5};
  holder.run = "a";
  ReleaseFolder(folder_.path(), holder);
  EXPECT_TRUE(ReadOwner(folder_.path())->released);
  EXPECT_EQ(ReadOwner(folder_.path())->run, "a");
}

TEST_F(OwnerWatchTest, AFolderIsNotReleasedByAnotherRunOrGeneration) {
  SetOwner(kHeld);
  for (const auto& [run, requeue_number, generation] :
       std::vector<std::tuple<std::string, int, int>>{{"b", 1, 5}, {"a", 0, 5}, {"a", 1, 4}}) {
    CheckpointOwner other{"17", requeue_number, generation};
    other.run = run;
    ReleaseFolder(folder_.path(), other);
    EXPECT_FALSE(ReadOwner(folder_.path())->released) << run << requeue_number << generation;
  }
  std::filesystem::remove(folder_ / kOwnerFile);
  ReleaseFolder(folder_.path(), {"17", 1, 5});
  EXPECT_FALSE(std::filesystem::exists(folder_ / kOwnerFile));
}

TEST_F(OwnerWatchTest, AFolderIsNotReleasedWhileItsProcessIsThere) {
  SetOwner("1 5 17\nrun=a host=n pid=" + std::to_string(getpid()) +
           " started=1 machine=m slurm= state=held");
  CheckpointOwner holder{"17", 1, 5};
  holder.run = "a";
  ReleaseFolder(folder_.path(), holder);
  EXPECT_FALSE(ReadOwner(folder_.path())->released);
}

TEST_F(OwnerWatchTest, ALaterLifeOfTheJobIsTold) {
  SetOwner("2 0 17");
  EXPECT_EQ(Watch(1), "requeue number 1 of job 17 is over: it was started again, and " +
                          folder_.path() + " belongs to requeue number 2");
}

TEST_F(OwnerWatchTest, NobodyElseIs) {
  EXPECT_EQ(Watch(0), "nothing");  // no owner, and no folder either
  for (const char* const line : {"1 5 17", "0 0 17", "9 0 18", "9 0"}) {
    SetOwner(line);
    EXPECT_EQ(Watch(1), "nothing") << line;
  }
}

TEST_F(OwnerWatchTest, AnOwnerWhoComesLaterIsSeen) {
  SetOwner("0 3 17");
  std::string told;
  const OwnerWatch watch(&loop_, {folder_.path(), Life(0), std::chrono::milliseconds(1)},
                         [&](std::string why) {
                           told = std::move(why);
                           loop_.Quit();
                         });
  loop_.AddTimer(EventLoop::Clock::now() + std::chrono::milliseconds(20),
                 [&] { ClaimFromEarlierLife(folder_.path(), Life(1)); });
  loop_.Run();
  EXPECT_NE(told.find("belongs to requeue number 1"), std::string::npos) << told;
}

TEST_F(OwnerWatchTest, ARequeuedJobTakesItsOwnFolderAndNoOther) {
  ClaimFromEarlierLife(folder_.path(), Life(2));
  EXPECT_EQ(Owner(), "nobody");  // the first job that saves becomes the owner
  for (const char* const line : {"3 1 17", "2 4 17", "0 0 18"}) {
    SetOwner(line);
    const std::string before = Owner();
    ClaimFromEarlierLife(folder_.path(), Life(2));
    EXPECT_EQ(Owner(), before);
  }
  SetOwner("1 7 17");
  ClaimFromEarlierLife(folder_.path(), Life(2));
  EXPECT_EQ(Owner(), "requeue number 2, generation 0, of job 17");
}

// Two jobs without a name are both called `none`, and Slurm has requeued one of them. Seen red when
// only names and requeue numbers were compared: the requeued job took the folder from the other
// job, which still ran.
TEST_F(OwnerWatchTest, ARequeuedJobTakesNothingFromAnotherJobOfSlurmWithItsName) {
  const std::string held = "\nrun=a host=n pid=1 started=1 machine=m slurm=1000 state=held";
  SetOwner("0 7 17" + held);
  ClaimFromEarlierLife(folder_.path(), Life(1, "1001"));
  EXPECT_FALSE(ReadOwner(folder_.path())->released);
  EXPECT_EQ(ReadOwner(folder_.path())->run, "a");
  SetOwner("2 7 17" + held);
  EXPECT_EQ(Watch(Life(1, "1001")), "nothing") << "it is not a later life of this job";
  EXPECT_NE(Watch(Life(1, "1000")), "nothing");
  ClaimFromEarlierLife(folder_.path(), Life(3, "1000"));
  const auto owner = ReadOwner(folder_.path());
  EXPECT_TRUE(owner->released);
  EXPECT_EQ(owner->requeue_number, 3);
  EXPECT_EQ(owner->slurm, "1000");
}

// The claim before is from an older version, which does not name the Slurm job.
TEST_F(OwnerWatchTest, AClaimNamesTheJobOfSlurm) {
  SetOwner("0 7 17");
  ClaimFromEarlierLife(folder_.path(), Life(1, "1001"));
  EXPECT_EQ(ReadOwner(folder_.path())->slurm, "1001");
}

TEST_F(OwnerWatchTest, ALifeHasTheAgentsJobOfSlurm) {
  setenv("SLURM_JOB_ID", "1001", 1);
  const CheckpointOwner life = LifeOf("17", 2);
  unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(ToText(life), "2 0 17\nrun= host= pid=0 started= machine= slurm=1001 state=held\n");
  EXPECT_EQ(LifeOf("17", 2).slurm, "");
}

TEST_F(OwnerWatchTest, MayBeDestroyedWhileItWaits) {
  auto watch = std::make_unique<OwnerWatch>(
      &loop_, OwnerWatch::Options{folder_.path(), Life(0), std::chrono::hours(1)},
      [](const std::string&) { FAIL(); });
  watch.reset();
}

}  // namespace owner_watch_test
}  // namespace ddprun
