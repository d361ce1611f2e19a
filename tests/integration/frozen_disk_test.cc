// A disk under the log folders that does not answer for longer than the lease: agents go on.
//
// Two nodes of a job have their log folders on a file system of its own, in a file, which is frozen
// (fsfreeze) for 10 s. No node may be lost, fence itself, or cost a restart. Seen red with the
// folders made on the agent's loop: both nodes fenced themselves.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"

namespace ddprun {
namespace frozen_disk_test {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::seconds kFrozen{10};

struct Result {
  int code = -1;
  std::string err;
};

Result Shell(const std::string& script) {
  Program shell({"sh", "-c", script});
  Result result;
  result.code = shell.ExitCode();
  result.err = shell.err();
  return result;
}

// An ext4 file system of 64 MiB at `folder`/disk. A guard thaws and unmounts it when the test is
// killed.
class Disk {
 public:
  explicit Disk(const std::string& folder) : path_(folder + "/disk") {
    const std::string image = folder + "/image";
    made_ = Shell("exec 2>&1; truncate -s 64M " + image + " && mkfs.ext4 -q " + image +
                  " && mkdir " + path_ + " && mount -o loop " + image + " " + path_ + " >&2");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) abort();
    end_of_test_ = ends[1];
    if (fork() == 0) {
      setsid();
      dup2(ends[0], 0);
      const std::string script =
          "exec 2>/dev/null; read -r nothing; fsfreeze -u " + path_ + "; umount -l " + path_;
      execlp("sh", "sh", "-c", script.c_str(), nullptr);
      _exit(127);
    }
    close(ends[0]);
  }
  ~Disk() {
    Thaw();
    Shell("umount -l " + path_);
    close(end_of_test_);
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  const std::string& path() const { return path_; }
  const Result& made() const { return made_; }
  void Freeze() { ASSERT_EQ(Shell("fsfreeze -f " + path_).code, 0); }
  void Thaw() { Shell("fsfreeze -u " + path_ + " 2>/dev/null"); }

 private:
  const std::string path_;
  Result made_;
  int end_of_test_;
};

class FrozenDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForMounts());
    disk_.emplace(folder_.path());
    ASSERT_EQ(disk_->made().code, 0) << disk_->made().err;
    job_.emplace(disk_->path());
  }

  std::vector<std::string> Flags(int nodes, const std::string& script) {
    return {"--rdzv-endpoint",
            daemon_.endpoint(),
            "--rdzv-id",
            "job",
            "--nnodes",
            std::to_string(nodes),
            "--nproc-per-node",
            "2",
            "--max-restarts",
            "3",
            "sh",
            "-c",
            script};
  }
  // A file that workers wait for; not on the disk.
  std::string Flag(const std::string& name) const { return folder_ / name; }
  void Raise(const std::string& name) { std::ofstream(Flag(name)).put('1'); }
  // Shell: until the flag is there, a line each tenth of a second.
  std::string Until(const std::string& name) const {
    return "while [ ! -e " + Flag(name) + " ]; do echo still here; sleep 0.1; done; ";
  }

  void FreezeFor10Seconds() {
    disk_->Freeze();
    std::this_thread::sleep_for(kFrozen);
    disk_->Thaw();
  }

  void ExpectNoHarm(int restarts) {
    const std::string restarted = restarts == 0 ? "restart 1 of 3" : "restart 2 of 3";
    for (std::size_t i = 0; i < job_->size(); ++i) {
      EXPECT_EQ(job_->node(i).ExitCode(), 0) << job_->node(i).err();
      EXPECT_THAT(job_->node(i).err(), Not(ContainsRegex("fenced|not heard|lost")));
      EXPECT_THAT(job_->node(i).err(), Not(HasSubstr(restarted)));
    }
    EXPECT_THAT(daemon_.program().err(), Not(ContainsRegex("lost|not heard")));
  }

  TempDir folder_;
  Daemon daemon_{folder_.path()};
  std::optional<Disk> disk_;
  std::optional<Job> job_;
};

TEST_F(FrozenDiskTest, WhileAJobStarts) {
  // Two have made their folders and wait for the third, whose logs are elsewhere.
  job_->AddNode(Flags(3, "exit 0"));
  job_->AddNode(Flags(3, "exit 0"));
  for (const std::size_t node : {0, 1}) {
    ASSERT_TRUE(job_->node(node).WaitForErr("waiting for 1 node")) << job_->node(node).err();
  }
  disk_->Freeze();
  Job third(folder_.path());
  third.AddNode(Flags(3, "exit 0"));
  std::this_thread::sleep_for(kFrozen);
  disk_->Thaw();
  ExpectNoHarm(0);
  EXPECT_EQ(third.node(0).ExitCode(), 0) << third.node(0).err();
}

TEST_F(FrozenDiskTest, WhileAJobRuns) {
  const std::string script = "echo up; " + Until("end");
  job_->AddNode(Flags(2, script));
  job_->AddNode(Flags(2, script));
  for (const std::size_t node : {0, 1}) ASSERT_TRUE(job_->node(node).WaitForOut("up"));
  FreezeFor10Seconds();
  Raise("end");
  ExpectNoHarm(0);
}

TEST_F(FrozenDiskTest, WhileAJobStartsAgain) {
  const std::string script =
      "echo up; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 3 ] && { " +
      Until("fail") + " exit 3; }; exec sleep 1000";
  job_->AddNode(Flags(2, script));
  job_->AddNode(Flags(2, script));
  for (const std::size_t node : {0, 1}) ASSERT_TRUE(job_->node(node).WaitForOut("up"));
  disk_->Freeze();
  Raise("fail");
  std::this_thread::sleep_for(kFrozen);
  disk_->Thaw();
  ExpectNoHarm(1);
  for (const std::size_t node : {0, 1}) {
    EXPECT_THAT(job_->node(node).err(), HasSubstr("restart 1 of 3"));
  }
}

}  // namespace frozen_disk_test
}  // namespace ddprun
