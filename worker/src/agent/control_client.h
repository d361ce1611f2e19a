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

// Sends messages to the agent. Send() never throws, blocks, or raises SIGPIPE: training must
// continue when the agent is slow, gone, or was never there. A message that cannot be sent at once
// is dropped.
//
// Any thread.
class ControlClient {
 public:
  // `path`: the agent's socket; empty: every Send() does nothing.
  explicit ControlClient(std::string path) : path_(std::move(path)) {}
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Sends one packet with the line key=value. Line breaks in `value` become spaces; the value is
  // cut to keep the packet within control::kMaxPacketBytes.
  void Send(std::string_view key, std::string_view value);

  // The number of SAVE=1 messages in this generation. Reads pending messages; does not wait.
  std::int64_t SaveRequests();

  // Sends STAYS=1: this process can leave its generation.
  void SendStays();
  bool stays() const { return stays_; }
  // True if LEAVE=1 was read in this generation.
  bool leaves() const { return leaves_; }
  // `on_leave` is called once when LEAVE=1 is read, or now if it was read before; on any thread,
  // and it must not call this object. Null: removes it; after that it is not running.
  void OnLeave(std::function<void()> on_leave);
  // Reads pending messages; does not wait.
  void Read();
  // For poll(): readable when a message arrives; -1: no connection.
  int descriptor();
  // Forgets SAVE=1 and LEAVE=1 of the last generation.
  void BeginGeneration();

  // The agent's pid; 0: not connected.
  int AgentPid();

  // For a warm standby: sends STANDBY=waiting, waits for GO=1, and returns the descriptors that
  // come with GO. Ends the process with exit code 0 if the agent goes away. Throws
  // std::runtime_error if the agent cannot be reached. Blocks; no other thread may read meanwhile.
  std::vector<ddprun::UniqueFd> WaitForGo();

  // The secret of this generation, 32 bytes, or "". Sends SECRET=1 and waits for the answer. Throws
  // std::runtime_error if none comes within `patience`. Blocks.
  std::string AskForSecret(std::chrono::milliseconds patience);

  // The descriptor of the progress page from the agent (control.h: PROGRESS), if the page has our
  // version; returned once. Waits at most for `patience`; not valid: none has come.
  ddprun::UniqueFd TakeProgressPage(std::chrono::milliseconds patience);

  // The client of this process, for DDPRUN_CONTROL_SOCKET. Never destroyed, so that errors can be
  // reported until the process ends.
  static ControlClient& Process();

 private:
  bool Connect();
  // Reads pending messages; does not wait. Counts SAVE, keeps the newest secret and progress page.
  void ReadAll();
  void Leave();
  // Waits until `has_come`, called with the mutex held, returns true, or no more messages can come.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline,
                 const std::function<bool()>& has_come);

  const std::string path_;
  std::atomic<bool> stays_{false};
  std::atomic<bool> leaves_{false};
  std::mutex mutex_;  // guards the members below; never held during a blocking call
  ddprun::UniqueFd fd_;
  std::int64_t save_requests_ = 0;
  std::optional<std::string> secret_;  // in hex
  ddprun::UniqueFd progress_page_;
  std::function<void()> on_leave_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_CONTROL_CLIENT_H_
