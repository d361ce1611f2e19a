// The job file that `ddprun init` writes, and the questions that it asks for it. Pure: the caller
// prints, reads and writes.
#ifndef DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_NEW_JOB_H_
#define DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_NEW_JOB_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "launcher/config/host.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

// Asks for the command, the nodes and the workers of a node, but not for what `draft` has already.
// Where `draft` has the command, nothing is asked: what is missing gets its default.
class NewJobDialog {
 public:
  NewJobDialog(JobDraft draft, const Host& host);

  // The next question, with the value of an empty answer in brackets; nullopt: there is none.
  std::optional<std::string> Question() const;

  // Takes the answer to it. Returns "", or why the answer cannot be taken: it is asked again.
  std::string Answer(absl::string_view answer);

  // The whole job, once there is no question left.
  const JobDraft& draft() const { return draft_; }

 private:
  std::string Default() const;  // of the next question
  void SkipAnswered();

  JobDraft draft_;
  const std::string default_workers_;  // gpu where this host has GPUs
  std::size_t next_ = 0;               // into the table of questions
};

// The text of a job file with all that `draft` has. It loads to the same settings, but that it has
// restarts where `draft` says nothing of them. What else a first job may need is a comment. `draft`
// may have the keys that the questions and InitFlags() set.
std::string NewJobFile(const JobDraft& draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_NEW_JOB_H_
