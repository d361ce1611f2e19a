// A seccomp filter like that of strict containers.
#ifndef DDPRUN_TESTS_SUPPORT_SECCOMP_H_
#define DDPRUN_TESTS_SUPPORT_SECCOMP_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

namespace ddprun {

// From now on ptrace and process_vm_readv fail with `error`, in this thread and in the threads and
// processes that it starts. If `ptrace` is false, only process_vm_readv fails. Needs no capability.
// False: the kernel has no filters.
inline bool RefuseTracing(unsigned error = EPERM, bool ptrace = true) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, static_cast<unsigned char>(ptrace ? 1 : 0),
               0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_SECCOMP_H_
