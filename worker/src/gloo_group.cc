#include "worker/src/gloo_group.h"

#include <ddp/errors.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/src/compat.h"
#include "worker/src/failure.h"
#include "worker/src/peers.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAround(20);  // between two looks whether another rank has failed
// To finish after one has. A rank that was connected and has left already is no failure.
constexpr milliseconds kGrace(500);

std::string AddressKey(int rank) { return "gloo/address/" + std::to_string(rank); }

// "[10.0.0.3]", as Gloo writes addresses into its errors too.
std::string AddressOf(const GlooDevices& devices) {
  const std::string text = devices.empty() ? "" : devices[0]->str();
  const std::size_t begin = text.rfind('[');
  const std::size_t end = text.rfind(']');
  return begin < end && end != std::string::npos ? text.substr(begin, end - begin + 1) : "";
}

// "; [10.0.0.3] is where rank 3 waits for others …", if the error is about a rank's address.
std::string WhoseAddress(const LaunchEnvironment& env, const std::string& error,
                         c10d::Store* store) {
  std::string ranks;
  std::string found;
  for (int rank = 0; rank < env.world_size; ++rank) {
    if (rank == env.rank || !store->check({AddressKey(rank)})) continue;
    const std::vector<std::uint8_t> bytes = store->get(AddressKey(rank));
    const std::string address(bytes.begin(), bytes.end());
    if (address.empty() || error.find(address) == std::string::npos) continue;
    found = address;
    ranks += (ranks.empty() ? "rank " : " or ") + std::to_string(rank);
  }
  if (found.empty()) return "";
  return "; " + found + " is where " + ranks +
         " waits for the others. It must be reachable from this host; GLOO_SOCKET_IFNAME on " +
         ranks + " chooses another network interface";
}

// What the connecting thread and the rank's own share. The thread may outlive the wait for it.
struct Attempt {
  LaunchEnvironment env;
  std::set<c10::DeviceType> device_types;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  bool done = false;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string error;  // why there is no group
};

void Connect(const std::shared_ptr<Attempt>& attempt) {
  const LaunchEnvironment& env = attempt->env;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string error;
  try {
    group = compat::AsProcessGroup<c10d::ProcessGroup>(
        c10::make_intrusive<c10d::ProcessGroupGloo>(attempt->store, env.rank, env.world_size,
                                                    attempt->options),
        attempt->store, attempt->device_types, /*is_nccl=*/false);
  } catch (const std::exception& e) {
    error = TextOf(e);
    try {
      error += WhoseAddress(env, error, attempt->store.get());
    } catch (const std::exception&) {
      // The store is gone as well.
    }
  }
  const std::lock_guard<std::mutex> lock(attempt->mutex);
  attempt->group = std::move(group);
  attempt->error = error;
  attempt->done = true;
  attempt->changed.notify_all();
}

std::string Seconds(milliseconds time) {
  std::ostringstream text;
  text << std::chrono::duration<double>(time).count() << " s";
  return text.str();
}

// Why this rank gives up, after telling the others where it is the first to know.
std::string Complaint(const std::string& error) {
  const std::shared_ptr<Peers> peers = ProcessPeers();
  if (peers == nullptr) return error + Cause();
  const std::string known = peers->KnownCause();
  if (!known.empty()) return error + ". " + known;
  peers->ReportError(error);
  peers->Ask();
  return error;
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> ConnectGloo(const LaunchEnvironment& env,
                                                   const Options& options, c10::Device device,
                                                   const GlooDevices& devices,
                                                   const c10::intrusive_ptr<c10d::Store>& store) {
  const std::string address = AddressOf(devices);
  store->set(AddressKey(env.rank), std::vector<std::uint8_t>(address.begin(), address.end()));
  const auto attempt = std::make_shared<Attempt>();
  attempt->env = env;
  attempt->device_types = {c10::kCPU, device.type()};
  attempt->store = store;
  attempt->options = c10d::ProcessGroupGloo::Options::create(options.timeout);
  attempt->options->devices = devices;
  attempt->options->threads = 2 * static_cast<int>(devices.size());
  std::thread thread(Connect, attempt);

  auto deadline = steady_clock::now() + options.init_timeout;
  const std::shared_ptr<Peers> peers = ProcessPeers();
  std::unique_lock<std::mutex> lock(attempt->mutex);
  std::string cause;
  while (!attempt->done && steady_clock::now() < deadline) {
    attempt->changed.wait_for(lock, kLookAround);
    if (attempt->done || peers == nullptr || !cause.empty()) continue;
    cause = peers->KnownCause();
    if (!cause.empty()) deadline = std::min(deadline, steady_clock::now() + kGrace);
  }
  const bool done = attempt->done;
  const std::string error = attempt->error;
  c10::intrusive_ptr<c10d::ProcessGroup> group = std::move(attempt->group);
  lock.unlock();
  if (done) {
    thread.join();
  } else {
    thread.detach();
  }
  if (group.defined()) return group;
  const std::string what = "connecting the ranks failed on rank " + std::to_string(env.rank) +
                           " of " + std::to_string(env.world_size) + ": ";
  if (done) throw CollectiveError(what + Complaint(error));
  if (!cause.empty()) throw CollectiveError(what + "another rank gave up. " + cause);
  throw CollectiveError(what +
                        Complaint("not connected to all within " + Seconds(options.init_timeout) +
                                  ", waiting for others at " + address));
}

}  // namespace ddp::internal
