#include "launcher/config/slurm/slurm_script.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "launcher/config/save_notice.h"
#include "launcher/config/slurm/slurm_step.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr absl::string_view kSave =
    R"SH(# Within the time of the warning, a checkpoint must be durable and the workers must have ended.
export DDPRUN_SAVE_TIMEOUT=%SAVE%
)SH";

constexpr absl::string_view kBody = R"SH(set -u

# In a job array: only this task.
job=$SLURM_JOB_ID
[[ -n ${SLURM_ARRAY_JOB_ID:-} ]] && job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
# At the warning: SIGTERM to every agent, so the whole job makes one checkpoint. Slurm sends its own
# SIGTERM to the agents directly. This script waits for the agents in both cases.
trap 'scancel --signal=TERM "$job"' USR1
trap : TERM

# srun does not pass these on: this environment after --export=NONE, and --cpus-per-task.
export SLURM_EXPORT_ENV=ALL
[[ -n ${SLURM_CPUS_PER_TASK:-} ]] && export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
%SAVE%# How the job ended; one file for each start of each job.
export DDPRUN_REPORT=%FOLDER%/report.$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}.json
rm -f "$DDPRUN_REPORT"

# --wait and --kill-on-bad-exit: ddprun decides what the end of one node means for the others.
%STEP% &
step=$!
while kill -0 "$step" 2>/dev/null; do # a signal ends the wait, and the step goes on
  wait "$step"
done
wait "$step"
code=$?

outcome=$(sed -n 's/^ *"outcome": "\([a-z]*\)",*$/\1/p' "$DDPRUN_REPORT" 2>/dev/null)
# srun reports a failure if a node failed, even if the job continued without that node.
[[ $outcome == succeeded ]] && code=0
)SH";

constexpr absl::string_view kRequeue = R"SH(
# Requeue the job only if it was preempted: not if it failed, and not if its user cancelled it. Nor
# if it was already started again: SLURM_RESTART_COUNT shows that.
insist() { # slurmctld may be away for a while
  for _ in {1..12}; do
    "$@" && return
    sleep 5
  done
  return 1
}
state='' life=''
if [[ $outcome == preempted ]]; then
  shown=$(insist squeue --noheader --jobs="$job" --Format=State,RestartCnt)
  read -r state life <<<"$shown"
fi
if [[ $outcome == preempted && $state == RUNNING && $life == "${SLURM_RESTART_COUNT:-0}" ]]; then
  echo "preempted; the job goes back to the queue"
  trap '' TERM # sent to this script by the requeue
  # Exclude nodes whose workers failed repeatedly (restart.quarantine), while the job waits.
  left_out=$(sed -n '/^ *"left_out": \[/,/\]/s/^ *"\([^"]*\)",*$/\1/p' "$DDPRUN_REPORT" | paste -sd,)
  if [[ -n $left_out ]]; then
    before=$(insist squeue --noheader --jobs="$job" --format=%x)
    [[ -z $before || $before == *null* ]] || left_out+=,$before
    insist scontrol requeuehold incomplete "$job" &&
      scontrol update JobId="$job" ExcNodeList="$left_out"
    insist scontrol release "$job"
  else
    insist scontrol requeue incomplete "$job"
  fi
elif [[ $outcome == preempted ]]; then
  echo "preempted, but not put back into the queue: squeue says '$state', restarted '$life' times"
fi
)SH";

int NodesThatTrain(const SlurmJob& job) {
  const SlurmConfig& slurm = job.draft.config.slurm;
  if (slurm.nodes > 0) return slurm.nodes;
  return job.draft.origins.count("nodes") != 0 ? job.draft.config.nodes.max : 1;
}

bool Elastic(const SlurmJob& job) {
  return job.draft.config.nodes.min < job.draft.config.nodes.max ||
         job.draft.config.slurm.spare_nodes > 0;
}

int WorkersPerNode(const SlurmJob& job) {
  const auto number = ParseWholeNumber(job.draft.nproc_per_node);
  if (number && job.draft.origins.count("nproc_per_node") != 0) return static_cast<int>(*number);
  return std::max(job.draft.config.slurm.gpus_per_node, 1);
}

std::string SaveTimeout(const SlurmJob& job) {
  const milliseconds warning = job.draft.config.slurm.warning;
  if (warning == milliseconds::zero()) return "";
  return absl::StrReplaceAll(
      kSave, {{"%SAVE%", FormatDuration(SaveTimeoutWithin(warning, kSlurmStopGrace, job.draft))}});
}

class ScriptWriter {
 public:
  explicit ScriptWriter(const SlurmJob& job) : job_(job), slurm_(job.draft.config.slurm) {}

  std::string Write() {
    text_ = absl::StrCat("#!/bin/bash\n# Written by `ddprun slurm`. To submit it again: sbatch ",
                         BashWord(absl::StrCat(job_.folder, "/job.sbatch")), "\n\n");
    Resources();
    Survival();
    for (const std::string& option : slurm_.extra) {
      Comment("From slurm.extra.");
      absl::StrAppend(&text_, "#SBATCH ", SbatchWord(option), "\n");
    }
    absl::StrAppend(&text_, absl::StrReplaceAll(kBody, {{"%SAVE%", SaveTimeout(job_)},
                                                        {"%FOLDER%", BashWord(job_.folder)},
                                                        {"%STEP%", SlurmCommandLine(job_)}}));
    if (slurm_.requeue) absl::StrAppend(&text_, kRequeue);
    absl::StrAppend(&text_, "exit \"$code\"\n");
    return text_;
  }

 private:
  void Comment(absl::string_view why) { absl::StrAppend(&text_, "# ", why, "\n"); }
  void Option(absl::string_view name, absl::string_view value) {
    absl::StrAppend(&text_, "#SBATCH --", name, "=", SbatchWord(value), "\n");
  }
  void OptionIfAny(absl::string_view name, const std::string& value) {
    if (!value.empty()) Option(name, value);
  }
  void OptionIfAny(absl::string_view name, int value) {
    if (value > 0) Option(name, absl::StrCat(value));
  }

  void Resources() {
    Comment("Requests from the section `slurm` of the job file.");
    Option("job-name", slurm_.job_name.empty() ? job_.name : slurm_.job_name);
    const int train = NodesThatTrain(job_);
    const int all = train + slurm_.spare_nodes;
    const int least = std::min(job_.draft.config.nodes.min, train);
    const bool range = job_.draft.config.nodes.min < job_.draft.config.nodes.max;
    Option("nodes", range ? absl::StrCat(least, "-", all) : absl::StrCat(all));
    Comment("One ddprun on each node. It starts the node's workers itself.");
    Option("ntasks-per-node", "1");
    OptionIfAny("gpus-per-node", slurm_.gpus_per_node);
    OptionIfAny("cpus-per-task", slurm_.cpus_per_task);
    OptionIfAny("mem", slurm_.mem);
    OptionIfAny("partition", slurm_.partition);
    OptionIfAny("account", slurm_.account);
    OptionIfAny("qos", slurm_.qos);
    OptionIfAny("constraint", slurm_.constraint);
    OptionIfAny("time", slurm_.time);
    Option("chdir", job_.directory);
    Comment("A requeued job appends to its output.");
    Option("output", absl::StrCat(absl::StrReplaceAll(job_.folder, {{"%", "%%"}}), "/%j.out"));
    Option("open-mode", "append");
  }

  void Survival() {
    if (slurm_.requeue) {
      Comment("Slurm requeues the job if a node fails. The end of this script may requeue it too.");
      absl::StrAppend(&text_, "#SBATCH --requeue\n");
    } else {
      Comment("slurm.requeue is false: however the job ends, it is not requeued.");
      absl::StrAppend(&text_, "#SBATCH --no-requeue\n");
    }
    if (Elastic(job_)) {
      Comment(
          "If a node fails, the workers restart: a spare replaces the node, or the others "
          "continue.");
      absl::StrAppend(&text_, "#SBATCH --no-kill\n");
    }
    const auto warning = std::chrono::ceil<seconds>(slurm_.warning).count();
    if (warning == 0) return;
    Comment("Slurm warns this script before the time limit, early enough for a checkpoint.");
    Option("signal", absl::StrCat("B:USR1@", warning));
  }

  const SlurmJob& job_;
  const SlurmConfig& slurm_;
  std::string text_;
};

}  // namespace

std::string BashWord(absl::string_view text) {
  const auto plain = [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("_-+=.,:/@%", c);
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", R"('\'')"}}), "'");
}

std::string SbatchWord(absl::string_view text) {
  // sbatch ends an unquoted word at white space, even after a backslash.
  std::string word;
  bool quotes = text.empty();
  for (const char c : text) {
    const bool plain = absl::ascii_isalnum(c) || absl::StrContains("_-+=.,:/@%[]*&|", c) ||
                       static_cast<unsigned char>(c) >= 0x80;
    quotes = quotes || !plain;
    if (!plain && c != ' ') word += '\\';
    word += c;
  }
  return quotes ? absl::StrCat("\"", word, "\"") : word;
}

std::optional<std::chrono::seconds> ParseSlurmTime(absl::string_view text) {
  const std::vector<absl::string_view> halves = absl::StrSplit(text, absl::MaxSplits('-', 1));
  std::vector<std::int64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(halves.back(), ':')) {
    const auto number = ParseWholeNumber(part);
    if (!number || *number > 1'000'000) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.size() > 3) return std::nullopt;
  const bool days = halves.size() == 2;
  // The unit of the first number depends on the other parts.
  const std::size_t before = days ? 0 : numbers.size() == 3 ? 0 : 1;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    total *= 60;
    if (i >= before && i - before < numbers.size()) total += numbers[i - before];
  }
  if (days) {
    const auto number = ParseWholeNumber(halves.front());
    if (!number || *number > 1'000'000) return std::nullopt;
    total += *number * 24 * 3600;
  }
  if (total == 0) return std::nullopt;
  return seconds(total);
}

std::string SlurmScript(const SlurmJob& job) { return ScriptWriter(job).Write(); }

std::string SlurmCommandLine(const SlurmJob& job) {
  std::string line =
      absl::StrCat("srun --wait=0 --kill-on-bad-exit=0", Elastic(job) ? " --no-kill " : " ",
                   BashWord(job.ddprun), " -c ", BashWord(absl::StrCat(job.folder, "/job.yaml")));
  const auto copy = [&](const std::string& given, absl::string_view flag, absl::string_view name) {
    if (given.empty()) return;
    absl::StrAppend(&line, " --", flag, " ", BashWord(absl::StrCat(job.folder, "/", name)));
  };
  const CredentialsConfig& credentials = job.draft.config.rendezvous.credentials;
  copy(credentials.token_file, "token-file", "token");
  copy(credentials.tls_ca, "tls-ca", "ca.crt");
  copy(credentials.tls_cert, "tls-cert", "node.crt");
  copy(credentials.tls_key, "tls-key", "node.key");
  return line;
}

std::string SlurmDryRun(const SlurmJob& job) {
  const int nodes = NodesThatTrain(job);
  const int workers = WorkersPerNode(job);
  std::string text =
      absl::StrCat(SlurmScript(job), "\n# ---- on every node ----\n", SlurmCommandLine(job),
                   "\n\n# ---- the workers' environment ----\n");
  const bool given = job.draft.origins.count("nproc_per_node") != 0;
  if (!given || !ParseWholeNumber(job.draft.nproc_per_node)) {
    absl::StrAppend(&text,
                    "# Each node counts its own workers: here one for each GPU that is asked for, "
                    "at least 1.\n");
  }
  for (int rank = 0; rank < nodes * workers; ++rank) {
    absl::StrAppend(&text, "RANK=", rank, " LOCAL_RANK=", rank % workers,
                    " GROUP_RANK=", rank / workers, " WORLD_SIZE=", nodes * workers,
                    " LOCAL_WORLD_SIZE=", workers, " GROUP_WORLD_SIZE=", nodes,
                    " MASTER_ADDR=(of node 0) MASTER_PORT=(chosen) "
                    "TORCHELASTIC_RUN_ID=(the job's id)\n");
  }
  return text;
}

}  // namespace ddprun
