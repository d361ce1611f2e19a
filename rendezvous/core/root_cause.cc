#include "rendezvous/core/root_cause.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "worker/contract/control.h"

namespace ddprun {

std::size_t ChooseRootCause(const std::vector<WorkerFailure>& failures) {
  DDPRUN_CHECK(!failures.empty(), "a root cause needs a failure");
  const auto cause = std::find_if(failures.begin(), failures.end(), [](const WorkerFailure& f) {
    return f.exit.error_kind != control::kErrorCollective;
  });
  return cause == failures.end() ? 0 : cause - failures.begin();
}

bool IsPermanent(const WorkerFailure& failure) { return failure.exit.error_kind == kErrorExec; }

std::string Describe(const WorkerFailure& failure) {
  const WorkerExited& exit = failure.exit;
  if (IsPermanent(failure)) {
    return absl::StrCat("cannot start rank ", exit.rank.value, " on ", failure.host, ": ",
                        exit.error_text);
  }
  std::string text =
      absl::StrCat("rank ", exit.rank.value, " (local rank ", exit.local_rank.value, ", pid ",
                   exit.pid, ") on ", failure.host, ": ", exit.status.Describe());
  if (exit.step) absl::StrAppend(&text, " after step ", *exit.step);
  if (!exit.error_text.empty()) absl::StrAppend(&text, ": ", exit.error_text);
  return text;
}

}  // namespace ddprun
