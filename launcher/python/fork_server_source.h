// launcher/python/fork_server.py, embedded in the executable, so that a copied ddprun works
// anywhere.
#ifndef DDPRUN_LAUNCHER_PYTHON_FORK_SERVER_SOURCE_H_
#define DDPRUN_LAUNCHER_PYTHON_FORK_SERVER_SOURCE_H_

namespace ddprun {

extern const char kPythonForkServer[];

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_PYTHON_FORK_SERVER_SOURCE_H_
