#include "launcher/agent/worker_postmortem.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace worker_postmortem_test {

TEST(ReadErrorFileTest, ReadsTheBeginningAndTakesAMissingFileForAnEmptyOne) {
  TempDir folder;
  std::ofstream(folder / "error.json") << std::string(100'000, 'x');
  EXPECT_EQ(ReadErrorFile(folder / "error.json").size(), 64u << 10);
  EXPECT_EQ(ReadErrorFile("/nowhere/error.json"), "");
}

class OomProbeTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  // As in a container: the log of the kernel has other pids than the probe.
  OomProbe Probe() {
    return OomProbe(OomProbe::Places{folder_ / "cgroup", folder_ / "own", folder_ / "kmsg",
                                     folder_ / "vmstat", folder_ / "pid_namespace"});
  }
  void UseTheFirstPidNamespace() {
    std::filesystem::create_symlink("pid:[4026531836]", folder_ / "pid_namespace");
  }
  void Log(const std::string& text) { std::ofstream(folder_ / "kmsg", std::ios::app) << text; }

  TempDir folder_;
  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
};

TEST_F(OomProbeTest, AKillInTheCgroupSinceTheLastLookCounts) {
  Write("own", "0::/job\n");
  Write("cgroup/job/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n");
  OomProbe probe = Probe();
  EXPECT_FALSE(probe.WasKilled(10, now_)) << "the three were before our time";
  Write("cgroup/job/memory.events", "low 0\noom 5\noom_kill 4\noom_group_kill 0\n");
  EXPECT_TRUE(probe.WasKilled(10, now_));
  EXPECT_FALSE(probe.WasKilled(11, now_));
}

TEST_F(OomProbeTest, VersionOneOfCgroupsIsReadToo) {
  Write("own", "7:cpu:/x\n5:memory:/job\n");
  Write("cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  OomProbe probe = Probe();
  Write("cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_TRUE(probe.WasKilled(10, now_));
}

TEST_F(OomProbeTest, EachCountedKillAnswersForOneWorker) {
  Write("vmstat", "oom_kill 3\n");
  OomProbe probe = Probe();
  Write("vmstat", "oom_kill 5\n");
  EXPECT_TRUE(probe.WasKilled(10, now_));
  EXPECT_TRUE(probe.WasKilled(11, now_));
  EXPECT_FALSE(probe.WasKilled(12, now_));
}

TEST_F(OomProbeTest, AKillThatTheWorkersOutlivedWasOfAnotherProcess) {
  Write("vmstat", "oom_kill 3\n");
  OomProbe probe = Probe();
  Write("vmstat", "oom_kill 4\n");  // a data loader
  probe.Look(now_);
  now_ += OomProbe::kRecent + std::chrono::seconds(1);
  EXPECT_FALSE(probe.WasKilled(10, now_));
  Write("vmstat", "oom_kill 5\n");  // a worker, which ends a while later
  probe.Look(now_);
  now_ += OomProbe::kRecent;
  EXPECT_TRUE(probe.WasKilled(10, now_));
}

TEST_F(OomProbeTest, TheKernelLogNamesTheProcess) {
  UseTheFirstPidNamespace();
  Log("3,1,1,-;Out of memory: Killed process 7 (old)\n");
  OomProbe probe = Probe();
  EXPECT_FALSE(probe.WasKilled(7, now_)) << "an old record";
  Log("3,2,2,-;Out of memory: Killed process 4242 (train) total-vm:1kB\n");
  EXPECT_TRUE(probe.WasKilled(4242, now_));
  EXPECT_FALSE(probe.WasKilled(42, now_));
}

TEST_F(OomProbeTest, AProcessThatTheLogDoesNotNameWasNotKilled) {
  UseTheFirstPidNamespace();
  Write("kmsg", "");
  Write("vmstat", "oom_kill 3\n");
  OomProbe probe = Probe();
  Log("3,2,2,-;Memory cgroup out of memory: Killed process 99 (loader)\n");
  Write("vmstat", "oom_kill 4\n");
  EXPECT_FALSE(probe.WasKilled(10, now_));
}

TEST_F(OomProbeTest, InAContainerTheLogHasOtherPidsAndTheCountDecides) {
  Write("kmsg", "");
  Write("vmstat", "oom_kill 3\n");
  OomProbe probe = Probe();
  Log("3,2,2,-;Memory cgroup out of memory: Killed process 81234 (train)\n");
  EXPECT_FALSE(probe.WasKilled(81234, now_)) << "another process has that pid here";
  Write("vmstat", "oom_kill 4\n");
  EXPECT_TRUE(probe.WasKilled(10, now_));
}

// In a container without a cgroup namespace, the path of the cgroup is that of the host, but the
// mount begins at the container's cgroup. The count of the host includes kills in other pods.
TEST_F(OomProbeTest, ThePodsOwnCgroupIsFoundWhereItsPathIsTheHosts) {
  const std::string count = "oom_kill_disable 0\nunder_oom 0\noom_kill ";
  Write("vmstat", "oom_kill 3\n");
  Write("own", "5:memory:/kubepods/burstable/pod1/c1\n0::/\n");
  Write("cgroup/memory/memory.oom_control", count + "0\n");
  OomProbe probe = Probe();
  Write("vmstat", "oom_kill 4\n");
  EXPECT_FALSE(probe.WasKilled(10, now_)) << "in another pod";
  Write("cgroup/memory/memory.oom_control", count + "1\n");
  EXPECT_TRUE(probe.WasKilled(10, now_));
}

TEST_F(OomProbeTest, ACgroupOfVersionTwoMayBeginAboveThePods) {
  Write("own", "0::/kubepods.slice/pod1.slice/c1\n");
  Write("cgroup/c1/memory.events", "oom_kill 0\n");
  OomProbe probe = Probe();
  Write("cgroup/c1/memory.events", "oom_kill 1\n");
  EXPECT_TRUE(probe.WasKilled(10, now_));
}

TEST_F(OomProbeTest, WithoutACgroupAndTheLogTheHostsCountIsTaken) {
  Write("vmstat", "nr_free_pages 7\noom_kill 3\n");
  OomProbe probe = Probe();
  EXPECT_FALSE(probe.WasKilled(10, now_));
  Write("vmstat", "nr_free_pages 7\noom_kill 4\n");
  probe.Begin();
  EXPECT_FALSE(probe.WasKilled(10, now_)) << "that was before these workers";
  Write("vmstat", "nr_free_pages 7\noom_kill 5\n");
  EXPECT_TRUE(probe.WasKilled(10, now_));
}

TEST_F(OomProbeTest, WithoutAnySourceNothingIsClaimed) {
  OomProbe probe = Probe();
  EXPECT_FALSE(probe.WasKilled(1, now_));
}

}  // namespace worker_postmortem_test
}  // namespace ddprun
