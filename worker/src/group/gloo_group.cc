#include "worker/src/group/gloo_group.h"

#include <cstdint>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/compat/compat.h"
#include "worker/src/group/connect_with_deadline.h"
#include "worker/src/group/failure.h"
#include "worker/src/group/gloo_loops.h"
#include "worker/src/group/recorded_group.h"

namespace ddp::internal {
namespace {

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("::1");
}

// Names the ranks whose address the error contains, for example "; [10.0.0.3] is where rank 3 waits
// for the others. ...". Newer versions of Gloo name no address. Then names the ranks with a
// loopback address, which other hosts cannot reach. Empty: there are no such ranks.
std::string WhoseAddress(const LaunchEnvironment& env, const std::string& error,
                         c10d::Store* store) {
  std::map<std::string, std::string> ranks;  // by address
  std::string named;
  std::string loopback;
  for (int rank = 0; rank < env.world_size; ++rank) {
    if (rank == env.rank || !store->check({AddressKey(rank)})) continue;
    const std::vector<std::uint8_t> bytes = store->get(AddressKey(rank));
    const std::string address(bytes.begin(), bytes.end());
    std::string& here = ranks[address];
    here += (here.empty() ? "rank " : " or ") + std::to_string(rank);
    if (error.find("[" + address + "]") != std::string::npos) named = address;
    if (IsLoopback(address)) loopback = address;
  }
  const std::string& found = named.empty() ? loopback : named;
  if (found.empty()) return "";
  return "; [" + found + "] is where " + ranks[found] +
         " waits for the others. It must be reachable from this host; GLOO_SOCKET_IFNAME on " +
         ranks[found] + " chooses another network interface";
}

}  // namespace

void EndCollectives(const GlooDevices& devices) {
  for (const auto& device : devices) device->Abort();
}

std::string AddressKey(int rank) { return "ddp/address/" + std::to_string(rank); }

// Gloo writes "tcp, pci=, iface=eth0, speed=0, addr=[10.0.0.3]". A link-local address also needs
// the interface.
std::string AddressOf(const GlooDevices& devices) {
  const std::string text = devices.at(0)->str();
  const std::size_t begin = text.rfind('[') + 1;
  const std::string address = text.substr(begin, text.rfind(']') - begin);
  const std::size_t interface = text.find("iface=");
  if (!address.starts_with("fe80:") || interface == std::string::npos) return address;
  const std::size_t name = interface + std::string("iface=").size();
  return address + "%" + text.substr(name, text.find(',', name) - name);
}

c10::intrusive_ptr<c10d::ProcessGroup> ConnectGloo(const LaunchEnvironment& env,
                                                   const Options& options, c10::Device device,
                                                   const GlooDevices& devices,
                                                   const c10::intrusive_ptr<c10d::Store>& store) {
  const std::string address = AddressOf(devices);
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>("ddp/gloo", store);
  const auto group_options = c10d::ProcessGroupGloo::Options::create(*options.timeout);
  group_options->devices.assign(devices.begin(), devices.end());
  group_options->threads = 2 * static_cast<int>(devices.size());
  const std::set<c10::DeviceType> device_types = {c10::kCPU, device.type()};
  const GlooHaste haste;
  return ConnectWithDeadline(
      env, ConnectTimeout(options.init_timeout), ", waiting for others at [" + address + "]",
      [env, store, own_store, group_options, device_types, devices] {
        try {
          const auto made =
              compat::MakeProcessGroup<c10d::ProcessGroup, c10d::ProcessGroupGloo, RecordedGroup>(
                  own_store, env.rank, env.world_size, group_options, device_types,
                  /*is_nccl=*/false);
          for (const auto& device : devices) device->Connected();
          // A rank that is connected could end before another rank has noticed its connection. Gloo
          // would then take the connection for lost. So all ranks wait for each other here. This
          // barrier is not recorded, because the program did not ask for it.
          made.backend->c10d::ProcessGroupGloo::barrier()->wait();
          return made.group;
        } catch (const std::exception& e) {
          const std::string error = TextOf(e);
          std::string whose;
          try {
            whose = WhoseAddress(env, error, store.get());
          } catch (const std::exception&) {
            // The store is gone too.
          }
          throw std::runtime_error(error + whose);
        }
      });
}

}  // namespace ddp::internal
