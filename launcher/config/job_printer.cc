#include "launcher/config/job_printer.h"

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/command_line_program.h"
#include "launcher/config/job_draft.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"
#include "yaml-cpp/yaml.h"

namespace ddprun {
namespace {

// The draft of a job file with this job's settings.
JobDraft DraftOf(const JobConfig& config) {
  JobDraft draft;
  draft.config = config;
  draft.nproc_per_node = absl::StrCat(config.nproc_per_node);
  draft.warm = absl::StrCat(config.restart.warm);
  // The command already includes the interpreter; it must not be added again.
  draft.no_python = !config.command.empty() && IsPythonScript(config.command.front());
  return draft;
}

class Printer {
 public:
  Printer(JobDraft draft, bool json) : draft_(std::move(draft)), json_(json) {
    if (!json_) return;
    out_.SetMapFormat(YAML::Flow);
    out_.SetSeqFormat(YAML::Flow);
    out_.SetOutputCharset(YAML::EscapeAsJson);
  }

  std::string Print() {
    out_ << YAML::BeginMap;
    PrintKeys("");
    for (const JobSection& section : JobSections()) {
      PrintName(section.name);
      out_ << YAML::BeginMap;
      PrintKeys(section.name);
      out_ << YAML::EndMap;
    }
    out_ << YAML::EndMap;
    return absl::StrCat(out_.c_str(), "\n");
  }

 private:
  void PrintKeys(absl::string_view section) {
    for (const JobKey& key : JobKeys()) {
      if (key.section != section) continue;
      PrintName(key.name);
      PrintValue(key);
    }
  }

  void PrintName(absl::string_view name) {
    out_ << YAML::Key;
    if (json_) out_ << YAML::DoubleQuoted;
    out_ << std::string(name) << YAML::Value;
  }

  void PrintValue(const JobKey& key) {
    const Field field = key.field(draft_);
    if (const auto* words = std::get_if<std::vector<std::string>*>(&field)) {
      out_ << YAML::Flow << YAML::BeginSeq;
      for (const std::string& word : **words) PrintText(word);
      out_ << YAML::EndSeq;
    } else if (const auto* variables = std::get_if<std::map<std::string, std::string>*>(&field)) {
      if ((*variables)->empty()) out_ << YAML::Flow;
      out_ << YAML::BeginMap;
      for (const auto& [name, value] : **variables) {
        PrintName(name);
        PrintText(value);
      }
      out_ << YAML::EndMap;
    } else if (const auto* flag = std::get_if<bool*>(&field)) {
      out_ << **flag;
    } else if (const auto* number = std::get_if<int*>(&field)) {
      out_ << **number;
    } else if (key.type == KeyType::kNodes && draft_.config.nodes.min == draft_.config.nodes.max) {
      out_ << draft_.config.nodes.min;
    } else if (key.type == KeyType::kProcesses) {
      out_ << draft_.config.nproc_per_node;
    } else if (key.type == KeyType::kStandbys) {
      out_ << draft_.config.restart.warm;
    } else if ((key.type == KeyType::kDuration || key.type == KeyType::kSize) && !json_) {
      out_ << FormatValue(key, draft_);
    } else {
      PrintText(FormatValue(key, draft_));
    }
  }

  void PrintText(const std::string& text) { out_ << YAML::DoubleQuoted << text; }

  JobDraft draft_;
  const bool json_;
  YAML::Emitter out_;
};

}  // namespace

std::string ToYaml(const JobConfig& config) {
  return Printer(DraftOf(config), /*json=*/false).Print();
}

std::string ToJson(const JobConfig& config) {
  return Printer(DraftOf(config), /*json=*/true).Print();
}

}  // namespace ddprun
