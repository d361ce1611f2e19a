#include "launcher/config/command_line_program.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/config/wrapped_program.h"
#include "rendezvous/core/limits.h"

namespace ddprun {
namespace {

constexpr char kRunPathCode[] =
    "import runpy, sys; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')";

// The index of the worker's program in argv: a script, a module's name, or an executable.
std::size_t FindProgram(const std::vector<std::string>& argv) {
  if (const auto wrapped = FindWrapped(argv)) {
    const auto begin = argv.begin() + static_cast<std::ptrdiff_t>(*wrapped);
    return *wrapped + FindProgram({begin, argv.end()});
  }
  if (const auto script = FindShellProgram(argv)) return *script;
  if (!IsPythonInterpreter(argv.front())) return 0;
  const std::size_t at = FindPythonProgram(argv).value_or(0);
  if (argv[at] == "-m" && at + 1 < argv.size()) return at + 1;
  if (argv[at] == "-c" && at + 2 < argv.size() && argv[at + 1] == kRunPathCode) return at + 2;
  return at;
}

}  // namespace

bool IsPythonInterpreter(absl::string_view program) {
  const std::size_t slash = program.rfind('/');
  if (slash != absl::string_view::npos) program.remove_prefix(slash + 1);
  if (!absl::ConsumePrefix(&program, "python") && !absl::ConsumePrefix(&program, "pypy")) {
    return false;
  }
  return program.find_first_not_of("0123456789.") == absl::string_view::npos;
}

std::optional<std::size_t> FindPythonProgram(const std::vector<std::string>& argv) {
  for (std::size_t i = 1; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word == "-m" || word == "-c") return i;
    if (word == "-W" || word == "-X") {  // its value is the next word
      ++i;
    } else if (absl::StartsWith(word, "-")) {
      const bool flags =
          word.size() > 1 && word.find_first_not_of("bBdEIOPqsSuvxWX", 1) == std::string::npos;
      const bool with_value = absl::StartsWith(word, "-W") || absl::StartsWith(word, "-X");
      if (!flags && !with_value) return std::nullopt;
    } else {
      return i;
    }
  }
  return std::nullopt;
}

bool RunsSitecustomize(const std::vector<std::string>& argv) {
  if (!IsPythonInterpreter(argv.front())) return false;
  const std::optional<std::size_t> program = FindPythonProgram(argv);
  if (!program) return false;
  for (std::size_t i = 1; i < *program; ++i) {
    const absl::string_view word = argv[i];
    if (word == "-W" || word == "-X") {
      ++i;
    } else if (word.substr(0, word.find_first_of("WX")).find_first_of("EIS") != word.npos) {
      return false;
    }
  }
  return true;
}

WorkerProgram ProgramOf(const std::vector<std::string>& argv, const std::string& role) {
  std::size_t at = FindProgram(argv);
  WorkerProgram program{role.substr(0, kMaxProgramBytes),
                        argv[at].substr(argv[at].rfind('/') + 1, kMaxProgramBytes)};
  for (++at; at < argv.size() && program.arguments.size() < kMaxComparedArguments; ++at) {
    program.arguments.push_back(
        static_cast<std::uint32_t>(XXH3_64bits(argv[at].data(), argv[at].size())));
  }
  return program;
}

bool IsPythonScript(absl::string_view program) { return absl::EndsWith(program, ".py"); }

std::vector<std::string> WorkerCommand(const std::vector<std::string>& command, ProgramKind kind,
                                       const std::string& python) {
  std::vector<std::string> argv;
  if (kind == ProgramKind::kRunPath) {
    argv = {python, "-u", "-c", kRunPathCode};
  } else if (kind == ProgramKind::kModule) {
    argv = {python, "-u", "-m"};
  } else if (kind == ProgramKind::kByName && IsPythonScript(command.front())) {
    argv = {python, "-u"};
  }
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

}  // namespace ddprun
