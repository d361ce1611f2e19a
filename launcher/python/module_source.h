// The files of launcher/python for workers, embedded in the executable, so that a copied ddprun
// works anywhere.
#ifndef DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_
#define DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_

#include "absl/types/span.h"

namespace ddprun {

extern const char kPythonModule[];         // ddprun.py, with ddprun's version
extern const char kPythonSitecustomize[];  // sitecustomize.py
extern const char kPythonAutoStep[];       // auto_step.py
extern const char kPythonStore[];          // store.py
extern const char kPythonAfterImport[];    // after_import.py

// The package _ddprun_state. ddprun.py imports it when its Checkpointer or sampler is used.
inline constexpr char kPythonPackageFolder[] = "_ddprun_state";

struct PythonFile {
  const char* name;  // in that folder
  const char* text;
};

absl::Span<const PythonFile> PythonPackage();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_
