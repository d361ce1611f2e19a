// Whether a job can run on this node: what `ddprun doctor` and --preflight say of what was found
// there. Pure; node_facts.h looks.
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

// What a worker would run.
struct ProgramFacts {
  absl::Status executable;             // whether it can be executed
  std::vector<std::string> libraries;  // files of libtorch and NCCL that it would load
  std::vector<std::string> missing;    // libraries that it needs
  std::string warning;
};

struct NodeFacts {
  std::string host;
  absl::StatusOr<std::string> address = "";   // of this node, for the others
  absl::Status endpoint;                      // whether the rendezvous's name resolves
  std::vector<int> ports;                     // that the job is to listen on here
  std::vector<int> taken_ports;               // of these, by other programs
  std::optional<int> rendezvous_port;         // of these: a rendezvous is there already
  std::int64_t unix_seconds = 0;              // by the wall clock
  bool clock_synchronized = true;             // as the kernel has it
  std::uint64_t open_files = 0;               // hard limit of this process
  std::optional<std::uint64_t> locked_bytes;  // soft limit; nullopt: unlimited
  std::uint64_t shared_memory_bytes = 0;      // that are free in /dev/shm
  int gpus = 0;                               // that a worker would see
  int gpus_given = 0;                         // to this step, by Slurm
  std::string driver;                         // version of NVIDIA's; empty: it is not loaded
  ProgramFacts program;
  absl::Status credentials;
  std::string credentials_warning;
  std::vector<std::string> unwritable;  // folders, with the reason
};

struct Finding {
  enum class Level { kOk, kWarning, kFailure };
  Level level = Level::kOk;
  std::string name;  // one word: address, ports, clock, ...
  std::string text;  // what was found and, unless it is fine, what to do
  bool operator==(const Finding&) const = default;
};

// One finding for each check, always in the same order.
std::vector<Finding> JudgeNode(const JobConfig& config, const NodeFacts& facts);

// No failure is among them.
bool MayRun(const std::vector<Finding>& findings);

// One line each; or {"host", "ok", "checks": [{"name", "result", "text"}]}, where the result is ok,
// warning or failure.
std::string FindingsToText(const std::vector<Finding>& findings);
std::string FindingsToJson(const std::string& host, const std::vector<Finding>& findings);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_NODE_CHECK_H_
