// Judges whether a job can run on this node, for `ddprun doctor` and --preflight. Pure;
// node_facts.h collects the facts.
#ifndef DDPRUN_LAUNCHER_NODE_NODE_CHECK_H_
#define DDPRUN_LAUNCHER_NODE_NODE_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/config/job_config.h"

namespace ddprun {

// The program of a worker.
struct ProgramFacts {
  absl::Status executable;             // OK: it can be executed
  std::vector<std::string> libraries;  // torch and NCCL: files; for Python: versions
  std::vector<std::string> missing;    // needed libraries that are not found
  std::string warning;
};

struct NodeFacts {
  std::string host;
  absl::StatusOr<std::string> address = "";   // of this node, for the others
  absl::Status endpoint;                      // OK: the rendezvous's name resolves
  std::vector<int> ports;                     // of this node, for the job's rendezvous
  std::vector<int> taken_ports;               // of `ports`, by other programs
  std::optional<int> rendezvous_port;         // of `ports`: a rendezvous listens there
  std::int64_t unix_seconds = 0;              // by the wall clock
  bool clock_synchronized = true;             // by the kernel
  std::uint64_t open_files = 0;               // hard limit of this process
  std::optional<std::uint64_t> locked_bytes;  // soft limit; nullopt: unlimited
  std::uint64_t shared_memory_bytes = 0;      // free in /dev/shm
  int gpus = 0;                               // visible to a worker
  int gpus_given = 0;                         // given to this step by Slurm
  std::string driver;                         // version of NVIDIA's driver; empty: not loaded
  ProgramFacts program;
  absl::Status credentials;
  std::string credentials_warning;
  std::vector<std::string> unwritable;  // folders, with the reason
};

struct Finding {
  enum class Level { kOk, kWarning, kFailure };
  Level level = Level::kOk;
  std::string name;  // one word: address, ports, clock, ...
  std::string text;  // the finding and, if there is one, the remedy
  bool operator==(const Finding&) const = default;
};

// One finding for each check, always in the same order.
std::vector<Finding> JudgeNode(const JobConfig& config, const NodeFacts& facts);

// True: no finding is a failure.
bool MayRun(const std::vector<Finding>& findings);

// One line each; or {"host", "ok", "checks": [{"name", "result", "text"}]}, where the result is ok,
// warning or failure.
std::string FindingsToText(const std::vector<Finding>& findings);
std::string FindingsToJson(const std::string& host, const std::vector<Finding>& findings);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_NODE_CHECK_H_
