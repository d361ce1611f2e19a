// A program with known stacks, for the tests of stacks. Prints "ready", and then waits for ever
// with these stacks:
//
//   stack_probe chain            main → Outer → Middle → Inner → pause
//   stack_probe threads N        the same, and N threads → InThread → pause
//   stack_probe fifo PATH        main → ReadFifo → read of PATH
//   stack_probe undumpable       as chain; other processes of the same user may not look at it
//   stack_probe disk_wait        main → WaitForChild, uninterruptible (D) until its child ends;
//                                then as chain
//   stack_probe busy             main → Spin, which never waits
//   stack_probe deaf             as chain; its threads block all signals
//   stack_probe catches          as chain; exits with 3 on the signal that asks for own stacks
//
// Ends with the process that started it. own_stacks_probe is the same program with the handler of
// the C++ library, which writes its stacks.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "worker/contract/own_stacks.h"

#ifdef STACK_PROBE_WRITES_STACKS
#include "worker/src/agent/own_stacks.h"
#endif

#define KEPT extern "C" __attribute__((noinline, used))

namespace {

volatile int g_kept = 0;  // written after each call, so that no call is a tail call

void Ready() {
  std::puts("ready");
  std::fflush(stdout);
}

}  // namespace

KEPT void Inner(bool tell) {
  if (tell) Ready();
  while (true) ::pause();
  g_kept = 1;
}
KEPT void Middle(bool tell) {
  Inner(tell);
  g_kept = 2;
}
KEPT void Outer(bool tell) {
  Middle(tell);
  g_kept = 3;
}
KEPT void InThread() {
  while (true) ::pause();
  g_kept = 4;
}
KEPT void ReadFifo(const char* path) {
  const int fifo = ::open(path, O_RDWR | O_CLOEXEC);
  char byte;
  Ready();
  while (::read(fifo, &byte, 1) >= 0) g_kept = 5;
}
// A process that has called vfork waits as if for a disk: only SIGKILL ends it.
KEPT void WaitForChild() {
  Ready();
  const pid_t child = ::vfork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (true) ::pause();
  }
  g_kept = 7;
}
KEPT void Spin() {
  Ready();
  while (true) g_kept = g_kept + 1;
}

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const std::string mode = argc > 1 ? argv[1] : "";
#ifdef STACK_PROBE_WRITES_STACKS
  ddp::internal::WriteOwnStacksOnSignal();
#endif
  std::vector<std::thread> threads;
  if (mode == "threads" && argc > 2) {
    for (int i = 0; i < std::atoi(argv[2]); ++i) threads.emplace_back(InThread);
  } else if (mode == "fifo" && argc > 2) {
    ReadFifo(argv[2]);
  } else if (mode == "disk_wait") {
    WaitForChild();
    Outer(false);
  } else if (mode == "undumpable") {
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  } else if (mode == "deaf") {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
  } else if (mode == "catches") {
    ::signal(ddprun::kStackSignal, [](int) { ::_exit(3); });
  } else if (mode == "busy") {
    Spin();
  } else if (mode != "chain") {
    return 64;
  }
  Outer(true);
  g_kept = 6;
}
