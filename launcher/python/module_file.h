// The module `ddprun` as a file of the user's: what `ddprun python-module` writes, and which files
// it replaces. Pure.
#ifndef DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_
#define DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// The module behind a first line with ddprun's version and a hash of the rest: by it a later
// ddprun knows a file that one has written and nobody has edited.
std::string PythonModuleFile(absl::string_view module, absl::string_view version);

// Why the ddprun of this version must not replace a file that has this content: "it is not one that
// ddprun has written". "": it may. That is a file of this version or an older one, unedited.
std::string WhyNotReplaced(absl::string_view content, absl::string_view version);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_MODULE_FILE_H_
