// Whether every address of an endpoint refuses connections. Internal to this folder.
//
// gRPC reports only the last address that it tried. One address may refuse while another is silent.
// Behind the silent address, the rendezvous may be alive and keep the agent's ranks.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_REFUSAL_CHECK_H_
#define DDPRUN_RENDEZVOUS_CLIENT_REFUSAL_CHECK_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace ddprun {

// True: the endpoint is a numeric address or a Unix socket, so one attempt covers every address.
bool IsOneAddress(const std::string& endpoint);

// Blocks for the name server, and for at most `limit` for the connections. False if the name has no
// address, or if any address accepts the connection, is silent, or cannot be reached. Exception:
// ::1 on a host without IPv6 or without this address counts as refusing.
bool EveryAddressRefuses(const std::string& endpoint, std::chrono::milliseconds limit);

// The same on a thread of its own.
class RefusalCheck {
 public:
  // `done` is called once on that thread, unless Cancel comes first.
  static std::shared_ptr<RefusalCheck> Start(std::string endpoint, std::chrono::milliseconds limit,
                                             std::function<void(bool everywhere)> done);
  // `done` is not called from now on. If `done` is running, waits for its end, and for nothing
  // else.
  void Cancel();

 private:
  explicit RefusalCheck(std::function<void(bool)> done) : done_(std::move(done)) {}

  std::mutex mutex_;
  std::function<void(bool)> done_;  // empty: cancelled
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_REFUSAL_CHECK_H_
