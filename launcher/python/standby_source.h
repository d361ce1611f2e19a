// The Python program of a warm standby, launcher/python/standby.py, within the executable: it works
// wherever ddprun was copied to.
#ifndef DDPRUN_LAUNCHER_PYTHON_STANDBY_SOURCE_H_
#define DDPRUN_LAUNCHER_PYTHON_STANDBY_SOURCE_H_

namespace ddprun {

extern const char kPythonStandby[];

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_STANDBY_SOURCE_H_
