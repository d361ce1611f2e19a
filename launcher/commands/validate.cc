#include <cstdio>
#include <string>

#include "launcher/commands/commands.h"
#include "launcher/config/job_printer.h"
#include "launcher/config/yaml_config.h"

namespace ddprun {

int ValidateJob(const ValidateCommand& command, const Host& host) {
  const auto config = LoadJobFile(command.path, host);
  if (!config.ok()) {
    const std::string message(config.status().message());
    std::fprintf(stderr, "%s\n", message.c_str());
    return kExitBadConfig;
  }
  std::fputs((command.json ? ToJson(*config) : ToYaml(*config)).c_str(), stdout);
  return 0;
}

}  // namespace ddprun
