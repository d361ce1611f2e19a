#include "launcher/config/command_line_program.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ddprun {

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

bool IsPythonScript(absl::string_view program) { return absl::EndsWith(program, ".py"); }

std::vector<std::string> WorkerCommand(const std::vector<std::string>& command, ProgramKind kind,
                                       const std::string& python) {
  std::vector<std::string> argv;
  if (kind == ProgramKind::kRunPath) {
    argv = {python, "-u", "-c",
            "import runpy, sys; sys.argv = sys.argv[1:]; "
            "runpy.run_path(sys.argv[0], run_name='__main__')"};
  } else if (kind == ProgramKind::kModule) {
    argv = {python, "-u", "-m"};
  } else if (kind == ProgramKind::kByName && IsPythonScript(command.front())) {
    argv = {python, "-u"};
  }
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

}  // namespace ddprun
