#include "launcher/config/wrapped_program.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace ddprun {
namespace {

// A program that starts another one. `flags` and `with_value` are separated by spaces. The value of
// an option is the next word, follows "=" in the same word (--membind=0), or follows its letter
// (-N0).
struct Starter {
  absl::string_view name;
  absl::string_view flags;
  absl::string_view with_value;
  int operands = 0;                   // between the options and the program
  bool sets_variables = false;        // NAME=VALUE before the program
  absl::string_view subcommand = {};  // the first word after the name
};

constexpr absl::string_view kCondaFlags =
    "--no-capture-output --live-stream --dev --debug-wrapper-scripts -v --verbose";
constexpr absl::string_view kCondaValues = "-n --name -p --prefix --cwd";

constexpr absl::string_view kContainerFlags =
    "--nv --rocm -e --cleanenv -c --contain -C --containall --no-home --writable-tmpfs";
constexpr absl::string_view kContainerValues =
    "-B --bind -H --home --env --env-file --pwd --cwd --overlay";

constexpr Starter kStarters[] = {
    {"env", "-i --ignore-environment - -v --debug", "-u --unset -C --chdir", 0, true},
    {"numactl", "-l --localalloc -a --all -b --balancing",
     "-i --interleave -p --preferred -P --preferred-many -N --cpunodebind -C --physcpubind -m "
     "--membind -w --weighted-interleave"},
    {"taskset", "-a --all-tasks -c --cpu-list", "", 1},
    {"nice", "", "-n --adjustment"},
    {"ionice", "-t --ignore", "-c --class -n --classdata"},
    {"chrt", "-b --batch -i --idle -o --other -f --fifo -r --rr -R --reset-on-fork", "", 1},
    {"stdbuf", "", "-i --input -o --output -e --error"},
    {"timeout", "--foreground --preserve-status -v --verbose", "-k --kill-after -s --signal", 1},
    {"nohup", "", ""},
    {"setsid", "-c --ctty -f --fork -w --wait", ""},
    {"conda", kCondaFlags, kCondaValues, 0, false, "run"},
    {"mamba", kCondaFlags, kCondaValues, 0, false, "run"},
    {"micromamba", kCondaFlags, kCondaValues, 0, false, "run"},
    {"uv", "--no-sync --frozen --locked --offline --active -q --quiet",
     "--with --extra --group -p --python --project --directory --env-file", 0, false, "run"},
    {"poetry", "", "", 0, false, "run"},
    {"pdm", "", "", 0, false, "run"},
    {"pipenv", "", "", 0, false, "run"},
    {"apptainer", kContainerFlags, kContainerValues, 1, false, "exec"},
    {"singularity", kContainerFlags, kContainerValues, 1, false, "exec"},
};

constexpr absl::string_view kShells[] = {"sh", "bash", "dash", "ash", "ksh", "zsh"};

absl::string_view BaseName(absl::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool HasWord(absl::string_view words, absl::string_view word) {
  return absl::c_linear_search(absl::StrSplit(words, ' ', absl::SkipEmpty()), word);
}

// How many words this option takes; 0: unknown option.
std::size_t WordsOfOption(const Starter& starter, absl::string_view word) {
  if (HasWord(starter.flags, word)) return 1;
  if (HasWord(starter.with_value, word)) return 2;
  const bool is_long = absl::StartsWith(word, "--");
  const absl::string_view name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
  return name != word && HasWord(starter.with_value, name) ? 1 : 0;
}

}  // namespace

std::optional<std::size_t> FindWrapped(const std::vector<std::string>& argv) {
  const auto starter = absl::c_find_if(
      kStarters, [name = BaseName(argv[0])](const Starter& each) { return each.name == name; });
  if (starter == std::end(kStarters)) return std::nullopt;
  std::size_t at = 1;
  if (!starter->subcommand.empty()) {
    if (at >= argv.size() || argv[at] != starter->subcommand) return std::nullopt;
    ++at;
  }
  while (at < argv.size() && absl::StartsWith(argv[at], "-")) {
    if (argv[at] == "--") {
      ++at;
      break;
    }
    const std::size_t words = WordsOfOption(*starter, argv[at]);
    if (words == 0) return std::nullopt;
    at += words;
  }
  at += static_cast<std::size_t>(starter->operands);
  while (starter->sets_variables && at < argv.size() && absl::StrContains(argv[at], '=')) ++at;
  if (at >= argv.size()) return std::nullopt;
  return at;
}

std::optional<std::size_t> FindShellProgram(const std::vector<std::string>& argv) {
  if (!absl::c_linear_search(kShells, BaseName(argv[0]))) return std::nullopt;
  for (std::size_t i = 1; i < argv.size(); ++i) {
    const absl::string_view word = argv[i];
    if (word == "--") return i + 1 < argv.size() ? std::optional(i + 1) : std::nullopt;
    if (word == "--rcfile" || word == "--init-file") {
      ++i;  // its value
    } else if (absl::StartsWith(word, "--")) {
      continue;
    } else if (absl::StartsWith(word, "-") || absl::StartsWith(word, "+")) {
      if (word.size() == 1 || absl::StrContains(word, 's')) return std::nullopt;  // reads stdin
      if (absl::StrContains(word, 'c')) return i;
      if (absl::EndsWith(word, "o") || absl::EndsWith(word, "O")) ++i;  // -o pipefail, -eo pipefail
    } else {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
