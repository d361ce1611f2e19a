// Makes the module `ddprun` available in Python workers.
//
//     <folder>/site/sitecustomize.py        in front of the worker's PYTHONPATH
//     <folder>/module/ddprun.py             last on its sys.path
//     <folder>/module/_ddprun_state/        the package with ddprun's Checkpointer
//     <folder>/module/_ddprun_auto_step.py  with --auto-step only
//     <folder>/module/_ddprun_store.py      with --store agent only
//     <folder>/module/_ddprun_after_import.py   with either of them
//
// Python runs sitecustomize.py at its start. That file restores the user's PYTHONPATH for the
// process and its children, and appends `module` to sys.path: launcher/python/sitecustomize.py.
#ifndef DDPRUN_LAUNCHER_PYTHON_PYTHON_PATH_H_
#define DDPRUN_LAUNCHER_PYTHON_PYTHON_PATH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun {

// Hooks that Python workers get besides the module.
struct PythonHooks {
  bool auto_step = false;
  bool agent_store = false;  // an agent may serve the job's store
};

// Makes `folder`, mode 0700, and its content. Returns the absolute path for PYTHONPATH. May block
// on the disk. FailedPrecondition: PYTHONPATH cannot name `folder`, because it contains a colon.
absl::StatusOr<std::string> MakePythonFolder(const std::string& folder, PythonHooks hooks);

// Puts `entry`, from MakePythonFolder, in front of PYTHONPATH in `env` (NAME=value each).
// sitecustomize.py can find out the earlier value: not set, empty or a path. Does nothing if
// `entry` is "".
void PutOnPythonPath(const std::string& entry, std::vector<std::string>* env);
// Undoes PutOnPythonPath, for a process whose interpreter already runs.
void TakeOffPythonPath(const std::string& entry, std::vector<std::string>* env);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_PYTHON_PATH_H_
