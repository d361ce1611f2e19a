#include "launcher/config/yaml_config.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/suggestion.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"
#include "launcher/config/values.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace ddprun {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;

bool IsQuoted(const YAML::Node& node) { return node.Tag() == "!"; }

std::string Describe(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return absl::StrCat(IsQuoted(node) ? "the string " : "", Quoted(node.Scalar()));
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a map";
    default:
      return "nothing";
  }
}

// Reads one document into the draft and collects errors.
class Reader {
 public:
  Reader(const std::string& file, JobDraft* draft) : file_(file), draft_(draft) {}

  void Read(const YAML::Node& root) {
    if (!root.IsMap()) {
      errors_.push_back(absl::StrCat(
          At(root), "expected a map with keys such as command and nproc_per_node (found ",
          Describe(root), ")"));
      return;
    }
    ReadMap(root, "");
  }

  const std::vector<std::string>& errors() const { return errors_; }

 private:
  std::string At(const YAML::Node& node) const {
    return absl::StrCat(file_, ":", node.Mark().line + 1, ":", node.Mark().column + 1, ": ");
  }

  void AddError(const YAML::Node& node, absl::string_view path, absl::string_view what) {
    // A key may hold anything; an error is one line.
    errors_.push_back(absl::StrCat(At(node), absl::Utf8SafeCEscape(path), ": ", what));
  }

  // Calls `visit(name, key node, value)` for every entry of `map` whose key is a name seen for the
  // first time; reports the others.
  template <typename Visit>
  void ForEachEntry(const YAML::Node& map, absl::string_view prefix, Visit visit) {
    std::map<std::string, int> lines;  // where each name was first
    for (const auto& entry : map) {
      const YAML::Node& key = entry.first;
      if (!key.IsScalar()) {
        AddError(key, prefix.empty() ? "key" : prefix,
                 absl::StrCat("expected a name as key (found ", Describe(key), ")"));
        continue;
      }
      const std::string& name = key.Scalar();
      const std::string path = prefix.empty() ? name : absl::StrCat(prefix, ".", name);
      const auto [first, fresh] = lines.emplace(name, key.Mark().line + 1);
      if (!fresh) {
        AddError(key, path,
                 absl::StrCat("expected each key once (found it on line ", first->second, " too)"));
        continue;
      }
      visit(path, key, entry.second);
    }
  }

  void ReadMap(const YAML::Node& map, absl::string_view section) {
    ForEachEntry(map, section,
                 [&](const std::string& path, const YAML::Node& name, const YAML::Node& value) {
                   if (const JobKey* const key = FindKey(section, name.Scalar()); key != nullptr) {
                     ReadValue(*key, value);
                   } else if (section.empty() && IsSection(path)) {
                     ReadSection(path, value);
                   } else {
                     AddError(name, path, UnknownKey(section, name.Scalar()));
                   }
                 });
  }

  // Does not search by path, because `rendezvous.endpoint` in one word is not a key.
  static const JobKey* FindKey(absl::string_view section, const std::string& name) {
    for (const JobKey& key : JobKeys()) {
      if (key.section == section && key.name == name) return &key;
    }
    return nullptr;
  }

  static bool IsSection(absl::string_view name) {
    for (const JobSection& section : JobSections()) {
      if (section.name == name) return true;
    }
    return false;
  }

  static std::string UnknownKey(absl::string_view section, const std::string& name) {
    std::vector<std::string> names;
    for (const JobKey& key : JobKeys()) {
      if (key.section == section) names.emplace_back(key.name);
    }
    if (section.empty()) {
      for (const JobSection& known : JobSections()) names.emplace_back(known.name);
    }
    std::string hint = DidYouMean(name, names);
    for (const JobKey& key : JobKeys()) {
      if (hint.empty() && key.name == name) hint = absl::StrCat("; did you mean ", key.Path(), "?");
    }
    return absl::StrCat("expected one of ", absl::StrJoin(names, ", "), " (found an unknown key)",
                        hint);
  }

  void ReadSection(const std::string& name, const YAML::Node& value) {
    if (value.IsMap()) {
      ReadMap(value, name);
    } else {
      AddError(value, name, absl::StrCat("expected a map (found ", Describe(value), ")"));
    }
  }

  void ReadValue(const JobKey& key, const YAML::Node& value) {
    const std::size_t errors_before = errors_.size();
    if (key.type == KeyType::kEnvironment) {
      ReadEnvironment(key, value);
    } else if (key.type == KeyType::kCommand && value.IsSequence()) {
      ReadArguments(key, value);
    } else if ((key.type == KeyType::kNumbers || key.type == KeyType::kModules) &&
               value.IsSequence()) {
      ReadList(key, value);
    } else if (key.type == KeyType::kOptions && value.IsSequence()) {
      ReadOptions(key, value);
    } else {
      ReadScalar(key, value);
    }
    if (errors_.size() > errors_before) return;
    draft_->origins[key.Path()] = Origin{Source::kFile, absl::StrCat(At(value), key.Path())};
  }

  void ReadScalar(const JobKey& key, const YAML::Node& value) {
    const bool plain_only = key.type == KeyType::kBoolean || key.type == KeyType::kInteger;
    bool fits = value.IsScalar() && !(plain_only && IsQuoted(value));
    if (fits && key.type == KeyType::kBoolean) {
      fits = value.Scalar() == "true" || value.Scalar() == "false";
    }
    const absl::Status status =
        fits ? SetFromText(key, value.Scalar(), draft_) : UnexpectedValue(key, Describe(value));
    if (!status.ok()) AddError(value, key.Path(), status.message());
  }

  // The number of values that the draft has for a list key.
  static std::size_t Count(const JobKey& key, JobDraft* draft) {
    const Field field = key.field(*draft);
    if (const auto* numbers = std::get_if<std::vector<int>*>(&field)) return (*numbers)->size();
    return std::get<std::vector<std::string>*>(field)->size();
  }

  void ReadList(const JobKey& key, const YAML::Node& list) {
    const std::string one = key.type == KeyType::kModules
                                ? "the name of a Python module"
                                : absl::StrCat("a whole number from ", key.min, " to ", key.max);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < list.size(); ++i) {
      JobDraft scratch;
      const YAML::Node& item = list[i];
      const bool fits = item.IsScalar() && SetFromText(key, item.Scalar(), &scratch).ok() &&
                        Count(key, &scratch) == 1;
      if (fits) {
        texts.push_back(item.Scalar());
      } else {
        AddError(item, absl::StrCat(key.Path(), "[", i, "]"),
                 absl::StrCat("expected ", one, " (found ", Describe(item), ")"));
      }
    }
    const absl::Status status = SetFromText(key, absl::StrJoin(texts, ","), draft_);
    if (!status.ok()) AddError(list, key.Path(), status.message());
  }

  void ReadOptions(const JobKey& key, const YAML::Node& list) {
    std::vector<std::string> options;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const YAML::Node& item = list[i];
      if (item.IsScalar() && IsOption(item.Scalar())) {
        options.push_back(item.Scalar());
      } else {
        AddError(
            item, absl::StrCat(key.Path(), "[", i, "]"),
            absl::StrCat("expected one word that begins with a dash (found ", Describe(item), ")"));
      }
    }
    *std::get<std::vector<std::string>*>(key.field(*draft_)) = std::move(options);
  }

  void ReadArguments(const JobKey& key, const YAML::Node& list) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const YAML::Node& item = list[i];
      const std::string path = absl::StrCat(key.Path(), "[", i, "]");
      if (!item.IsScalar() || item.Scalar().find('\0') != std::string::npos) {
        AddError(item, path, absl::StrCat("expected an argument (found ", Describe(item), ")"));
      } else if (i == 0 && item.Scalar().empty()) {
        AddError(item, path, "expected a program (found an empty string)");
      } else {
        words.push_back(item.Scalar());
      }
    }
    if (list.size() == 0) {
      AddError(list, key.Path(), UnexpectedValue(key, "an empty list").message());
    }
    *std::get<std::vector<std::string>*>(key.field(*draft_)) = std::move(words);
  }

  void ReadEnvironment(const JobKey& key, const YAML::Node& map) {
    if (!map.IsMap()) {
      AddError(map, key.Path(), UnexpectedValue(key, Describe(map)).message());
      return;
    }
    auto& variables = *std::get<std::map<std::string, std::string>*>(key.field(*draft_));
    ForEachEntry(
        map, key.Path(),
        [&](const std::string& path, const YAML::Node& name, const YAML::Node& value) {
          const std::string refusal = WhyVariableIsRefused(name.Scalar());
          if (!IsVariableName(name.Scalar())) {
            AddError(name, path,
                     absl::StrCat("expected letters, digits and _ as the name of a "
                                  "variable (found ",
                                  Quoted(name.Scalar()), ")"));
          } else if (!refusal.empty()) {
            AddError(name, path, refusal);
          } else if (!value.IsScalar() || value.Scalar().find('\0') != std::string::npos) {
            AddError(value, path,
                     absl::StrCat("expected the text of a variable (found ", Describe(value), ")"));
          } else {
            variables[name.Scalar()] = value.Scalar();
          }
        });
  }

  const std::string& file_;
  JobDraft* const draft_;  // not owned; outlives the reader
  std::vector<std::string> errors_;
};

// Counts documents, and records where the last one's content begins.
class DocumentCounter : public YAML::EventHandler {
 public:
  int count() const { return count_; }
  const YAML::Mark& start() const { return start_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    ++count_;
    start_ = mark;
    empty_ = true;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Note(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Note(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    Note(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Note(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Note(mark);
  }
  void OnMapEnd() override {}

 private:
  void Note(const YAML::Mark& mark) {
    if (empty_ && !mark.is_null()) start_ = mark;
    empty_ = false;
  }

  int count_ = 0;
  bool empty_ = true;
  YAML::Mark start_;
};

absl::Status ParseInto(const std::string& text, const std::string& name, JobDraft* draft) {
  Reader reader(name, draft);
  try {
    // Not YAML::LoadAll: after some stray tokens ("%a\n,") it returns documents endlessly.
    std::istringstream input(text);
    YAML::Parser parser(input);
    DocumentCounter documents;
    while (documents.count() < 2 && parser.HandleNextDocument(documents)) continue;
    if (documents.count() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", documents.start().line + 1, ":", documents.start().column + 1,
                       ": expected one document in a job file (found a second one)"));
    }
    const YAML::Node root = YAML::Load(text);
    if (documents.count() == 0 || root.IsNull()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ":1:1: expected a map with keys such as command (found an empty file)"));
    }
    reader.Read(root);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", error.mark.line + 1, ":",
                                                   error.mark.column + 1, ": expected YAML (",
                                                   absl::Utf8SafeCEscape(error.msg), ")"));
  }
  if (reader.errors().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(reader.errors(), "\n"));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const auto failure = [&path](int error) {
    const std::string message =
        absl::StrCat(path, ": expected a job file that can be read (", std::strerror(error), ")");
    return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  };
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return failure(errno);
  if (S_ISDIR(info.st_mode)) return failure(EISDIR);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return failure(errno);
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return failure(EIO);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLargestFile) return failure(EFBIG);
  return text;
}

absl::StatusOr<JobConfig> Finish(const JobDraft& draft, const std::string& name, const Host& host) {
  const Origin start{Source::kFile, absl::StrCat(name, ":1:1: command")};
  auto result = FinishJob(draft, start, host);
  if (auto* config = std::get_if<JobConfig>(&result)) return std::move(*config);
  std::vector<std::string> lines;
  for (const JobProblem& problem : std::get<std::vector<JobProblem>>(result)) {
    lines.push_back(problem.message);
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

}  // namespace

absl::Status LoadJobFileInto(const std::string& path, JobDraft* draft) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  return ParseInto(*text, path, draft);
}

absl::StatusOr<JobConfig> ParseJob(const std::string& text, const std::string& name,
                                   const Host& host) {
  JobDraft draft;
  const absl::Status status = ParseInto(text, name, &draft);
  if (!status.ok()) return status;
  return Finish(draft, name, host);
}

absl::StatusOr<JobConfig> LoadJobFile(const std::string& path, const Host& host) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  return ParseJob(*text, path, host);
}

}  // namespace ddprun
