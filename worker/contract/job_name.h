// The name of a job, in data and in sentences.
#ifndef DDPRUN_WORKER_CONTRACT_JOB_NAME_H_
#define DDPRUN_WORKER_CONTRACT_JOB_NAME_H_

#include <string>

namespace ddprun {

// The id of a job that nobody has named: torchrun's. In JSON, paths and on the wire, never in a
// sentence.
inline constexpr char kUnnamedJob[] = "none";

// A job in a sentence: "job exp7"; "the job" where nobody has named it.
inline std::string NameOfJob(const std::string& job) {
  return job == kUnnamedJob ? "the job" : "job " + job;
}

// After "there is" or "has": "no job exp7"; "no job without an id".
inline std::string NoSuchJob(const std::string& job) {
  return job == kUnnamedJob ? "no job without an id" : "no job " + job;
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_JOB_NAME_H_
