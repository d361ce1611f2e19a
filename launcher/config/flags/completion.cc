#include "launcher/config/flags/completion.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "launcher/config/flags/operator_options.h"

namespace ddprun {
namespace {

// The values that can be completed: for "N|auto|gpu|cpu" the three words.
std::vector<absl::string_view> Words(absl::string_view value) {
  std::vector<absl::string_view> words;
  if (!absl::StrContains(value, '|')) return words;
  for (const absl::string_view word : absl::StrSplit(value, '|')) {
    if (!word.empty() && absl::ascii_islower(word.front())) words.push_back(word);
  }
  return words;
}

bool IsFile(const FlagSpec& flag) { return flag.value == "FILE" || flag.value == "PATH"; }
bool IsFolder(const FlagSpec& flag) { return flag.value == "DIR"; }
bool IsRank(const FlagSpec& flag) { return flag.name == "rank"; }

// "--config|-c", as a pattern of `case`.
std::string Pattern(const FlagSpec& flag) {
  return flag.letter == 0 ? absl::StrCat("--", flag.name)
                          : absl::StrCat("--", flag.name, "|-", std::string(1, flag.letter));
}

// ---- bash ----

// Appends two lines of `case "$subcommand"`: one sets `flags`, the other completes a value.
void AddBash(absl::string_view subcommand, absl::Span<const FlagSpec> flags, std::string* flag_rows,
             std::string* value_rows) {
  std::vector<std::string> names;
  std::vector<std::string> files;
  std::vector<std::string> folders;
  std::vector<std::string> others;
  std::string values;
  for (const FlagSpec& flag : flags) {
    if (flag.effect == FlagEffect::kRefused) continue;
    names.push_back(absl::StrCat("--", flag.name));
    if (flag.IsSwitch()) continue;
    if (const auto words = Words(flag.value); !words.empty()) {
      absl::StrAppend(&values, "        ", Pattern(flag), ") values=(-W '",
                      absl::StrJoin(words, " "), "') ;;\n");
    } else if (IsRank(flag)) {
      absl::StrAppend(&values, "        ", Pattern(flag),
                      ") values=(-W \"$(__ddprun_ask ranks)\") ;;\n");
    } else {
      (IsFile(flag) ? files : IsFolder(flag) ? folders : others).push_back(Pattern(flag));
    }
  }
  const auto add = [&](const std::vector<std::string>& patterns, absl::string_view action) {
    if (patterns.empty()) return;
    absl::StrAppend(&values, "        ", absl::StrJoin(patterns, "|"), ") values=(", action,
                    ") ;;\n");
  };
  add(files, "-f");
  add(folders, "-d");
  add(others, "-W ''");  // a value that cannot be completed
  absl::StrAppend(flag_rows, "    ", subcommand, ") flags='", absl::StrJoin(names, " "), "' ;;\n");
  absl::StrAppend(value_rows, "    ", subcommand, ")\n      case $1 in\n", values,
                  "        *) return 1 ;;\n      esac ;;\n");
}

absl::string_view BashArgument(CompletedArgument argument) {
  switch (argument) {
    case CompletedArgument::kFile:
      return "-f";
    case CompletedArgument::kFolder:
      return "-d";
    case CompletedArgument::kShell:
      return "-W 'bash zsh'";
    case CompletedArgument::kSubcommand:
      return "-W \"$subcommands\"";
    case CompletedArgument::kJob:
      return "-W \"$(__ddprun_ask jobs)\"";
    case CompletedArgument::kNodeAndJob:
      return "-W \"$(__ddprun_ask $(((COMP_CWORD == 2)) && echo nodes || echo jobs))\"";
    case CompletedArgument::kNone:
      break;
  }
  return "-W ''";
}

// For both shells. The status is one line of JSON. Leaves out names with characters that the
// pattern `name` does not have: bash would expand them, and anybody may name a job $(reboot).
constexpr absl::string_view kAsk =
    R"sh(# What the rendezvous of the command line knows: `jobs`, `nodes`, or `ranks` of the job named there,
# else of all. Nothing where none answers within a second.
__ddprun_ask() {
  local json name='[A-Za-z0-9_.+@-]*' word last=
  local -a line more
  more=()
@LINE@
  for word in "${line[@]}"; do
    case $last in
      --rdzv-endpoint|--token-file|--tls-ca|--tls-cert|--tls-key|--munge-socket)
        more+=("$last" "$word")
        ;;
    esac
    case $word in
      --rdzv-endpoint=*|--token-file=*|--tls-ca=*|--tls-cert=*|--tls-key=*|--munge-socket=*|--munge|--insecure)
        more+=("$word")
        ;;
    esac
    last=$word
  done
  if [[ $1 == ranks && -n $job && $job != -* ]]; then more+=("$job"); fi
  json=$("$program" status --json --timeout 1s "${more[@]}" 2>/dev/null) || return 0
  case $1 in
    jobs) grep -o "\"job\":\"$name\"" <<<"$json" | cut -d'"' -f4 | sort -u ;;
    nodes) grep -o "\"host\":\"$name\",\"address\"" <<<"$json" | cut -d'"' -f4 | sort -u ;;
    ranks)
      last=$(grep -o '"world_size":[0-9]*' <<<"$json" | cut -d: -f2 | sort -n | tail -n 1)
      if [[ -n $last ]]; then seq 0 $((last - 1)); fi
      ;;
  esac
}
)sh";

constexpr absl::string_view kBash =
    R"sh(# bash completion for ddprun; made by `ddprun completion bash`.

@ASK@
# Sets `values`, arguments of compgen, for what follows flag $1; false where nothing does.
__ddprun_values() {
  case $subcommand in
@VALUES@  esac
}

_ddprun() {
  local current=${COMP_WORDS[COMP_CWORD]} subcommand=run flags i
  local subcommands='@SUBCOMMANDS@'
  local -a values
  COMPREPLY=()
  if ((COMP_CWORD > 1)) && [[ " $subcommands " == *" ${COMP_WORDS[1]} "* ]]; then
    subcommand=${COMP_WORDS[1]}
  fi
  case $subcommand in
@FLAGS@  esac

  # What follows COMMAND is COMMAND's.
  if [[ $subcommand == run ]]; then
    for ((i = 1; i < COMP_CWORD; i++)); do
      if [[ ${COMP_WORDS[i]} == -- ]]; then
        ((i++))
      elif [[ ${COMP_WORDS[i]} == -* ]]; then
        if __ddprun_values "${COMP_WORDS[i]}"; then
          if [[ ${COMP_WORDS[i + 1]} == '=' ]]; then ((i++)); fi
          ((i++))
        fi
        continue
      fi
      if declare -F _command_offset >/dev/null; then
        _command_offset $i
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
      fi
      return
    done
  fi

  local previous=${COMP_WORDS[COMP_CWORD - 1]}
  if [[ $current == '=' ]]; then
    current=
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if __ddprun_values "$previous"; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "${values[@]}" -- "$current")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  else
    case $subcommand in
      run)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        if ((COMP_CWORD == 1)); then
          mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$subcommands" -- "$current")
        fi
        ;;
@ARGUMENTS@    esac
  fi
}
complete -F _ddprun ddprun
)sh";

// bash splits HOST:PORT into three words of COMP_WORDS.
constexpr absl::string_view kBashLine =
    R"sh(  local program=${COMP_WORDS[0]} job=${COMP_WORDS[2]-}
  read -ra line <<<"${COMP_LINE-}")sh";

std::string Bash() {
  std::string flag_rows;
  std::string value_rows;
  std::string argument_rows;
  std::vector<absl::string_view> names;
  AddBash("run", RunFlags(), &flag_rows, &value_rows);
  for (const CompletedSubcommand& subcommand : CompletedSubcommands()) {
    names.push_back(subcommand.name);
    AddBash(subcommand.name, subcommand.flags, &flag_rows, &value_rows);
    absl::StrAppend(&argument_rows, "      ", subcommand.name,
                    ") mapfile -t COMPREPLY < <(compgen ", BashArgument(subcommand.argument),
                    " -- \"$current\") ;;\n");
  }
  const std::string ask = absl::StrReplaceAll(kAsk, {{"@LINE@", kBashLine}});
  return absl::StrReplaceAll(kBash, {{"@ASK@", ask},
                                     {"@VALUES@", value_rows},
                                     {"@FLAGS@", flag_rows},
                                     {"@ARGUMENTS@", argument_rows},
                                     {"@SUBCOMMANDS@", absl::StrJoin(names, " ")}});
}

// ---- zsh ----

// Escapes text inside '...' where _arguments interprets brackets and colons.
std::string ZshText(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"\\", "\\\\"}});
}

std::string ZshSpecs(absl::Span<const FlagSpec> flags) {
  std::string specs;
  for (const FlagSpec& flag : flags) {
    if (flag.effect == FlagEffect::kRefused) continue;
    std::string value;
    if (const auto words = Words(flag.value); !words.empty()) {
      value = absl::StrCat(":", ZshText(flag.value), ":(", absl::StrJoin(words, " "), ")");
    } else if (!flag.IsSwitch()) {
      value = absl::StrCat(":", ZshText(flag.value), ":",
                           IsRank(flag)     ? "_ddprun_ranks"
                           : IsFile(flag)   ? "_files"
                           : IsFolder(flag) ? "_files -/"
                                            : " ");
    }
    const std::string rest =
        absl::StrCat(value.empty() ? "" : "=", "[", ZshText(HelpOf(flag)), "]", value, "'");
    const std::string name = absl::StrCat("--", flag.name);
    const bool repeated = flag.effect == FlagEffect::kList;
    absl::StrAppend(&specs, "    '", repeated ? "*" : "", name, rest, " \\\n");
    if (flag.letter != 0) {
      const std::string help = absl::StrCat("[", ZshText(HelpOf(flag)), "]", value, "'");
      absl::StrAppend(&specs, "    '-", std::string(1, flag.letter), help, " \\\n");
    }
  }
  return specs;
}

absl::string_view ZshArgument(CompletedArgument argument) {
  switch (argument) {
    case CompletedArgument::kFile:
      return "'1:file:_files'";
    case CompletedArgument::kFolder:
      return "'1:folder:_files -/'";
    case CompletedArgument::kShell:
      return "'1:shell:(bash zsh)'";
    case CompletedArgument::kSubcommand:
      return "'1:subcommand:_ddprun_subcommands'";
    case CompletedArgument::kJob:
      return "'1:job:_ddprun_jobs'";
    case CompletedArgument::kNodeAndJob:
      return "'1:node:_ddprun_nodes' '2:job:_ddprun_jobs'";
    case CompletedArgument::kNone:
      break;
  }
  return "'*: : '";
}

constexpr absl::string_view kZsh = R"sh(#compdef ddprun
# zsh completion for ddprun; made by `ddprun completion zsh`.

@ASK@
_ddprun_jobs() { compadd -- $(__ddprun_ask jobs) }
_ddprun_nodes() { compadd -- $(__ddprun_ask nodes) }
_ddprun_ranks() { compadd -- $(__ddprun_ask ranks) }

_ddprun_subcommands() {
  local -a subcommands=(
@SUBCOMMANDS@  )
  _describe -t subcommands subcommand subcommands
}

_ddprun_first() {
  if ((CURRENT == 2)); then _ddprun_subcommands; fi
  _files
  _command_names -e
}

_ddprun_run() {
  _arguments -S -A '-*' \
@RUN@    '(-)1:command:_ddprun_first' \
    '*::argument:_normal'
}

@FUNCTIONS@_ddprun() {
  if ((CURRENT > 2)) && (($+functions[_ddprun_of_$words[2]])); then
    local subcommand=$words[2] _ddprun_program=$words[1]
    shift words
    ((CURRENT--))
    _ddprun_of_$subcommand
  else
    _ddprun_run
  fi
}

if [[ $funcstack[1] == _ddprun ]]; then
  _ddprun "$@"
else
  compdef _ddprun ddprun
fi
)sh";

constexpr absl::string_view kZshLine =
    R"sh(  local program=$_ddprun_program job=$words[2]
  line=("${words[@]}"))sh";

std::string Zsh() {
  std::string names;
  std::string functions;
  for (const CompletedSubcommand& subcommand : CompletedSubcommands()) {
    absl::StrAppend(&names, "    '", subcommand.name, ":", ZshText(subcommand.help), "'\n");
    absl::StrAppend(&functions, "_ddprun_of_", subcommand.name, "() {\n  _arguments -S \\\n",
                    ZshSpecs(subcommand.flags), "    ", ZshArgument(subcommand.argument),
                    "\n}\n\n");
  }
  const std::string ask = absl::StrReplaceAll(kAsk, {{"@LINE@", kZshLine}});
  return absl::StrReplaceAll(kZsh, {{"@ASK@", ask},
                                    {"@SUBCOMMANDS@", names},
                                    {"@RUN@", ZshSpecs(RunFlags())},
                                    {"@FUNCTIONS@", functions}});
}

}  // namespace

absl::Span<const CompletedSubcommand> CompletedSubcommands() {
  using Kind = OperatorCommand::Kind;
  static const auto* const all = new std::vector<CompletedSubcommand>{
      {"rendezvous", "where the nodes of a job meet", CompletedArgument::kNone, RendezvousFlags()},
      {"validate", "print the resolved job, or its errors", CompletedArgument::kFile,
       ValidateFlags()},
      {"init", "write a job file, after three questions or none", CompletedArgument::kFile,
       InitFlags()},
      {"status", "the jobs of a running rendezvous", CompletedArgument::kJob,
       OperatorFlags(Kind::kStatus)},
      {"stop", "end a job", CompletedArgument::kJob, OperatorFlags(Kind::kStop)},
      {"drain", "take a node out of its jobs", CompletedArgument::kNodeAndJob,
       OperatorFlags(Kind::kDrain)},
      {"events", "print the events of jobs", CompletedArgument::kJob, OperatorFlags(Kind::kEvents)},
      {"logs", "print the output of workers", CompletedArgument::kJob, OperatorFlags(Kind::kLogs)},
      {"stacks", "where the ranks of a job are in their code", CompletedArgument::kJob,
       OperatorFlags(Kind::kStacks)},
      {"page", "print a link to the page of a rendezvous", CompletedArgument::kJob,
       OperatorFlags(Kind::kPage)},
      {"top", "jobs, nodes and ranks on the whole terminal", CompletedArgument::kJob,
       OperatorFlags(Kind::kTop)},
      {"slurm", "write the batch script of a job file and submit it", CompletedArgument::kFile,
       SlurmFlags()},
      {"kubernetes", "print the Kubernetes manifest of a job file", CompletedArgument::kFile,
       KubernetesFlags()},
      {"doctor", "check this node before a job does", CompletedArgument::kNone, DoctorFlags()},
      {"certs", "make a job CA and node certificates", CompletedArgument::kFolder, CertsFlags()},
      {"python-module", "write the Python module ddprun to a folder", CompletedArgument::kFolder,
       PythonModuleFlags()},
      {"completion", "print the completion for a shell", CompletedArgument::kShell, {}},
      {"version", "print the version", CompletedArgument::kNone, {}},
      {"help", "print how a subcommand is used", CompletedArgument::kSubcommand, {}},
  };
  return *all;
}

std::string CompletionScript(CompletionCommand::Shell shell) {
  return shell == CompletionCommand::Shell::kBash ? Bash() : Zsh();
}

}  // namespace ddprun
