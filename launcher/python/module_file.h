// The module `ddprun` as a user's file: what `ddprun python-module` writes, and which files it
// replaces. Pure.
#ifndef DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_
#define DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// The module after a first line with ddprun's version and a hash of the rest. By that line a later
// ddprun recognizes an unedited file of ddprun.
std::string PythonModuleFile(absl::string_view module, absl::string_view version);

// Why ddprun of this version must not replace a file with this content: "it is not one that ddprun
// has written". "": it may replace an unedited file of this or an older version.
std::string WhyNotReplaced(absl::string_view content, absl::string_view version);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_
