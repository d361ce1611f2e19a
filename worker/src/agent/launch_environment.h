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
  std::string master_addr;        // empty if world_size is 1 and nobody set it
  std::uint16_t master_port = 0;  // 0: likewise
  // The agent hosts the store (TORCHELASTIC_USE_AGENT_STORE=True), and rank 0 is a client too.
  bool agent_hosts_store = false;
};

// The value of a variable, or null; std::getenv outside of tests.
using Getenv = std::function<const char*(const char* name)>;

// Without RANK and WORLD_SIZE: a job of one process. Otherwise throws ddp::ConfigError, which names
// all missing variables, or the first one that is malformed or contradicts another.
LaunchEnvironment ReadLaunchEnvironment(const Getenv& getenv);

// The default of ddp::Options::timeout. Throws ddp::ConfigError.
std::chrono::milliseconds DefaultTimeout(const Getenv& getenv);

// How long NCCL's watchdog may stand still before it ends the process. Longer than ddprun's limit
// for a hang, because ddprun's report says more. Throws ddp::ConfigError.
std::chrono::seconds WatchdogTimeout(const Getenv& getenv);

// ddp::Options::init_timeout, which is `given`, or its default: for connecting to a silent host.
// Only this process knows that the host is silent, so it does not wait for ddprun.
std::chrono::milliseconds ConnectTimeout(std::optional<std::chrono::milliseconds> given);
// init_timeout for ranks that have not joined. Throws ddp::ConfigError.
std::chrono::milliseconds JoinTimeout(std::optional<std::chrono::milliseconds> given,
                                      const Getenv& getenv);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_LAUNCH_ENVIRONMENT_H_
