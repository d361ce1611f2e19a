// The Python program of the fork server, launcher/python/fork_server.py, within the executable: it
// works wherever ddprun was copied to.
#ifndef DDPRUN_LAUNCHER_PYTHON_FORK_SERVER_SOURCE_H_
#define DDPRUN_LAUNCHER_PYTHON_FORK_SERVER_SOURCE_H_

namespace ddprun {

extern const char kPythonForkServer[];

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_FORK_SERVER_SOURCE_H_
