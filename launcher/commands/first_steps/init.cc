#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/commands/commands.h"
#include "launcher/config/first_steps/guide.h"
#include "launcher/config/first_steps/new_job.h"
#include "launcher/config/values.h"
#include "launcher/config/yaml_config.h"
#include "launcher/os/file_util.h"

namespace ddprun {
namespace {

int FailInit(int exit_code, absl::string_view what) {
  std::fprintf(stderr, "ddprun init: %s\n", std::string(what).c_str());
  return exit_code;
}

// Asks on stderr, reads from stdin. False: stdin has ended before the last answer.
bool Ask(NewJobDialog* dialog) {
  while (const std::optional<std::string> question = dialog->Question()) {
    std::fputs(question->c_str(), stderr);
    std::string answer;
    if (!std::getline(std::cin, answer)) return false;
    const std::string wrong = dialog->Answer(answer);
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  }
  return true;
}

}  // namespace

int WriteJobFile(const InitCommand& command, const Host& host) {
  const std::string there = absl::StrCat(
      Quoted(command.path), " exists already: --force replaces it, --output names another file");
  // Checked before the user answers questions.
  if (!command.replace && access(command.path.c_str(), F_OK) == 0) return FailInit(1, there);
  NewJobDialog dialog(command.draft, host);
  if (!Ask(&dialog)) {
    return FailInit(
        kExitUsage,
        "expected an answer (found the end of the input); ddprun init [OPTIONS] COMMAND "
        "[ARGS...] asks nothing");
  }
  const std::string text = NewJobFile(dialog.draft());
  const absl::Status written = command.replace ? WriteFileAtomic(command.path, text)
                                               : WriteNewFileAtomic(command.path, text);
  if (absl::IsAlreadyExists(written)) return FailInit(1, there);
  if (!written.ok()) return FailInit(1, written.message());
  JobDraft job;
  if (const absl::Status status = LoadJobFileInto(command.path, &job); !status.ok()) {
    return FailInit(kExitInternal, status.message());
  }
  std::printf("%s is written. The job\n\n%s", command.path.c_str(),
              JobGuide(command.path, job).c_str());
  return 0;
}

}  // namespace ddprun
