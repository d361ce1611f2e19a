#include "launcher/agent/run/snapshot_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace snapshot_folder_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class SnapshotFolderTest : public testing::Test {
 protected:
  SnapshotFolderTest() {
    place_.root = folder_ / "shm";
    place_.cgroups = folder_ / "cgroup";
    place_.self_cgroup = folder_ / "self";
    place_.least_room = 0;
    std::filesystem::create_directories(place_.root);
  }
  void Limit(const std::string& group, const std::string& max, const std::string& current) {
    const std::string path = place_.cgroups + group;
    std::filesystem::create_directories(path);
    std::ofstream(path + "/memory.max") << max << "\n";
    std::ofstream(path + "/memory.current") << current << "\n";
  }
  std::string Prefix() const { return place_.root + "/ddprun-" + std::to_string(geteuid()) + "-"; }

  TempDir folder_;
  SnapshotPlace place_;
};

TEST_F(SnapshotFolderTest, IsNamedByUserJobAndEpochAndIsPrivate) {
  const auto made = SnapshotFolder::Create("a/b c", 3, place_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->path(), StartsWith(Prefix() + "a_b_c-3-"));
  struct stat status;
  ASSERT_EQ(stat(made->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(SnapshotFolderTest, TwoAgentsOfAJobOnOneHostHaveTwo) {
  const auto one = SnapshotFolder::Create("job", 0, place_);
  const auto other = SnapshotFolder::Create("job", 0, place_);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->path(), other->path());
  EXPECT_TRUE(std::filesystem::exists(one->path()));  // it is held, so it is not stale
}

TEST_F(SnapshotFolderTest, IsRemovedWithAllThatIsInIt) {
  auto made = SnapshotFolder::Create("job", 0, place_);
  ASSERT_TRUE(made.ok());
  std::ofstream(made->path() + "/slot0") << "state";
  made->Remove();
  EXPECT_TRUE(std::filesystem::is_empty(place_.root));
}

// The agent and its guardian were killed, so nobody has removed the folder.
TEST_F(SnapshotFolderTest, OneThatNobodyHoldsIsRemovedByTheNextAgent) {
  const pid_t child = fork();
  if (child == 0) {
    const auto made = SnapshotFolder::Create("job", 0, place_);
    if (made.ok()) std::ofstream(made->path() + "/slot0") << "state";
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  ASSERT_FALSE(std::filesystem::is_empty(place_.root));
  const auto next = SnapshotFolder::Create("another", 0, place_);
  ASSERT_TRUE(next.ok());
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(place_.root)) {
    left.push_back(entry.path());
  }
  EXPECT_THAT(left, ElementsAre(next->path()));
}

TEST_F(SnapshotFolderTest, OneThatIsBeingMadeIsLeftAlone) {
  const std::string young = Prefix() + "job-0-abcdef";
  std::filesystem::create_directory(young);
  EXPECT_THAT(RemoveStaleSnapshots(place_), IsEmpty());
  const utimbuf long_ago{1, 1};
  utime(young.c_str(), &long_ago);
  EXPECT_THAT(RemoveStaleSnapshots(place_), ElementsAre(young));
}

// Several agents start at once, and each looks for stale folders. An agent must not take the new
// folder of another agent for stale, and must not hold its lock while the owner wants to take it.
// Seen red when the owner file got its name before its lock.
TEST_F(SnapshotFolderTest, ManyThatAreMadeAtOnceAllStay) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  std::vector<std::thread> threads;
  std::atomic<int> lost = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int made = 0; made < kEach; ++made) {
        auto folder = SnapshotFolder::Create("job", 0, place_);
        RemoveStaleSnapshots(place_);
        if (!folder.ok() || !std::filesystem::exists(folder->path() + "/.owner")) ++lost;
        if (folder.ok()) folder->Remove();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
}

TEST_F(SnapshotFolderTest, WhatIsNotOursIsLeftAlone) {
  std::filesystem::create_directory(place_.root + "/torch_1234");
  std::filesystem::create_directory(place_.root + "/elsewhere");
  std::filesystem::create_symlink(place_.root + "/elsewhere", Prefix() + "job-0-abcdef");
  const utimbuf long_ago{1, 1};
  utime((place_.root + "/torch_1234").c_str(), &long_ago);
  utime((place_.root + "/elsewhere").c_str(), &long_ago);
  EXPECT_THAT(RemoveStaleSnapshots(place_), IsEmpty());
}

TEST_F(SnapshotFolderTest, RoomIsTheLeastThatAnyLimitAboveLeaves) {
  std::ofstream(place_.self_cgroup) << "1:name=systemd:/x\n0::/slice/job\n";
  EXPECT_GT(SnapshotRoom(place_), 10000u);  // the room of the file system
  Limit("/slice/job", "max", "5000");
  EXPECT_GT(SnapshotRoom(place_), 10000u);
  Limit("/slice", "10000", "4000");
  EXPECT_EQ(SnapshotRoom(place_), 6000u);
  Limit("/slice/job", "7000", "6500");
  EXPECT_EQ(SnapshotRoom(place_), 500u);
  Limit("/slice/job", "7000", "9000");
  EXPECT_EQ(SnapshotRoom(place_), 0u);
}

TEST_F(SnapshotFolderTest, CachedFilesThatTheKernelFreesFirstLeaveRoom) {
  std::ofstream(place_.self_cgroup) << "0::/job\n";
  Limit("/job", "7000", "6500");
  std::ofstream(place_.cgroups + "/job/memory.stat") << "anon 3000\ninactive_file 2500\n";
  EXPECT_EQ(SnapshotRoom(place_), 3000u);
}

// Red if the loop ends before the root.
TEST_F(SnapshotFolderTest, AContainersOwnCgroupIsTheRootOfItsNamespace) {
  std::ofstream(place_.self_cgroup) << "0::/\n";
  Limit("/", "7000", "6500");
  EXPECT_EQ(SnapshotRoom(place_), 500u);
}

TEST_F(SnapshotFolderTest, WithoutRoomThereIsNoneAndTheReasonHasTheNumbers) {
  std::ofstream(place_.self_cgroup) << "0::/job\n";
  Limit("/job", "104857600", "94371840");
  place_.least_room = 64 << 20;
  const auto made = SnapshotFolder::Create("job", 0, place_);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("room for 10 MiB"));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("at least 64 MiB"));
  EXPECT_TRUE(std::filesystem::is_empty(place_.root));
}

}  // namespace snapshot_folder_test
}  // namespace ddprun
