// Runs a program without some of root's rights, as in a container or under another user.
//
//   without_ptrace seccomp COMMAND...          a filter refuses ptrace and process_vm_readv (EPERM)
//   without_ptrace user_namespace COMMAND...   root of a user namespace, without CAP_SYS_PTRACE
//   without_ptrace nobody COMMAND...           as uid and gid 65534
//   without_ptrace yama=N COMMAND...           imitates Yama at N (1 or 2): ptrace_scope says N,
//                                              CAP_SYS_PTRACE is missing, and a filter refuses
//                                              ptrace and process_vm_readv with Yama's error, EPERM
//
// Exit code 77: the condition cannot be made here.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/support/seccomp.h"

namespace {

bool Write(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
  const bool written =
      file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return written;
}

// It is removed from the bounding set, so exec does not give it back.
bool DropPtraceCapability() { return ::prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0) == 0; }

bool EnterUserNamespace() {
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  return ::unshare(CLONE_NEWUSER) == 0 && Write("/proc/self/setgroups", "deny") &&
         Write("/proc/self/uid_map", "0 " + uid + " 1") &&
         Write("/proc/self/gid_map", "0 " + gid + " 1") && DropPtraceCapability();
}

// In this mount namespace, /proc/sys/kernel contains nothing but yama/ptrace_scope.
bool ImitateYama(const std::string& scope) {
  constexpr char kKernel[] = "/proc/sys/kernel";
  const std::string yama = std::string(kKernel) + "/yama";
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", kKernel, "tmpfs", 0, nullptr) == 0 && ::mkdir(yama.c_str(), 0755) == 0 &&
         Write((yama + "/ptrace_scope").c_str(), scope + "\n") && DropPtraceCapability() &&
         ddprun::RefuseTracing();
}

bool BecomeNobody() {
  constexpr unsigned kNobody = 65534;
  return ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string condition = argc > 2 ? argv[1] : "";
  const bool made = condition == "seccomp"          ? ddprun::RefuseTracing()
                    : condition == "user_namespace" ? EnterUserNamespace()
                    : condition == "nobody"         ? BecomeNobody()
                    : condition == "yama=1"         ? ImitateYama("1")
                    : condition == "yama=2"         ? ImitateYama("2")
                                                    : false;
  if (!made) {
    std::perror(argv[0]);
    return 77;
  }
  ::execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 127;
}
