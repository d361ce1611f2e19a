// The exceptions of this library. Every type derives from ddp::Error, and ddp::Error from
// std::runtime_error. what() is a text for the reader of the job's log.
//
// Standard library only.
#ifndef DDP_ERRORS_H_
#define DDP_ERRORS_H_

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Environment variables of the launcher, options or arguments are missing or wrong, or contradict
// each other. what() names them.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// Rank 0 could not listen on MASTER_PORT. The job may succeed with another port.
class BindError : public Error {
 public:
  using Error::Error;
};

// A collective, or the setup of the process group, failed or timed out. Usually another rank has
// ended, and this rank is a victim, not the cause. The process group cannot be used any more: end
// the process, or let the exception leave the body of ddp::run_in_place().
class CollectiveError : public Error {
 public:
  using Error::Error;
};

// A file of tensors could not be written or read, or does not fit the model or the optimizer.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

// A state_dict does not fit a model: see ddp::load_into(). what() names at most 50 tensors of each
// kind. The lists below are complete.
class StateDictMismatch : public CheckpointError {
 public:
  StateDictMismatch(const std::string& text, std::vector<std::string> missing,
                    std::vector<std::string> unexpected, std::vector<std::string> wrong_shape)
      : CheckpointError(text),
        missing_(std::move(missing)),
        unexpected_(std::move(unexpected)),
        wrong_shape_(std::move(wrong_shape)) {}

  // In the model, not in the dict.
  const std::vector<std::string>& missing() const { return missing_; }
  // In the dict, not in the model.
  const std::vector<std::string>& unexpected() const { return unexpected_; }
  const std::vector<std::string>& wrong_shape() const { return wrong_shape_; }

 private:
  std::vector<std::string> missing_;
  std::vector<std::string> unexpected_;
  std::vector<std::string> wrong_shape_;
};

// At least one rank failed, and all ranks stop together. Each rank throws this error with the same
// text, which names the failing rank. See ddp::throw_if_any_failed().
class AgreedError : public Error {
 public:
  // `failing_rank` is the lowest rank that failed. `failed_here` is true if this rank failed.
  AgreedError(const std::string& text, int failing_rank, bool failed_here)
      : Error(text), failing_rank_(failing_rank), failed_here_(failed_here) {}

  int failing_rank() const { return failing_rank_; }
  bool failed_here() const { return failed_here_; }

 private:
  int failing_rank_;
  bool failed_here_;
};

// The checkpoint folder belongs to another running training, or to a later generation or requeue of
// this job. All ranks stop before they read or write there. what() names the owner's host and
// process. If the body of ddp::run() throws this error, ddprun ends the job with exit code 77 and
// does not restart it.
class FolderTakenError : public AgreedError {
 public:
  using AgreedError::AgreedError;
};

// The state of the training cannot be loaded: its folder or file cannot be read, no file of a
// folder can be loaded, or the restore plan cannot be followed. what() has the path, the reason,
// and what to do. Training does not begin at step 0 instead. If the body of ddp::run() throws this
// error, ddprun ends the job and does not restart it.
class StateUnreadableError : public AgreedError {
 public:
  using AgreedError::AgreedError;
};

}  // namespace ddp

#endif  // DDP_ERRORS_H_
