// Capabilities of the machine that a test needs and a container may lack.
//
// A test that cannot run names the missing capability, and is skipped; scripts/test.sh lists these
// tests at the end. With DDPRUN_TESTS=all, as in CI, such a test fails.
#ifndef DDPRUN_TESTS_SUPPORT_CAPABILITIES_H_
#define DDPRUN_TESTS_SUPPORT_CAPABILITIES_H_

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ddprun {

inline bool AllTestsAreWanted() {
  const char* const tests = std::getenv("DDPRUN_TESTS");
  return tests != nullptr && std::string(tests) == "all";
}

inline bool HasCapability(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  return (data[capability / 32].effective >> (capability % 32) & 1) != 0;
}

// The capability that this process lacks for network namespaces, or why unshare() fails. "": it
// lacks nothing.
inline std::string MissingForNetworks() {
  if (!HasCapability(CAP_SYS_ADMIN)) return "CAP_SYS_ADMIN";
  if (!HasCapability(CAP_NET_ADMIN)) return "CAP_NET_ADMIN";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 ? 0 : errno);
  int status = 0;
  ::waitpid(child, &status, 0);
  const int error = WEXITSTATUS(status);
  return error == 0 ? "" : std::string("unshare(CLONE_NEWNET): ") + std::strerror(error);
}

// The same for a LoopDisk: mount(2) of a file system in a file, over a loop device.
inline std::string MissingForMounts() {
  if (!HasCapability(CAP_SYS_ADMIN)) return "CAP_SYS_ADMIN";
  return ::access("/dev/loop-control", R_OK | W_OK) == 0 ? "" : "loop devices (/dev/loop-control)";
}

// scripts/test.sh looks for this line.
inline std::string LeftOut(const std::string& missing) { return "left out, it needs " + missing; }

}  // namespace ddprun

// Use it in SetUp() or in a test. If `missing`, a capability, is not "", it skips the test, or
// fails it with DDPRUN_TESTS=all.
#define DDPRUN_NEEDS(missing)                                      \
  if (const std::string lacks = (missing); lacks.empty()) {        \
  } else if (::ddprun::AllTestsAreWanted()) {                      \
    FAIL() << ::ddprun::LeftOut(lacks) << "; DDPRUN_TESTS is all"; \
  } else                                                           \
    GTEST_SKIP() << ::ddprun::LeftOut(lacks)

#endif  // DDPRUN_TESTS_SUPPORT_CAPABILITIES_H_
