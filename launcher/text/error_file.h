// What a worker leaves in its TORCHELASTIC_ERROR_FILE, as torch writes and reads it. Pure.
//
//   {"message": "text"}                        a handler that knows only what went wrong
//   {"message": {"message": "text",            the @record decorator
//                "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1700000000"}}}
#ifndef DDPRUN_LAUNCHER_TEXT_ERROR_FILE_H_
#define DDPRUN_LAUNCHER_TEXT_ERROR_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/core/exit_status.h"

namespace ddprun {

struct WorkerError {
  std::string message{};                 // on one line, at most 2,000 bytes; "": there is none
  std::vector<std::string> traceback{};  // lines of the py_callstack
};

// Empty where `json` is neither of the two forms.
WorkerError ParseErrorFile(std::string_view json);

// What a launcher writes to its own error file, for whoever started it: `json` with the exit code
// as "errorCode", where the message has room for it (the second form). A signal counts negative, as
// in torch. "" where `json` is no JSON object.
std::string ErrorFileOfLauncher(std::string_view json, const ExitStatus& status);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_ERROR_FILE_H_
