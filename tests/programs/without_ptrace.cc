// Runs a program where it may not do all that root may: what a container or another user withholds.
//
//   without_ptrace seccomp COMMAND...          a filter refuses ptrace and process_vm_readv (EPERM)
//   without_ptrace user_namespace COMMAND...   root of a user namespace, without CAP_SYS_PTRACE
//   without_ptrace nobody COMMAND...           as uid and gid 65534
//
// Exit code 77: the condition cannot be made here.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/support/seccomp.h"

namespace {

bool Write(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool written =
      file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return written;
}

// The capability is not in the bounding set: exec does not give it back.
bool EnterUserNamespace() {
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  return ::unshare(CLONE_NEWUSER) == 0 && Write("/proc/self/setgroups", "deny") &&
         Write("/proc/self/uid_map", "0 " + uid + " 1") &&
         Write("/proc/self/gid_map", "0 " + gid + " 1") &&
         ::prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0) == 0;
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
                                                    : false;
  if (!made) {
    std::perror(argv[0]);
    return 77;
  }
  ::execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 127;
}
