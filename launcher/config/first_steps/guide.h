// What a person reads who has a job file and no command line yet: what it runs, and how. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_
#define DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_

#include <string>
#include <vector>

#include "launcher/config/job_draft.h"

namespace ddprun {

struct FoundJob {
  std::string path{};  // of the job file, as a person would type it
  JobDraft draft{};
  std::string errors{};  // one a line; "": the file has none
};

// What the job of a file runs, and the command lines that start it, each under its comment.
std::string JobGuide(const std::string& path, const JobDraft& draft);

// What `ddprun` alone says, with the job files of the current folder.
std::string Guide(const std::vector<FoundJob>& found);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_
