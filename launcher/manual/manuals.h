// The manual pages of ddprun. They are made from the tables of --help, of job files and of the
// agent, so a new flag, key or variable needs no change here. A new subcommand may need rows in
// command_exit_codes.h. Pure.
#ifndef DDPRUN_LAUNCHER_MANUAL_MANUALS_H_
#define DDPRUN_LAUNCHER_MANUAL_MANUALS_H_

#include <string>
#include <vector>

#include "launcher/config/host.h"
#include "launcher/manual/roff_page.h"

namespace ddprun::manual {

struct Manual {
  std::string file;  // "ddprun-slurm.1"
  std::string text;  // roff, in the macros of man(7)
};

// ddprun(1), and a page for each subcommand.
std::vector<Manual> CommandManuals(const Edition& edition, const Host& host);
// ddprun.yaml(5), of job files.
Manual JobFileManual(const Edition& edition);
// ddprun-worker(7): a worker's environment, and the messages between it and its agent.
Manual WorkerManual(const Edition& edition);

}  // namespace ddprun::manual

#endif  // DDPRUN_LAUNCHER_MANUAL_MANUALS_H_
