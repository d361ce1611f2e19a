// The module `ddprun` as a user's file: what `ddprun python-module` writes, and which files it
// replaces. Pure.
#ifndef DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_
#define DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// `module`, with a first line that has ddprun's version and a hash of the rest. By this line a
// later ddprun recognizes a file that ddprun wrote and nobody edited.
std::string PythonModuleFile(absl::string_view module, absl::string_view version);

// Why a ddprun of this version must not replace a file with this content, for example "it was
// edited since ddprun wrote it". "": it is an unedited file of this or an older version.
std::string WhyNotReplaced(absl::string_view content, absl::string_view version);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_
