// The files of launcher/python that workers get, within the executable: they are there wherever
// ddprun was copied to.
#ifndef DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_
#define DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_

namespace ddprun {

extern const char kPythonModule[];         // ddprun.py, with ddprun's version
extern const char kPythonSitecustomize[];  // sitecustomize.py
extern const char kPythonAutoStep[];       // auto_step.py

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_MODULE_SOURCE_H_
