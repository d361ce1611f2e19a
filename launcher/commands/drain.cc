// ddprun drain.
#include "absl/strings/str_cat.h"
#include "launcher/commands/operator.h"

namespace ddprun {

int DrainNode(const OperatorCommand& command, OperatorClient& client) {
  const auto answer = client.DrainNode(command.node, command.job);
  if (!answer.ok()) return FailOperator(command, answer.status());
  PrintOut(absl::StrCat(*answer, "\n"));
  return 0;
}

}  // namespace ddprun
