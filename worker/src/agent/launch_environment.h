// The launcher's environment variables, read and checked. No system calls.
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
  std::string master_addr;        // empty when world_size is 1 and nobody set it
  std::uint16_t master_port = 0;  // 0 likewise
  // torchrun's agent may host the store itself (TORCHELASTIC_USE_AGENT_STORE=True); then rank 0
  // connects like the others. ddprun's never does.
  bool agent_hosts_store = false;
};

// The value of a variable, or null; std::getenv outside of tests.
using Getenv = std::function<const char*(const char* name)>;

// Without RANK and WORLD_SIZE: a job of one process. Otherwise throws ddp::ConfigError, which names
// every variable that is missing, or the first that is malformed or contradicts another.
LaunchEnvironment ReadLaunchEnvironment(const Getenv& getenv);

// What ddp::Options::timeout is where the program does not set it. Throws ddp::ConfigError.
std::chrono::milliseconds DefaultTimeout(const Getenv& getenv);

// How long NCCL's watchdog may stand still before the process ends for it. Longer than ddprun waits
// before it calls a hang: the first to speak is the one that knows most. Throws ddp::ConfigError.
std::chrono::seconds WatchdogTimeout(const Getenv& getenv);

// What ddp::Options::init_timeout is, which is `given`, for connecting to a host that is silent.
// Only this process knows of that, so it does not wait for ddprun.
std::chrono::milliseconds ConnectTimeout(std::optional<std::chrono::milliseconds> given);
// And for ranks that have not come. Throws ddp::ConfigError.
std::chrono::milliseconds JoinTimeout(std::optional<std::chrono::milliseconds> given,
                                      const Getenv& getenv);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_LAUNCH_ENVIRONMENT_H_
