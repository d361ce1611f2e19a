// The name of a job, in data and in sentences.
#ifndef DDPRUN_WORKER_CONTRACT_JOB_NAME_H_
#define DDPRUN_WORKER_CONTRACT_JOB_NAME_H_

#include <string>

namespace ddprun {

// torchrun's id for a job without a name. It is used in JSON, in paths and on the wire. Sentences
// for people do not show it.
inline constexpr char kUnnamedJob[] = "none";

// How a sentence names a job: "job exp7", or "the job" if it has no name.
inline std::string NameOfJob(const std::string& job) {
  return job == kUnnamedJob ? "the job" : "job " + job;
}

// For use after "there is" or "has": "no job exp7", or "no job without an id".
inline std::string NoSuchJob(const std::string& job) {
  return job == kUnnamedJob ? "no job without an id" : "no job " + job;
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_JOB_NAME_H_
