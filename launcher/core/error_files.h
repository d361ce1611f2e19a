// ErrorFiles: keeps the error files of this node's workers that failed in the last generation,
// until the job's root cause is known. Pure. Owned by RunFiles.
#ifndef DDPRUN_LAUNCHER_CORE_ERROR_FILES_H_
#define DDPRUN_LAUNCHER_CORE_ERROR_FILES_H_

#include <map>
#include <string>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class ErrorFiles {
 public:
  // The workers of a generation start. Forgets earlier content.
  void Begin(Generation generation, Rank first_rank);
  // Ignores the content if it is of an earlier generation and comes late because of a slow disk.
  void Add(Generation generation, LocalRank local_rank, std::string content);
  // The error file of the worker that is the cause; "": none of this generation on this node.
  std::string Of(const RootCause& cause) const;

 private:
  Generation generation_{-1};
  Rank first_rank_;
  std::map<int, std::string> content_;  // by local rank
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_ERROR_FILES_H_
