// The text for a person who has a job file but no command line yet: what the job runs, and how to
// start it. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_
#define DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_

#include <string>
#include <vector>

#include "launcher/config/job_draft.h"

namespace ddprun {

struct FoundJob {
  std::string path{};  // the job file's, as a person would type it
  JobDraft draft{};
  std::string errors{};  // one per line; "": none
};

// The program of a file's job, and the command lines that start it, each with a comment.
std::string JobGuide(const std::string& path, const JobDraft& draft);

// The output of `ddprun` without arguments, with the job files of the current folder.
std::string Guide(const std::vector<FoundJob>& found);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_
