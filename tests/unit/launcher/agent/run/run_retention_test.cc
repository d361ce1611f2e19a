#include "launcher/agent/run/run_retention.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/os/local_address.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace run_retention_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunRetentionTest : public testing::Test {
 protected:
  // A run of the job, with logs, which began this number of seconds after 1970. It ends at once.
  std::string AddRun(const std::string& job, int second) {
    std::string path;
    {
      auto run = RunDirectory::Create(folder_.path(), job, 0);
      EXPECT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(run->why_not_owned(), "");
      path = run->path();
    }
    std::filesystem::create_directories(path + "/attempt_0/0");
    std::ofstream(path + "/attempt_0/0/stdout.log") << "said";
    SetTime(path, second);
    return path;
  }
  static void SetTime(const std::string& run, int second) {
    const timespec times[2] = {{second, 0}, {second, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, RunOwnerFile(run).c_str(), times, 0), 0);
  }
  RemovedRuns Keep(int number, const std::string& job = "job") {
    return RemoveOldRuns({folder_.path(), job, HostName(), number});
  }
  std::set<std::string> Left() const {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      paths.insert(entry.path());
    }
    return paths;
  }

  const TempDir folder_;
};

// Seen red when the newest went instead.
TEST_F(RunRetentionTest, TheOldestGoAndThisRunCountsAsKept) {
  const std::string second = AddRun("job", 200);
  const std::string first = AddRun("job", 100);
  const std::string third = AddRun("job", 300);
  const auto now = RunDirectory::Create(folder_.path(), "job", 0);
  ASSERT_TRUE(now.ok());
  const RemovedRuns removed = Keep(2);
  EXPECT_TRUE(removed.error.ok()) << removed.error;
  EXPECT_THAT(removed.paths, ElementsAre(second, first));
  EXPECT_THAT(Left(), ElementsAre(std::min(third, now->path()), std::max(third, now->path())));
}

TEST_F(RunRetentionTest, WithoutANumberAllStay) {
  for (int i = 1; i <= 3; ++i) AddRun("job", i);
  EXPECT_THAT(Keep(0).paths, IsEmpty());
  EXPECT_EQ(Left().size(), 3u);
}

// Seen red when the lock was not checked.
TEST_F(RunRetentionTest, OneWhoseAgentLivesStays) {
  const auto twin = RunDirectory::Create(folder_.path(), "job", 0);
  ASSERT_TRUE(twin.ok());
  SetTime(twin->path(), 1);
  EXPECT_THAT(Keep(1).paths, IsEmpty());
  EXPECT_THAT(Left(), ElementsAre(twin->path()));
}

TEST_F(RunRetentionTest, WhatIsNoRunOfThisJobOnThisHostStays) {
  const std::string longer = AddRun("job_of", 1);  // job_of_XXXXXX
  const std::string shorter = AddRun("jo", 1);     // jo_XXXXXX
  const std::string elsewhere = AddRun("job", 1);  // of another node
  std::ofstream(RunOwnerFile(elsewhere)) << "another-host\nagent 1\n";
  const std::string similar = AddRun("job", 1);  // of a host whose name begins like this one's
  std::ofstream(RunOwnerFile(similar)) << HostName() << "x\nagent 1\n";
  const std::string older_version = folder_ / "job_abcdef";
  std::filesystem::create_directory(older_version);
  const std::string own_notes = folder_ / "job_notes";
  std::filesystem::create_directory(own_notes);
  const std::string target = AddRun("target", 1);
  std::filesystem::create_directory_symlink(target, folder_ / "job_linked");
  const std::set<std::string> before = Left();
  EXPECT_THAT(Keep(1).paths, IsEmpty());
  EXPECT_EQ(Left(), before);
}

// An agent may be killed while it removes a run.
TEST_F(RunRetentionTest, OneThatWasRemovedInPartIsRemovedByTheNext) {
  const std::string run = AddRun("job", 1);
  std::filesystem::remove_all(run + "/attempt_0");
  EXPECT_THAT(Keep(1).paths, ElementsAre(run));
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(RunRetentionTest, IsDoneBeforeTheEndOfTheRun) {
  const std::string run = AddRun("job", 1);
  std::vector<std::string> gone;
  {
    const RunRetention retention({folder_.path(), "job", HostName(), 1},
                                 [&](const RemovedRuns& removed) { gone = removed.paths; });
  }
  EXPECT_THAT(gone, ElementsAre(run));
}

}  // namespace run_retention_test
}  // namespace ddprun
