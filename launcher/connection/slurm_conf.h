// What Slurm's configuration says of MUNGE.
#ifndef DDPRUN_LAUNCHER_CONNECTION_SLURM_CONF_H_
#define DDPRUN_LAUNCHER_CONNECTION_SLURM_CONF_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// The socket of munged that AuthInfo names in the text of a slurm.conf, absolute; "" where it names
// none: then munged's own choice is Slurm's. Files that it includes are not looked at.
std::string MungeSocketIn(absl::string_view slurm_conf);

// The same of this host's slurm.conf: $SLURM_CONF, which Slurm sets for the tasks of a job where it
// is elsewhere, or those of slurmd and Debian. Blocks on the disk.
std::string MungeSocketOfSlurm();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_SLURM_CONF_H_
