// ddprun's own log: lines on stderr, with the time. Logging never blocks the agent.
//
// Each message is one line: every control character in it becomes '?'.
//
// spdlog formats and filters. The lines go through the same ConsoleWriter as the workers' lines, so
// a stopped terminal cannot stop the agent, and lines do not mix.
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

// Returns the text of a line of ddprun's log, without time and level. Any other line is returned
// unchanged.
absl::string_view TextOfLogLine(absl::string_view line);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_LOG_H_
