#include "launcher/os/background_priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace ddprun {
namespace {

// Beside busy workers on all CPUs, such a process gets about a tenth of a CPU. With 19 it would get
// a hundredth: a second of CPU time would take a minute and a half.
constexpr int kBackground = 5;

}  // namespace

bool CanRestorePriority() {
  static const bool can = [] {
    bool there_and_back = false;
    // Linux keeps a nice value per thread; this thread exists only for the trial.
    std::thread([&] {
      const auto self = static_cast<id_t>(::syscall(SYS_gettid));
      const int nice = ::getpriority(PRIO_PROCESS, self);
      there_and_back = ::setpriority(PRIO_PROCESS, self, std::min(nice + 1, 19)) == 0 &&
                       ::setpriority(PRIO_PROCESS, self, nice) == 0;
    }).join();
    return there_and_back;
  }();
  return can;
}

void LowerPriority(pid_t group) {
  if (CanRestorePriority()) ::setpriority(PRIO_PGRP, static_cast<id_t>(group), kBackground);
}

void RestorePriority(pid_t group) {
  if (!CanRestorePriority()) return;
  ::setpriority(PRIO_PGRP, static_cast<id_t>(group), ::getpriority(PRIO_PROCESS, 0));
}

}  // namespace ddprun
