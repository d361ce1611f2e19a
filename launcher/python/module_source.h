// The files of launcher/python that workers get, within the executable: they are there wherever
// ddprun was copied to.
#ifndef DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_
#define DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_

#include "absl/types/span.h"

namespace ddprun {

extern const char kPythonModule[];         // ddprun.py, with ddprun's version
extern const char kPythonSitecustomize[];  // sitecustomize.py
extern const char kPythonAutoStep[];       // auto_step.py
extern const char kPythonStore[];          // store.py
extern const char kPythonAfterImport[];    // after_import.py

// The package _ddprun_state, which ddprun.py imports where its Checkpointer or sampler is used.
inline constexpr char kPythonPackageFolder[] = "_ddprun_state";

struct PythonFile {
  const char* name;  // in that folder
  const char* text;
};

absl::Span<const PythonFile> PythonPackage();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_
