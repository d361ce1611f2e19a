#include "tests/scenario/job_command.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

// Words of a command that name no agent.
bool IsFlag(const std::string& word) {
  return word == "running" || word == "idle" || word == "save" || word == "memory" ||
         word == "looks" || word == "before";
}

}  // namespace

JobCommand JobCommand::Parse(const std::string& line) {
  JobCommand command;
  std::istringstream words(line);
  words >> command.name;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      command.words.push_back(word);
    } else {
      command.values[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return command;
}

bool JobCommand::Has(const std::string& word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

int JobCommand::Int(const std::string& name, int otherwise) const {
  const auto found = values.find(name);
  return found == values.end() ? otherwise : std::stoi(found->second);
}

Duration JobCommand::Time(const std::string& name, Duration otherwise) const {
  const auto found = values.find(name);
  return found == values.end() ? otherwise : ParseTime(found->second);
}

std::vector<std::string> JobCommand::Agents() const {
  std::vector<std::string> agents;
  for (const std::string& word : words) {
    if (!IsFlag(word)) agents.push_back(word);
  }
  return agents;
}

Duration ParseTime(const std::string& text) {
  std::size_t end = 0;
  const int number = std::stoi(text, &end);
  const std::string unit = text.substr(end);
  if (unit == "s") return std::chrono::seconds(number);
  if (unit == "ms") return std::chrono::milliseconds(number);
  throw std::invalid_argument(absl::StrCat(text, " is no time: 3s or 500ms"));
}

}  // namespace ddprun
