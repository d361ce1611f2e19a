// What is wrong with a job file for the nodes that will get it.
#ifndef DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_JOB_FILE_CHECK_H_
#define DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_JOB_FILE_CHECK_H_

#include <string>

#include "launcher/config/host.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

// What every node would find wrong with the file, one problem a line; or "". What depends on the
// node is left to it. `path` is the file's, as given.
std::string WhatNodesWouldSay(JobDraft draft, const std::string& path, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_JOB_FILE_CHECK_H_
