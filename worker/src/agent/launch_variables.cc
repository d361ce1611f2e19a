#include "worker/src/agent/launch_variables.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "worker/contract/environment.h"

namespace ddp::internal {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

// nullopt: use the environment of the process. Never destroyed, because error messages may need the
// values until the process ends.
std::optional<Values>& Given() {
  static auto* const given = new std::optional<Values>;
  return *given;
}

bool IsOfTheLauncher(const std::string& name) {
  for (const ddprun::env::Variable& variable : ddprun::env::kVariables) {
    if (name == variable.name) return true;
  }
  return false;
}

}  // namespace

const char* LaunchVariable(const char* name) {
  if (!Given()) return std::getenv(name);
  const auto found = Given()->find(name);
  return found == Given()->end() ? nullptr : found->second.c_str();
}

void SetLaunchVariables(const std::string& entries) {
  Values values;
  for (std::size_t begin = 0; begin < entries.size();) {
    const std::size_t end = entries.find('\0', begin);
    if (end == std::string::npos) break;  // not an entry
    const std::string entry = entries.substr(begin, end - begin);
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals != std::string::npos && IsOfTheLauncher(name)) {
      values[name] = entry.substr(equals + 1);
    }
    begin = end + 1;
  }
  Given() = std::move(values);
}

}  // namespace ddp::internal
