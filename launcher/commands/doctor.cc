#include <cstdio>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/node/node_check.h"
#include "launcher/node/node_facts.h"

namespace ddprun {

int CheckNode(const DoctorCommand& command, const Host& host) {
  const NodeFacts facts = LookAtNode(command.config, host);
  const std::vector<Finding> findings = JudgeNode(command.config, facts);
  std::fputs(
      (command.json ? FindingsToJson(facts.host, findings) : FindingsToText(findings)).c_str(),
      stdout);
  return MayRun(findings) ? 0 : 1;
}

}  // namespace ddprun
