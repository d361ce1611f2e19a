// The job file that `ddprun init` writes, and its questions. Pure: the caller prints, reads and
// writes.
#ifndef DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_NEW_JOB_H_
#define DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_NEW_JOB_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "launcher/config/host.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

// Asks for the command, the nodes and the workers per node, except for settings that `draft`
// already has. If `draft` has the command, it asks nothing and uses the defaults.
class NewJobDialog {
 public:
  NewJobDialog(JobDraft draft, const Host& host);

  // The next question, with the default in brackets; nullopt: none left.
  std::optional<std::string> Question() const;

  // Takes the answer to Question(). Returns "", or why the answer is invalid. After an invalid
  // answer, Question() returns the same question again.
  std::string Answer(absl::string_view answer);

  // The complete job, once no question is left.
  const JobDraft& draft() const { return draft_; }

 private:
  std::string Default() const;  // of the next question
  void SkipAnswered();

  JobDraft draft_;
  const std::string default_workers_;  // "gpu" if this host has GPUs
  std::size_t next_ = 0;               // into the table of questions
};

// The text of a job file with all settings of `draft`. If `draft` does not set
// restart.max_restarts, the file sets it to 3. Other settings for a first job are in the file as
// comments. `draft` may have only the keys of the questions and of InitFlags().
std::string NewJobFile(const JobDraft& draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FIRST_STEPS_NEW_JOB_H_
