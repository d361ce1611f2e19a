// JobCommand: one line of a scenario, parsed.
#ifndef DDPRUN_TESTS_SCENARIO_JOB_COMMAND_H_
#define DDPRUN_TESTS_SCENARIO_JOB_COMMAND_H_

#include <map>
#include <string>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

// "join a b workers=2 running": words in order, values by name.
struct JobCommand {
  std::string name;
  std::vector<std::string> words;
  std::map<std::string, std::string> values;

  static JobCommand Parse(const std::string& line);

  bool Has(const std::string& word) const;
  int Int(const std::string& name, int otherwise) const;
  Duration Time(const std::string& name, Duration otherwise) const;
  std::vector<std::string> Agents() const;  // the words without flags such as `running`
};

// Parses "3s" or "500ms". Throws std::invalid_argument if the text is no time.
Duration ParseTime(const std::string& text);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SCENARIO_JOB_COMMAND_H_
