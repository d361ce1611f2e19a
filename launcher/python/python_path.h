// How the module `ddprun` gets into a worker that is a Python program.
//
//     <folder>/site/sitecustomize.py        in front of the worker's PYTHONPATH
//     <folder>/module/ddprun.py             last on its sys.path
//     <folder>/module/_ddprun_state/        the package with its Checkpointer
//     <folder>/module/_ddprun_auto_step.py  with --auto-step only
//     <folder>/module/_ddprun_store.py      with --store agent only
//     <folder>/module/_ddprun_after_import.py   with either of them
//
// Python runs sitecustomize.py at its start. It gives the process and its children the user's
// PYTHONPATH back and puts `module` at the end of sys.path: launcher/python/sitecustomize.py.
#ifndef DDPRUN_LAUNCHER_PYTHON_PYTHON_PATH_H_
#define DDPRUN_LAUNCHER_PYTHON_PYTHON_PATH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun {

// What Python workers get beside the module.
struct PythonHooks {
  bool auto_step = false;
  bool agent_store = false;  // the store of the job may be an agent's
};

// Makes `folder`, mode 0700, and what is in it. Returns the path that goes on PYTHONPATH, absolute.
// May wait for the disk. FailedPrecondition: `folder` has a colon in it, and PYTHONPATH cannot name
// it.
absl::StatusOr<std::string> MakePythonFolder(const std::string& folder, PythonHooks hooks);

// Puts `entry`, of MakePythonFolder, in front of PYTHONPATH in `env` (NAME=value each), so that
// sitecustomize.py can tell what was there before: nothing, an empty value or a path. Does nothing
// where `entry` is "".
void PutOnPythonPath(const std::string& entry, std::vector<std::string>* env);
// Undoes it: for a process whose interpreter runs already.
void TakeOffPythonPath(const std::string& entry, std::vector<std::string>* env);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_PYTHON_PATH_H_
