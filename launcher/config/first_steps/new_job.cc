#include "launcher/config/first_steps/new_job.h"

#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"
#include "launcher/config/values.h"
#include "launcher/config/yaml_text.h"

namespace ddprun {
namespace {

constexpr absl::string_view kNewRestarts = "3";

struct InitQuestion {
  absl::string_view key;
  absl::string_view text;
};
constexpr InitQuestion kInitQuestions[] = {
    {"command", "What does a worker run, such as  train.py --epochs 10"},
    {"nodes", "How many nodes"},
    {"nproc_per_node", "How many workers on each node; gpu: one for each GPU"},
};

bool IsGiven(const JobDraft& draft, absl::string_view key) {
  return draft.origins.count(std::string(key)) != 0;
}

// The value of a scalar key as YAML. A whole number is written without quotes.
std::string YamlValue(const JobDraft& draft, absl::string_view key) {
  const std::string text = FormatValue(*FindJobKey(key), draft);
  return ParseWholeNumber(text) ? text : YamlWord(text);
}

// "KEY: VALUE". If the draft does not set the key: a comment with the default.
std::string KeyLine(const JobDraft& draft, absl::string_view key) {
  return absl::StrCat(IsGiven(draft, key) ? "" : "# ", key, ": ", YamlValue(draft, key), "\n");
}

std::string CommandLines(const JobDraft& draft) {
  const auto append = [](std::string* out, const std::string& word) { *out += YamlWord(word); };
  return absl::StrCat("command: [", absl::StrJoin(draft.config.command, ", ", append), "]\n");
}

// "" if a single node needs no rendezvous.
std::string RendezvousLines(const JobDraft& draft) {
  if (IsGiven(draft, "rendezvous.endpoint")) {
    return absl::StrCat("\n# Where the nodes meet.\nrendezvous:\n  endpoint: ",
                        YamlValue(draft, "rendezvous.endpoint"), "\n");
  }
  if (draft.config.nodes.max == 1) return "";
  return "\n# Where the nodes meet. Slurm and Kubernetes know; elsewhere every node needs it, here "
         "or as a flag.\n# rendezvous:\n#   endpoint: HOST:29400\n";
}

std::string RestartLines(const JobDraft& draft) {
  constexpr absl::string_view kKey = "restart.max_restarts";
  return absl::StrCat("restart:\n  max_restarts: ",
                      IsGiven(draft, kKey) ? YamlValue(draft, kKey) : std::string(kNewRestarts),
                      "\n");
}

std::string CheckpointLines(const JobDraft& draft) {
  return IsGiven(draft, "checkpoint_dir") ? KeyLine(draft, "checkpoint_dir")
                                          : "# checkpoint_dir: checkpoints\n";
}

}  // namespace

NewJobDialog::NewJobDialog(JobDraft draft, const Host& host)
    : draft_(std::move(draft)), default_workers_(VisibleGpusOf(host).count > 0 ? "gpu" : "1") {
  const bool asks = !IsGiven(draft_, "command");
  SkipAnswered();
  while (!asks && next_ < std::size(kInitQuestions)) Answer("");
}

void NewJobDialog::SkipAnswered() {
  while (next_ < std::size(kInitQuestions) && IsGiven(draft_, kInitQuestions[next_].key)) ++next_;
}

std::string NewJobDialog::Default() const {
  const absl::string_view key = kInitQuestions[next_].key;
  if (key == "command") return "";
  return key == "nodes" ? "1" : default_workers_;
}

std::optional<std::string> NewJobDialog::Question() const {
  if (next_ == std::size(kInitQuestions)) return std::nullopt;
  const std::string value = Default();
  return absl::StrCat(kInitQuestions[next_].text,
                      value.empty() ? "" : absl::StrCat(" [", value, "]"), "? ");
}

std::string NewJobDialog::Answer(absl::string_view answer) {
  const absl::string_view key = kInitQuestions[next_].key;
  answer = absl::StripAsciiWhitespace(answer);
  const std::string text = answer.empty() ? Default() : std::string(answer);
  // Defaults are left open, because Slurm and Kubernetes may set better values.
  const bool is_open =
      answer.empty() && key != "command" && text == FormatValue(*FindJobKey(key), JobDraft());
  if (!is_open) {
    const absl::Status status = SetFromText(*FindJobKey(key), text, &draft_);
    if (!status.ok()) return std::string(status.message());
    draft_.origins[std::string(key)] = {Source::kFlag, std::string(key)};
  }
  ++next_;
  SkipAnswered();
  return "";
}

std::string NewJobFile(const JobDraft& draft) {
  return absl::StrCat(
      "# A job of ddprun. `ddprun -c FILE` starts it; `ddprun validate FILE` prints all settings.\n"
      "\n"
      "# What each worker runs; *.py runs under python3.\n",
      CommandLines(draft), "\n# Nodes of the job, and workers on each; gpu: one for each GPU.\n",
      KeyLine(draft, "nodes"), KeyLine(draft, "nproc_per_node"), RendezvousLines(draft),
      "\n# How often the whole job is restarted when a worker fails.\n", RestartLines(draft),
      "\n# The folder of checkpoints; workers find it in DDPRUN_CHECKPOINT_DIR.\n",
      CheckpointLines(draft));
}

}  // namespace ddprun
