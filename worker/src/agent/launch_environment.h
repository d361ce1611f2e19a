// Reads and checks the launcher's environment variables. Makes no system calls.
#ifndef DDPRUN_WORKER_SRC_AGENT_LAUNCH_ENVIRONMENT_H_
#define DDPRUN_WORKER_SRC_AGENT_LAUNCH_ENVIRONMENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddp::internal {

struct LaunchEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int generation = 0;
  int restart_count = 0;
  std::string master_addr;        // empty: not set; only a job of one process may omit it
  std::uint16_t master_port = 0;  // 0: not set
  // TORCHELASTIC_USE_AGENT_STORE=True: the agent hosts torch's store, and rank 0 is a client too.
  bool agent_hosts_store = false;
};

// Returns the value of a variable, or null. Outside of tests it is LaunchVariable() or std::getenv.
using Getenv = std::function<const char*(const char* name)>;

// If RANK and WORLD_SIZE are both missing, this is a job of one process. Otherwise throws
// ddp::ConfigError if variables are missing; the error names them all. Also throws ddp::ConfigError
// if a variable is malformed or contradicts another; the error names the first such variable. A
// malformed DDPRUN_GENERATION or TORCHELASTIC_RESTART_COUNT always throws.
LaunchEnvironment ReadLaunchEnvironment(const Getenv& getenv);

// The default of ddp::Options::timeout. Throws ddp::ConfigError if a variable is malformed.
std::chrono::milliseconds DefaultTimeout(const Getenv& getenv);

// How long NCCL's watchdog thread may be stuck before NCCL ends the process. Longer than ddprun's
// limit for a hang, because ddprun's report says more. Throws ddp::ConfigError if a variable is
// malformed.
std::chrono::seconds WatchdogTimeout(const Getenv& getenv);

// How long to wait for a connection to a host that does not answer: `given`
// (ddp::Options::init_timeout), or the default. It does not depend on ddprun's limit for a hang,
// because only this process knows that the host does not answer.
std::chrono::milliseconds ConnectTimeout(std::optional<std::chrono::milliseconds> given);
// How long to wait for ranks that have not joined: `given` (init_timeout), or the default. Throws
// ddp::ConfigError if a variable is malformed.
std::chrono::milliseconds JoinTimeout(std::optional<std::chrono::milliseconds> given,
                                      const Getenv& getenv);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_LAUNCH_ENVIRONMENT_H_
