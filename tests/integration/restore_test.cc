// The state with which a generation begins, on real nodes whose agents, guardians and workers are
// killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/job.h"

namespace ddprun {
namespace restore_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// The folders of snapshots that exist.
std::set<std::string> Snapshots() {
  std::set<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().rfind("ddprun-", 0) == 0) folders.insert(entry.path());
  }
  return folders;
}

// The rest of the last line of stdout that begins with `word` (after the rank's prefix).
std::string Said(const Program& node, const std::string& word) {
  std::string rest;
  std::istringstream lines(node.out());
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("]:" + word + " ");
    if (at != std::string::npos) rest = line.substr(at + word.size() + 3);
  }
  return rest;
}

class RestoreTest : public testing::Test {
 protected:
  // A node with a checkpoint folder of its own.
  Program& AddNode(int node_rank, int nodes, std::vector<std::string> steps,
                   std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"--rdzv-endpoint",  daemon_.endpoint(),
                                      "--rdzv-id",        "job",
                                      "--nnodes",         std::to_string(nodes),
                                      "--node-rank",      std::to_string(node_rank),
                                      "--nproc-per-node", "2",
                                      "--checkpoint-dir", Disk(job_.size())};
    flags.insert(flags.end(), more.begin(), more.end());
    flags.insert(flags.end(),
                 {"--", "/usr/bin/python3", SourceDir() + "/tests/programs/restore_worker.py"});
    flags.insert(flags.end(), steps.begin(), steps.end());
    return job_.AddNode(flags);
  }
  std::string Disk(std::size_t node) const { return folder_ / ("disk" + std::to_string(node)); }
  std::vector<nlohmann::json> Events(const std::string& kind) {
    Program events({DdprunPath(), "events", "job", "--rdzv-endpoint", daemon_.endpoint()});
    EXPECT_EQ(events.ExitCode(), 0) << events.err();
    std::vector<nlohmann::json> found;
    std::istringstream lines(events.out());
    for (std::string line; std::getline(lines, line);) {
      auto event = nlohmann::json::parse(line);
      if (event["event"] == kind) found.push_back(std::move(event));
    }
    return found;
  }

  // Node 0 is lost with its disk.
  Program& ReplaceNode0(Program& lost, const std::vector<std::string>& steps) {
    lost.Signal(SIGKILL);
    lost.Wait();
    std::filesystem::remove_all(Disk(0));
    return AddNode(0, 2, steps);
  }
  // It arrives with a node's next heartbeat.
  void ExpectStatus(const std::string& expected) {
    std::string shown;
    const auto limit = std::chrono::steady_clock::now() + kHang;
    while (shown.find(expected) == shown.npos && std::chrono::steady_clock::now() < limit) {
      Program status(
          {DdprunPath(), "status", "job", "--json", "--rdzv-endpoint", daemon_.endpoint()});
      ASSERT_EQ(status.ExitCode(), 0) << status.err();
      shown = status.out();
    }
    EXPECT_THAT(shown, HasSubstr(expected));
  }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  Job job_{folder_.path()};
};

TEST_F(RestoreTest, Node0IsLostWithItsDiskAndNode1GivesItsStateToAll) {
  const std::vector<std::string> steps = {"12", "13"};
  Program& lost = AddNode(0, 2, steps);
  Program& other = AddNode(1, 2, steps, {"--report", folder_ / "report.json"});
  ASSERT_TRUE(lost.WaitForOut("saved")) << lost.err();
  ASSERT_TRUE(other.WaitForOut("saved")) << other.err();
  EXPECT_EQ(Said(lost, "restore"), "- - - - -");
  Program& fresh = ReplaceNode0(lost, steps);
  EXPECT_EQ(fresh.ExitCode(), 0) << fresh.err();
  EXPECT_EQ(other.ExitCode(), 0) << other.err();
  EXPECT_EQ(Said(fresh, "restore"), "13 2 memory 0 0");
  EXPECT_EQ(Said(other, "restore"), "13 2 memory 0 0");
  EXPECT_EQ(Said(other, "source"), "has it: True");
  for (const Program* const node : {&fresh, &other}) {
    EXPECT_THAT(node->err(), HasSubstr("resumes at step 13 from rank 2 (memory of node "));
  }
  const auto restore = nlohmann::json::parse(ReadFile(folder_ / "report.json"))["restore"];
  EXPECT_EQ(restore["step"], 13);
  EXPECT_EQ(restore["tier"], "memory");
  EXPECT_EQ(restore["rank"], 2);
  EXPECT_EQ(restore["epoch"], 0);
  EXPECT_EQ(restore["generation"], 0);
  const auto formed = Events("formed");
  ASSERT_EQ(formed.size(), 2u);
  EXPECT_FALSE(formed[0].contains("restore"));
  EXPECT_EQ(formed[1]["restore"]["step"], 13);
  EXPECT_EQ(formed[1]["restore"]["rank"], 2);
  EXPECT_EQ(formed[1]["restore"]["tier"], "memory");
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

TEST_F(RestoreTest, ACheckpointThatIsOnTheDiskAtTheStartIsTaken) {
  Program& first = AddNode(0, 1, {"12"});
  ASSERT_TRUE(first.WaitForOut("saved")) << first.err();
  first.Signal(SIGKILL);
  first.Wait();
  job_.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "another-name",
                "--nproc-per-node", "1", "--checkpoint-dir", Disk(0), "--", "/usr/bin/python3",
                SourceDir() + "/tests/programs/restore_worker.py", "0"});
  EXPECT_EQ(job_.node(1).ExitCode(), 0) << job_.node(1).err();
  // The checkpoint is older than this job, so this job knows no generation of it.
  EXPECT_EQ(Said(job_.node(1), "restore"), "10 0 durable 0 -1");
  EXPECT_EQ(Said(job_.node(1), "source"), "has it: True");
}

// Node 0 saved the checkpoint of step 10 in a folder that both nodes share. Only node 1 is left,
// and cannot list the folder. It has a snapshot of step 5, and must not simply go on with that.
TEST_F(RestoreTest, AFolderThatCannotBeListedIsNotTakenForEmpty) {
  const std::vector<std::string> steps = {"12", "5"};
  Program& lost = AddNode(0, 2, steps);
  Program& other = AddNode(1, 2, steps);
  ASSERT_TRUE(lost.WaitForOut("saved")) << lost.err();
  ASSERT_TRUE(other.WaitForOut("saved")) << other.err();
  ExpectStatus(R"("checkpoint":10)");
  std::filesystem::remove_all(Disk(1));
  std::filesystem::create_symlink(Disk(1), Disk(1));  // not even root can list it
  Program& fresh = ReplaceNode0(lost, steps);
  EXPECT_EQ(fresh.ExitCode(), 0) << fresh.err();
  EXPECT_EQ(other.ExitCode(), 0) << other.err();
  EXPECT_EQ(Said(other, "restore"), "5 2 memory 0 0");
  EXPECT_EQ(Said(other, "unseen"), "10 2 0 0");
  EXPECT_THAT(other.err(), HasSubstr("cannot read " + Disk(1)));
}

TEST_F(RestoreTest, StatusShowsWhatANodeHolds) {
  Program& node = AddNode(0, 1, {"12"}, {"--save-timeout=0s"});
  ASSERT_TRUE(node.WaitForOut("saved")) << node.err();
  ExpectStatus(R"("newest_state":{"step":12,"epoch":0,"generation":0,"tier":"memory"})");
  node.Signal(SIGTERM);
  EXPECT_EQ(node.ExitCode(), 75);  // there is a checkpoint to continue from
}

// ---- the folder in memory ----

class SnapshotDirTest : public testing::Test {
 protected:
  Program& Start(std::vector<std::string> more, const std::string& script) {
    std::vector<std::string> flags = std::move(more);
    flags.insert(flags.end(), {"sh", "-c", script});
    return job_.AddNode(flags);
  }
  std::string FolderOf(const Program& node) {
    EXPECT_TRUE(node.WaitForOut("folder ")) << node.err();
    return Said(node, "folder");
  }

  TempDir folder_;
  Job job_{folder_.path()};
};

constexpr char kHold[] =
    "echo state > $DDPRUN_SNAPSHOT_DIR/slot; echo folder $DDPRUN_SNAPSHOT_DIR; exec sleep 1000";

TEST_F(SnapshotDirTest, OutlivesWorkersAndGenerations) {
  Program& node =
      Start({"--max-restarts", "1"},
            "if [ $DDPRUN_GENERATION = 0 ]; then echo state > $DDPRUN_SNAPSHOT_DIR/slot;"
            " kill -KILL $$; fi; cat $DDPRUN_SNAPSHOT_DIR/slot");
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(node.out(), HasSubstr("state"));
}

TEST_F(SnapshotDirTest, IsGoneWhenTheJobHasEndedHoweverItDid) {
  for (const auto& [script, signo] : std::vector<std::pair<std::string, int>>{
           {"true", 0}, {"exit 3", 0}, {"", SIGTERM}, {"", SIGINT}, {"", SIGQUIT}, {"", SIGHUP}}) {
    Program& node =
        Start({}, signo == 0 ? "echo folder $DDPRUN_SNAPSHOT_DIR; " + script : std::string(kHold));
    const std::string path = FolderOf(node);
    EXPECT_THAT(path, StartsWith("/dev/shm/ddprun-"));
    if (signo != 0) node.Signal(signo);
    node.ExitCode();
    EXPECT_FALSE(std::filesystem::exists(path)) << script << " " << signo;
  }
}

TEST_F(SnapshotDirTest, OfAnAgentThatIsKilledIsRemovedByItsGuardian) {
  Program& node = Start({}, kHold);
  const std::string path = FolderOf(node);
  ASSERT_TRUE(std::filesystem::exists(path + "/slot"));
  node.Signal(SIGKILL);
  EXPECT_TRUE(WaitForChange(
      "/dev/shm", [&] { return !std::filesystem::exists(path); }, std::chrono::seconds(2)));
}

TEST_F(SnapshotDirTest, OfAnAgentThatIsKilledWithItsGuardianIsRemovedByTheNext) {
  Program& node = Start({}, kHold);
  const std::string path = FolderOf(node);
  const std::string children = ReadFile("/proc/" + std::to_string(node.pid()) + "/task/" +
                                        std::to_string(node.pid()) + "/children");
  node.Signal(SIGSTOP);  // so that it does not see the guardian's end
  std::istringstream pids(children);
  for (pid_t pid = 0; pids >> pid;) kill(pid, SIGKILL);
  node.Signal(SIGKILL);
  node.Wait();
  Program& held = Start({}, kHold);
  const std::string held_path = FolderOf(held);
  // The next agent on this host removes the folder. All tests share /dev/shm, so an agent of
  // another test may have begun to remove it already.
  EXPECT_TRUE(WaitForChange(
      "/dev/shm", [&] { return !std::filesystem::exists(path); }, std::chrono::seconds(10)));
  // An agent does not remove a folder that is in use.
  Program& next = Start({}, "true");
  EXPECT_EQ(next.ExitCode(), 0);
  EXPECT_TRUE(std::filesystem::exists(held_path));
  held.Signal(SIGTERM);
  held.ExitCode();
  EXPECT_THAT(Snapshots(), Not(Contains(held_path)));
}

}  // namespace restore_test
}  // namespace ddprun
