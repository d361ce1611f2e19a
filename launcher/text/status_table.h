// What `ddprun status` shows to a person, made from the JSON that the rendezvous answers with.
// Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_STATUS_TABLE_H_
#define DDPRUN_LAUNCHER_TEXT_STATUS_TABLE_H_

#include <string>

#include "absl/status/statusor.h"

namespace ddprun {

struct StatusTableOptions {
  std::string endpoint;
  bool all_nodes = false;  // else, of a job with many nodes, only those that are not like most
};

// Lines, each with its newline. Error: Internal, when `json` is no such document.
absl::StatusOr<std::string> StatusTable(const std::string& json, const StatusTableOptions& options);

// "3 d 4 h", "2 h 13 min", "45 s", "0.4 s": of the two largest units.
std::string Age(double milliseconds);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_STATUS_TABLE_H_
