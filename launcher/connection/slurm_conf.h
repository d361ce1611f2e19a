// Reads the socket of MUNGE from Slurm's configuration.
#ifndef DDPRUN_LAUNCHER_CONNECTION_SLURM_CONF_H_
#define DDPRUN_LAUNCHER_CONNECTION_SLURM_CONF_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// The absolute path of munged's socket that AuthInfo names in the text of a slurm.conf. "": it
// names no socket, so Slurm uses munged's default. Included files are not read.
std::string MungeSocketIn(absl::string_view slurm_conf);

// The same for the slurm.conf of this host. Its path is $SLURM_CONF. Slurm sets this variable for
// the tasks of a job if the file has an unusual path. Without the variable, reads the first file
// that exists among the usual paths of slurmd and Debian. Blocks on the disk.
std::string MungeSocketOfSlurm();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_SLURM_CONF_H_
