#include "rendezvous/core/progress.h"

#include "absl/strings/str_cat.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

const char* WhereItIs(ProcessState state) {
  switch (state) {
    case ProcessState::kRunnable:
      return "";
    case ProcessState::kStopped:
      return ", stopped by a signal";
    case ProcessState::kTraced:
      return ", held by a debugger";
    case ProcessState::kDiskWait:
      return ", in disk wait (D)";
  }
  return "";
}

}  // namespace

std::string Describe(const StuckProcess& process) {
  return absl::StrCat(process.rank
                          ? absl::StrCat("rank ", process.rank->value, " (pid ", process.pid, ")")
                          : absl::StrCat("process ", process.pid, ", which a worker left behind,"),
                      " is still there ", TenthsOfSeconds(process.stuck), " after SIGKILL",
                      WhereItIs(process.state),
                      process.waits_for.empty() ? "" : absl::StrCat(", in ", process.waits_for));
}

StuckProcesses StuckProcesses::After(Duration passed) const {
  StuckProcesses later = *this;
  for (StuckProcess& process : later.processes) process.stuck += passed;
  return later;
}

std::string Describe(const StuckProcesses& stuck) {
  if (stuck.processes.empty()) return "";
  const std::size_t others = stuck.processes.size() - 1;
  return absl::StrCat(Describe(stuck.processes.front()),
                      others > 0 ? absl::StrCat("; and so are ", others, " more") : "");
}

}  // namespace ddprun
