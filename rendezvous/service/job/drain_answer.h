// DrainAnswer: the answer to an operator's DrainNode. It combines the answers of all jobs that are
// asked.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_DRAIN_ANSWER_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_DRAIN_ANSWER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"

namespace ddprun {

class DrainAnswer {
 public:
  using AnswerCallback = std::function<void(absl::StatusOr<std::string>)>;

  // `jobs`: how many jobs are asked. `not_there`: the error if no job has the node.
  DrainAnswer(std::size_t jobs, std::string not_there, AnswerCallback done)
      : left_(jobs), not_there_(std::move(not_there)), done_(std::move(done)) {
    if (left_ == 0) Conclude();
  }

  void Add(bool in_it, const absl::StatusOr<std::string>& answer) {
    if (answer.ok()) {
      accepted_.push_back(*answer);
    } else if (in_it) {
      refused_.emplace_back(answer.status().message());
    }
    if (--left_ == 0) Conclude();
  }

 private:
  void Conclude() {
    if (!accepted_.empty()) {
      done_(absl::StrJoin(accepted_, "; "));
    } else if (!refused_.empty()) {
      done_(absl::FailedPreconditionError(absl::StrJoin(refused_, "; ")));
    } else {
      done_(absl::NotFoundError(not_there_));
    }
  }

  std::size_t left_;  // jobs that have not answered
  const std::string not_there_;
  const AnswerCallback done_;
  std::vector<std::string> accepted_;
  std::vector<std::string> refused_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_DRAIN_ANSWER_H_
