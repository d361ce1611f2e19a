// The worker's end of the control socket (worker/contract/control.h).
#ifndef DDPRUN_WORKER_SRC_AGENT_CONTROL_CLIENT_H_
#define DDPRUN_WORKER_SRC_AGENT_CONTROL_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {

// Sends messages to the agent. Send() never throws, never raises SIGPIPE, and never waits for the
// agent, because training must continue when the agent is slow, gone, or never existed. If a
// message cannot be sent at once, Send() drops it.
//
// Any thread.
class ControlClient {
 public:
  // `path` is the agent's socket. Empty: every Send() does nothing.
  explicit ControlClient(std::string path) : path_(std::move(path)) {}
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Sends one packet with the line key=value. Line breaks in `value` become spaces. A packet longer
  // than control::kMaxPacketBytes is cut.
  void Send(std::string_view key, std::string_view value);

  // How many SAVE=1 messages came in this generation. Reads pending messages; does not wait.
  std::int64_t SaveRequests();

  // Sends STAYS=1: this process can leave its generation without exiting.
  void SendStays();
  bool stays() const { return stays_; }
  // True if LEAVE=1 was read in this generation.
  bool leaves() const { return leaves_; }
  // Calls `on_leave` once per generation: when a thread reads LEAVE=1, on that thread; or now, if
  // LEAVE=1 was read before. `on_leave` must not call this object. Other threads that call this
  // object wait until `on_leave` returns. Null removes the function; when OnLeave() returns, the
  // old function no longer runs.
  void OnLeave(std::function<void()> on_leave);
  // Reads pending messages; does not wait.
  void Read();
  // For poll(): the descriptor is readable when a message arrives. -1: no connection.
  int descriptor();
  // Call it when a new generation begins. Forgets SAVE=1, LEAVE=1 and the progress page of the
  // previous generation.
  void BeginGeneration();

  // The agent's pid; 0: not connected.
  int AgentPid();

  // For a warm standby (a process that waits to become a worker): sends STANDBY=waiting, waits for
  // GO=1, and returns the descriptors that come with GO. If the agent goes away, ends the process
  // with exit code 0. Throws std::runtime_error if the agent cannot be reached. Blocks; no other
  // thread may read meanwhile.
  std::vector<ddprun::UniqueFd> WaitForGo();

  // The secret of this generation: 32 bytes, or "". Sends SECRET=1 and blocks until the answer.
  // Throws std::runtime_error if no answer comes within `patience`.
  std::string AskForSecret(std::chrono::milliseconds patience);

  // The descriptor of the progress page that the agent sent (control.h: PROGRESS). Ignores a page
  // of another version. Returns each page once. Waits for at most `patience`; not valid: no page
  // has come.
  ddprun::UniqueFd TakeProgressPage(std::chrono::milliseconds patience);

  // The client of this process; it uses DDPRUN_CONTROL_SOCKET. Never destroyed, so the process can
  // report errors until it ends.
  static ControlClient& Process();

 private:
  bool Connect();
  // Reads pending messages; does not wait. Counts SAVE, and keeps the newest secret and progress
  // page.
  void ReadAll();
  void Leave();
  // Waits until `has_come` returns true, until `deadline`, or until no more messages can come.
  // `has_come` is called with the mutex held.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline,
                 const std::function<bool()>& has_come);

  const std::string path_;
  std::atomic<bool> stays_{false};
  std::atomic<bool> leaves_{false};
  std::mutex mutex_;  // guards the members below; only on_leave_ may block while it is held
  ddprun::UniqueFd fd_;
  std::int64_t save_requests_ = 0;
  std::optional<std::string> secret_;  // in hex
  ddprun::UniqueFd progress_page_;
  std::function<void()> on_leave_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_CONTROL_CLIENT_H_
