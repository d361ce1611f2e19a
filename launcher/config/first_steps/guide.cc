#include "launcher/config/first_steps/guide.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostNamed = 10;
constexpr absl::string_view kNoCommand =
    "COMMAND: expected the program that a worker runs (found none)";

// Quotes a word for a shell if needed, for a person to read and paste.
std::string ShellWord(absl::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("-_./:=,+@%", c);
  });
  return plain ? std::string(word) : Quoted(word);
}

std::string CommandText(const std::vector<std::string>& words) {
  return absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
    absl::StrAppend(out, ShellWord(word));
  });
}

std::string WorkersText(absl::string_view nproc_per_node) {
  if (nproc_per_node == "gpu") return "a worker for each GPU";
  if (nproc_per_node == "cpu") return "a worker for each CPU";
  if (nproc_per_node == "auto") return "a worker for each GPU, or for each CPU where there is none";
  return absl::StrCat(nproc_per_node, nproc_per_node == "1" ? " worker" : " workers");
}

std::string PlacesText(const JobDraft& draft) {
  const NodesConfig& nodes = draft.config.nodes;
  const std::string workers = WorkersText(draft.nproc_per_node);
  if (nodes.max == 1) return absl::StrCat("one node, ", workers);
  const std::string least = nodes.min == nodes.max ? "" : absl::StrCat(nodes.min, " to ");
  return absl::StrCat(least, nodes.max, " nodes, ", workers, " on each");
}

class JobText {
 public:
  JobText(const std::string& path, const JobDraft& draft)
      : draft_(draft), file_(ShellWord(path)), several_(draft.config.nodes.max > 1) {}

  std::string Write() {
    Row("runs", CommandText(draft_.config.command));
    Row("on", PlacesText(draft_));
    Row("restarts", absl::StrCat("at most ", draft_.config.spec.max_restarts));
    if (!draft_.config.checkpoint_dir.empty())
      Row("checkpoints", ShellWord(draft_.config.checkpoint_dir));
    Row("output", ShellWord(draft_.config.log_dir));
    StartByHand();
    StartBySchedulers();
    Way("print all settings", absl::StrCat("ddprun validate ", file_));
    return text_;
  }

 private:
  void Row(absl::string_view name, absl::string_view value) {
    absl::StrAppendFormat(&text_, "  %-12s %s\n", name, value);
  }
  void Way(absl::string_view what, absl::string_view line) {
    absl::StrAppend(&text_, "\n  # ", what, "\n  ", line, "\n");
  }
  bool HasEndpoint() const { return draft_.origins.count("rendezvous.endpoint") != 0; }
  bool HasSection(absl::string_view name) const {
    return std::any_of(draft_.origins.begin(), draft_.origins.end(), [&](const auto& origin) {
      return absl::StartsWith(origin.first, absl::StrCat(name, "."));
    });
  }

  void StartByHand() {
    const std::string start = absl::StrCat("ddprun -c ", file_);
    if (!several_) return Way("start it here", start);
    if (HasEndpoint()) return Way("start it, on each node", start);
    Way("start it, on each node; HOST is one of them, TOKEN a file with the same secret on all",
        absl::StrCat(start, " --rdzv-backend c10d --rdzv-endpoint HOST --token-file TOKEN"));
  }

  void StartBySchedulers() {
    const bool may_be_any = several_ && !HasEndpoint();
    if (may_be_any || HasSection("slurm")) {
      Way("submit it to Slurm", absl::StrCat("ddprun slurm ", file_));
    }
    if (may_be_any || HasSection("kubernetes")) {
      const bool has_image = !draft_.config.kubernetes.image.empty();
      Way(absl::StrCat("start it in Kubernetes",
                       has_image ? "" : "; the job file must name an image (kubernetes.image)"),
          absl::StrCat("ddprun kubernetes ", file_,
                       " > manifest.yaml && kubectl apply -f manifest.yaml"));
    }
  }

  const JobDraft& draft_;
  const std::string file_;
  const bool several_;
  std::string text_;
};

}  // namespace

std::string JobGuide(const std::string& path, const JobDraft& draft) {
  return JobText(path, draft).Write();
}

std::string Guide(const std::vector<FoundJob>& found) {
  if (found.empty()) {
    return absl::StrCat(kNoCommand,
                        "\n\n"
                        "  # start a worker here\n"
                        "  ddprun train.py --epochs 10\n"
                        "\n"
                        "  # write a job file\n"
                        "  ddprun init\n"
                        "\n"
                        "  # list all flags\n"
                        "  ddprun help\n");
  }
  if (found.size() == 1) {
    const FoundJob& job = found.front();
    if (!job.errors.empty()) {
      return absl::StrCat(kNoCommand, ". The job file here is wrong:\n", job.errors, "\n");
    }
    return absl::StrCat(kNoCommand, ". The job file here is ", ShellWord(job.path), ", which\n\n",
                        JobGuide(job.path, job.draft));
  }
  std::string text = absl::StrCat(kNoCommand, ". Several job files are here:\n\n");
  for (std::size_t i = 0; i < std::min(found.size(), kMostNamed); ++i) {
    absl::StrAppend(&text, "  ddprun -c ", ShellWord(found[i].path), "\n");
  }
  return text + (found.size() > kMostNamed ? "  ...\n" : "");
}

}  // namespace ddprun
