// The content of a worker's TORCHELASTIC_ERROR_FILE, in torch's format. Pure.
//
//   {"message": "text"}                        a handler with a text only
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
  std::string message{};                 // one line, at most 2,000 bytes; "": none
  std::vector<std::string> traceback{};  // lines of the py_callstack
};

// Empty: `json` has neither of the two forms.
WorkerError ParseErrorFile(std::string_view json);

// The content of a launcher's own error file, for its parent: `json` with the exit code as
// "errorCode" if `json` has the second form. A signal is a negative number, as in torch. "": `json`
// is no JSON object.
std::string ErrorFileOfLauncher(std::string_view json, const ExitStatus& status);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_ERROR_FILE_H_
