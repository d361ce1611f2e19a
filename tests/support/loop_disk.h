// A file system for one test: a real ext4 in a file.
#ifndef DDPRUN_TESTS_SUPPORT_LOOP_DISK_H_
#define DDPRUN_TESTS_SUPPORT_LOOP_DISK_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/support/program.h"

namespace ddprun {

// 64 MiB at `folder`/disk. Needs MissingForMounts() to be empty. If the test is killed, a guard
// thaws and unmounts the disk.
class LoopDisk {
 public:
  explicit LoopDisk(const std::string& folder)
      : path_(folder + "/disk"), image_(folder + "/image") {
    why_not_ = Shell("truncate -s 64M " + image_ + " && mkfs.ext4 -q -m 0 " + image_ +
                     " && mkdir " + path_ + " && mount -o loop " + image_ + " " + path_);
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
  ~LoopDisk() {
    Thaw();
    Shell("umount -l " + path_);
    close(end_of_test_);
  }
  LoopDisk(const LoopDisk&) = delete;
  LoopDisk& operator=(const LoopDisk&) = delete;

  const std::string& path() const { return path_; }
  // Why the disk could not be made; "": it exists.
  const std::string& why_not() const { return why_not_; }

  void Freeze() { ASSERT_EQ(Shell("fsfreeze -f " + path_), ""); }
  void Thaw() { Shell("fsfreeze -u " + path_); }
  // Fills the disk to the last byte. MakeRoom() makes room again.
  void Fill() {
    const std::string filler = path_ + "/filler";
    // sync frees blocks that were reserved for unwritten data.
    for (int i = 0; i < 3; ++i) Shell("cat /dev/zero >> " + filler + "; sync -f " + filler);
  }
  // Makes the file system read-only, and all blocks from the middle of `file` on unreadable: EIO.
  // The blocks before them stay readable.
  void LoseBlocks(const std::string& file) {
    ASSERT_EQ(
        Shell("mount -o remount,ro " + path_ + " && set -- $(filefrag -v " + file +
              " | sed -n 's/^ *0: *0\\.\\. *[0-9]*: *\\([0-9]*\\)\\.\\. *\\([0-9]*\\):.*/\\1 "
              "\\2/p') && truncate -s $((($1 + $2) / 2 * $(stat -f -c %S " +
              path_ + "))) " + image_ + " && dd if=" + file + " iflag=nocache count=0 status=none"),
        "");
  }
  void MakeRoom() { ASSERT_EQ(Shell("rm -f " + path_ + "/filler"), ""); }

 private:
  // "", or the exit code and the output of the command.
  static std::string Shell(const std::string& script) {
    Program shell({"sh", "-c", script});
    const int code = shell.ExitCode();
    return code == 0 ? "" : "exit " + std::to_string(code) + ": " + shell.err();
  }

  const std::string path_;
  const std::string image_;
  std::string why_not_;
  int end_of_test_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_LOOP_DISK_H_
