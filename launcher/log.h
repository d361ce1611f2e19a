// What ddprun itself says: lines on stderr, with the time, that never make the agent wait.
//
// Each is one line: control characters in what other machines and workers said become '?'.
//
// spdlog formats and filters; the lines go through the same ConsoleWriter as the workers' lines, so
// that a terminal that is stopped cannot stop the agent, and lines never tear each other.
//
// After InitLog, LogInfo and the others may be called from any thread.
#ifndef DDPRUN_LAUNCHER_LOG_H_
#define DDPRUN_LAUNCHER_LOG_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "launcher/os/output/console_writer.h"

namespace ddprun {

// `verbosity`: -1 warnings and errors, 0 also the events of a job, 1 everything.
void InitLog(std::shared_ptr<ConsoleWriter> console, int verbosity);

void LogDebug(absl::string_view text);
void LogInfo(absl::string_view text);
void LogWarning(absl::string_view text);
void LogError(absl::string_view text);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_LOG_H_
