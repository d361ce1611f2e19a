#include "worker/src/group/process_group.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <ddp/errors.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "worker/src/agent/control_client.h"
#include "worker/src/agent/launch_environment.h"
#include "worker/src/base/tcp.h"
#include "worker/src/compat/compat.h"
#include "worker/src/group/failure.h"
#include "worker/src/group/nccl_group.h"
#include "worker/src/peers/rank_failure_detector.h"

namespace ddp::internal {
namespace {

constexpr int kMissingRanksNamed = 16;

// The shortest timeout of one exchange with the store; some versions of libtorch count whole
// seconds. The wait for other ranks has another limit: JoinTimeout().
constexpr std::chrono::seconds kStoreTimeout(30);

constexpr char kAll[] = "ddp/joined/all";  // kWell once all have joined, or why a rank cannot join
constexpr char kWell[] = "well";
constexpr char kInformed[] = "ddp/joined/informed";  // number of ranks that know of the failure
constexpr std::chrono::seconds kLongestFarewell(10);

bool HostsStore(const LaunchEnvironment& env) { return env.rank == 0 && !env.agent_hosts_store; }

std::string JoinedKey(int rank) { return "ddp/joined/" + std::to_string(rank); }

// True if c10d could not listen. False if it could not connect to itself.
bool IsListenError(const std::string& reason) {
  return reason.find("server socket") != std::string::npos ||
         reason.find("ddress already in use") != std::string::npos;
}

// The ranks that have not joined, for example "rank 3, 5"; at most 16, followed by "and 5 more".
// Throws if the store is gone.
std::string MissingRanks(const LaunchEnvironment& env, c10d::Store* store) {
  std::string named;
  int missing = 0;
  for (int rank = 0; rank < env.world_size; ++rank) {
    if (store->check({JoinedKey(rank)})) continue;
    if (++missing > kMissingRanksNamed) continue;
    named += (named.empty() ? "rank " : ", ") + std::to_string(rank);
  }
  if (missing > kMissingRanksNamed) {
    named += " and " + std::to_string(missing - kMissingRanksNamed) + " more";
  }
  return named;
}

std::vector<std::uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

// Each rank that knows why the ranks cannot join calls this once. The store ends with rank 0's
// process. Therefore rank 0 waits until the other ranks, which may start later, know it too.
void LeaveStoreAfterFailure(const LaunchEnvironment& env, c10d::Store* store) {
  if (!HostsStore(env)) {
    store->add(kInformed, 1);
    return;
  }
  const auto deadline = std::chrono::steady_clock::now() + kLongestFarewell;
  while (store->add(kInformed, 0) < env.world_size - 1 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// Throws the ConfigError that all ranks will see.
[[noreturn]] void Contradiction(const LaunchEnvironment& env, const std::string& text,
                                c10d::Store* store) {
  RefuseToJoin(env, text, store);
  throw ConfigError("rank " + std::to_string(env.rank) + " cannot join: " + text);
}

// Announces this rank, and checks that its view agrees with the other ranks. Each check counts
// first and reads afterwards, so the last rank sees every difference.
void Join(const LaunchEnvironment& env, const std::string& transport, c10d::Store* store) {
  const std::string rank = std::to_string(env.rank);
  if (store->add(JoinedKey(env.rank), 1) != 1) {
    Contradiction(env, "another process has RANK=" + rank + " as well", store);
  }
  const std::string size_key = "world_size/" + std::to_string(env.world_size);
  const std::string backend_key = "backend/" + transport;
  store->add(size_key, 1);
  store->add(backend_key, 1);
  const std::int64_t joined = store->add("ddp/joined/count", 1);
  if (store->add(size_key, 0) < joined) {
    Contradiction(env,
                  "it has WORLD_SIZE=" + std::to_string(env.world_size) +
                      ", and another rank has a different one",
                  store);
  }
  if (store->add(backend_key, 0) < joined) {
    Contradiction(env,
                  "it is to use " + transport +
                      ", and another rank a different backend. Set Options::backend and "
                      "Options::device to the same on all ranks; auto depends on each node's "
                      "devices",
                  store);
  }
  if (joined == env.world_size) store->set(kAll, Bytes(kWell));
}

}  // namespace

std::string ChooseBackend(const std::string& wanted) {
  if (wanted == "auto") return kHasNccl && torch::cuda::is_available() ? "nccl" : "gloo";
  if (wanted == "gloo") return wanted;
  if (wanted != "nccl") {
    throw ConfigError("unknown backend '" + wanted + "', expected auto, gloo or nccl");
  }
  if (!kHasNccl) {
    throw ConfigError(
        "backend nccl was asked for, but this program was built without it: its libtorch has no "
        "CUDA or NCCL (CMake option DDPRUN_NCCL). Use gloo or auto");
  }
  if (!torch::cuda::is_available()) {
    throw ConfigError("backend nccl was asked for, but this node has no usable CUDA device");
  }
  return wanted;
}

c10::Device ChooseDevice(const std::string& wanted, const std::string& backend,
                         const LaunchEnvironment& env) {
  const bool nccl = backend == "nccl";
  if (wanted != "auto" && wanted != "cpu" && wanted != "cuda") {
    throw ConfigError("unknown device '" + wanted + "', expected auto, cpu or cuda");
  }
  if (nccl && wanted == "cpu") throw ConfigError("device cpu was asked for, and nccl has no CPU");
  if (!nccl && wanted != "cuda") return c10::Device(c10::kCPU);
  if (!torch::cuda::is_available()) {
    throw ConfigError("device cuda was asked for, but this node has no usable CUDA device");
  }
  const auto count = static_cast<int>(torch::cuda::device_count());
  // NCCL lets ranks share a device if NCCL_HOSTID differs between them.
  if (nccl && env.local_rank >= count && std::getenv("NCCL_HOSTID") == nullptr) {
    throw ConfigError("LOCAL_RANK=" + std::to_string(env.local_rank) + " but this node has only " +
                      std::to_string(count) +
                      " usable CUDA device(s). Start at most that many workers per node");
  }
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(env.local_rank % count));
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(device);
  return device;
}

c10::intrusive_ptr<c10d::Store> MakeStore(const LaunchEnvironment& env, const Options& options) {
  c10::intrusive_ptr<c10d::Store> store;
  if (env.world_size == 1) {
    store = c10::make_intrusive<c10d::HashStore>();
  } else {
    const bool hosts = HostsStore(env);
    c10d::TCPStoreOptions store_options;
    store_options.port = env.master_port;
    store_options.isServer = hosts;
    store_options.waitWorkers = false;
    const std::chrono::milliseconds join = JoinTimeout(options.init_timeout, std::getenv);
    store_options.timeout = std::max<std::chrono::milliseconds>(join, kStoreTimeout);
    compat::UseBuiltinStoreServer(&store_options);
    if (!hosts) {
      WaitForListener(env.master_addr, env.master_port, ConnectTimeout(options.init_timeout), join,
                      [] { return ControlClient::Process().leaves(); });
    }
    try {
      store = c10::make_intrusive<c10d::TCPStore>(env.master_addr, store_options);
    } catch (const std::exception& e) {
      const std::string where = env.master_addr + ":" + std::to_string(env.master_port);
      const std::string reason = TextOf(e);
      if (hosts && IsListenError(reason)) {
        throw BindError("rank 0 cannot listen on MASTER_PORT " + std::to_string(env.master_port) +
                        " (MASTER_ADDR " + env.master_addr + "): " + reason +
                        " Another process may have the port; choose another one");
      }
      throw CollectiveError("cannot join rank 0 at " + where + ": " + reason);
    }
  }
  return c10::make_intrusive<c10d::PrefixStore>("ddp/generation_" + std::to_string(env.generation),
                                                store);
}

bool GroupsCarryBoth() { return compat::kHasBackends<c10d::ProcessGroup>; }

GlooDevices MakeGlooDevices(const LaunchEnvironment& env) {
  using c10d::ProcessGroupGloo;
  GlooDevices devices;
  const char* const interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (interfaces == nullptr || *interfaces == '\0') {
    const std::string master = env.master_addr.empty() ? "127.0.0.1" : env.master_addr;
    return {std::make_shared<AbortableDevice>(
        [&] { return ProcessGroupGloo::createDeviceForHostname(LocalAddressTowards(master)); })};
  }
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) {
    try {
      devices.push_back(std::make_shared<AbortableDevice>(
          [&] { return ProcessGroupGloo::createDeviceForInterface(name); }));
    } catch (const std::exception& e) {
      throw ConfigError("GLOO_SOCKET_IFNAME=" + std::string(interfaces) + ": interface '" + name +
                        "' cannot be used on this host: " + TextOf(e));
    }
  }
  return devices;
}

void RefuseToJoin(const LaunchEnvironment& env, const std::string& reason, c10d::Store* store) {
  try {
    store->set(kAll, Bytes("rank " + std::to_string(env.rank) + " cannot join: " + reason));
    LeaveStoreAfterFailure(env, store);
  } catch (const std::exception&) {
    // Rank 0 is gone; the other ranks will end too.
  }
}

void WaitForAllRanks(const LaunchEnvironment& env, const Options& options,
                     const std::string& backend, c10::Device device, const std::string& address,
                     c10d::Store* store) {
  try {
    store->set(AddressKey(env.rank), Bytes(address));
    Join(env, backend == "gloo" && device.is_cuda() ? "gloo on CUDA" : backend, store);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw CollectiveError("lost rank 0 at " + env.master_addr + ":" +
                          std::to_string(env.master_port) + " while joining it: " + TextOf(e));
  }
  const std::chrono::milliseconds timeout = JoinTimeout(options.init_timeout, std::getenv);
  try {
    store->wait({kAll}, timeout);
  } catch (const std::exception& e) {
    std::string missing;
    try {
      missing = MissingRanks(env, store);
    } catch (const std::exception&) {
      missing = "unknown, because rank 0 is gone as well";
    }
    const auto seconds = std::chrono::duration<double>(timeout).count();
    std::ostringstream text;
    text << "not all " << env.world_size << " ranks joined rank 0 at " << env.master_addr << ":"
         << env.master_port << " within " << seconds << " s; missing: " << missing << " ("
         << TextOf(e) << ")";
    throw CollectiveError(text.str());
  }
  std::string all;
  try {
    const std::vector<std::uint8_t> bytes = store->get(kAll);
    all.assign(bytes.begin(), bytes.end());
    if (all != kWell) LeaveStoreAfterFailure(env, store);
  } catch (const std::exception& e) {
    throw CollectiveError("lost rank 0 at " + env.master_addr + ":" +
                          std::to_string(env.master_port) + " while joining it: " + TextOf(e));
  }
  if (all != kWell) throw CollectiveError("the ranks do not come together: " + all);
}

Group MakeGroup(const LaunchEnvironment& env, const Options& options, const std::string& backend,
                c10::Device device, const GlooDevices& gloo_devices,
                const c10::intrusive_ptr<c10d::Store>& store) {
  Group result;
  Collective("connecting the ranks", env.rank, env.world_size, [&] {
    if (backend == "gloo") {
      result.group = ConnectGloo(env, options, device, gloo_devices, store);
      result.carries_cpu_tensors = true;
      return;
    }
    // A rank that waits here must be told of a loss.
    if (const auto detector = ProcessFailureDetector()) detector->WatchForLoss(nullptr);
    NcclGroup nccl = ConnectNccl(env, options, device, store);
    result.group = nccl.group;
    result.abort = std::move(nccl.abort);
    result.failed = std::move(nccl.failed);
    result.leave = std::move(nccl.leave);
    if (!GroupsCarryBoth()) return;
    const auto gloo = ConnectGloo(env, options, c10::Device(c10::kCPU), gloo_devices, store);
    compat::CarryAs(*result.group, c10::kCPU, *gloo);
    result.carries_cpu_tensors = true;
  });
  return result;
}

}  // namespace ddp::internal
