// The text for a person who has a job file but does not know the command line: what the job runs,
// and how to start it. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_
#define DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_

#include <string>
#include <vector>

#include "launcher/config/job_draft.h"

namespace ddprun {

struct FoundJob {
  std::string path{};  // path of the job file, as a person would type it
  JobDraft draft{};
  std::string errors{};  // one per line; "": none
};

// The program of the job in a file, and the command lines that start the job, each with a comment.
std::string JobGuide(const std::string& path, const JobDraft& draft);

// The output of `ddprun` without arguments, with the job files of the current folder.
std::string Guide(const std::vector<FoundJob>& found);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_GUIDE_H_
