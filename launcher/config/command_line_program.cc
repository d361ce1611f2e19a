#include "launcher/config/command_line_program.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace ddprun {

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
