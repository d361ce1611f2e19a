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

// Sends messages to the agent. Send() never throws, blocks, or raises SIGPIPE: training must go on
// when the agent is slow, gone, or was never there. What cannot be sent at once is dropped.
//
// Any thread.
class ControlClient {
 public:
  // `path`: of the agent's socket; empty: every Send() does nothing.
  explicit ControlClient(std::string path) : path_(std::move(path)) {}
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // One packet with the line key=value. Line breaks in `value` become spaces, and it is cut where
  // the packet would exceed control::kMaxPacketBytes.
  void Send(std::string_view key, std::string_view value);

  // How often the agent has said SAVE=1 in this generation. Reads what has come, and waits for
  // nothing.
  std::int64_t SaveRequests();

  // Says STAYS=1: this process can leave its generation.
  void SendStays();
  bool stays() const { return stays_; }
  // Whether the agent has said LEAVE=1 in this generation, as far as anybody has read it.
  bool leaves() const { return leaves_; }
  // `on_leave` is called once that is read, at once if it was before; by any thread, and it must
  // not call this object. Null: no more, and it is not being called.
  void OnLeave(std::function<void()> on_leave);
  // Reads what has come, and waits for nothing.
  void Read();
  // What can be polled for more of it; -1: there is no connection.
  int descriptor();
  // What SAVE=1 and LEAVE=1 were about is over.
  void BeginGeneration();

  // The agent's process; 0: it is not connected.
  int AgentPid();

  // For a warm standby: says STANDBY=waiting, and waits for GO=1 and the descriptors that come with
  // it, which it returns. Ends the process, with exit code 0, when the agent goes away. Throws
  // std::runtime_error when the agent cannot be reached at all. This call blocks; no other thread
  // may read meanwhile.
  std::vector<ddprun::UniqueFd> WaitForGo();

  // The secret of this generation, 32 bytes, or "". Says SECRET=1 and waits for the answer. Throws
  // std::runtime_error when none comes within `patience`. This call blocks.
  std::string AskForSecret(std::chrono::milliseconds patience);

  // The descriptor of the progress page that the agent has sent (control.h: PROGRESS), if its
  // version is ours; once. Waits for it, at most for `patience`; not valid: none has come.
  ddprun::UniqueFd TakeProgressPage(std::chrono::milliseconds patience);

  // The client of this process, for DDPRUN_CONTROL_SOCKET. Never destroyed, so that errors can
  // be reported until the very end.
  static ControlClient& Process();

 private:
  bool Connect();
  // What has come; waits for nothing. Counts SAVE, keeps the newest secret and progress page.
  void ReadAll();
  void Leave();
  // Waits until `has_come`, which is asked with the mutex held, or nothing more can come.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline,
                 const std::function<bool()>& has_come);

  const std::string path_;
  std::atomic<bool> stays_{false};
  std::atomic<bool> leaves_{false};
  std::mutex mutex_;  // guards what follows; held while nothing blocks
  ddprun::UniqueFd fd_;
  std::int64_t save_requests_ = 0;
  std::optional<std::string> secret_;  // in hex
  ddprun::UniqueFd progress_page_;
  std::function<void()> on_leave_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_CONTROL_CLIENT_H_
