#include <string>
#include <utility>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/commands/operator.h"
#include "launcher/node/etcd_check.h"
#include "launcher/node/etcd_facts.h"
#include "launcher/node/node_check.h"
#include "launcher/node/node_facts.h"

namespace ddprun {

int CheckNode(const DoctorCommand& command, const Host& host) {
  const NodeFacts facts = LookAtNode(command.config, host);
  std::vector<Finding> findings = JudgeNode(command.config, facts);
  if (!command.etcd.endpoints.empty()) {
    for (Finding& finding : JudgeEtcd(LookAtEtcd(command.etcd, command.config.insecure))) {
      findings.push_back(std::move(finding));
    }
  }
  const std::string text =
      command.json ? FindingsToJson(facts.host, findings) : FindingsToText(findings);
  PrintOut(text);
  return MayRun(findings) ? 0 : 1;
}

}  // namespace ddprun
