// Checks a job file before it is sent to the nodes.
#ifndef DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_JOB_FILE_CHECK_H_
#define DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_JOB_FILE_CHECK_H_

#include <string>

#include "launcher/config/host.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

// Problems that every node would find in the file, and credential files that cannot be read here,
// one per line; or "". Skips settings whose check depends on the node. `path`: as given.
std::string WhatNodesWouldSay(JobDraft draft, const std::string& path, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_JOB_FILE_CHECK_H_
