// A ProcessRunner that starts no process.
#ifndef DDPRUN_TESTS_UNIT_LAUNCHER_AGENT_FAKE_RUNNER_H_
#define DDPRUN_TESTS_UNIT_LAUNCHER_AGENT_FAKE_RUNNER_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/process/process_runner.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

inline constexpr pid_t kFirstPid = 1 << 30;  // no process has this pid

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

inline Pipe MakePipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The test decides how each exec ends: Execute() or FailToExecute().
class FakeRunner final : public ProcessRunner {
 public:
  absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest&) override {
    const auto end = EventLoop::Clock::now() + takes_;
    while (EventLoop::Clock::now() < end) continue;  // busy, not asleep
    if (calls_++ == refused_) {
      return absl::ResourceExhaustedError("no more processes");
    }
    Pipe ended = MakePipe();
    Pipe outcome = MakePipe();
    SpawnedProcess process;
    process.pid = pid_.value_or(kFirstPid + static_cast<pid_t>(outcomes_.size()));
    process.pidfd = std::move(ended.read_end);
    process.stdout_pipe = MakePipe().read_end;
    process.stderr_pipe = MakePipe().read_end;
    process.outcome_pipe = std::move(outcome.read_end);
    alive_.push_back(std::move(ended.write_end));
    outcomes_.push_back(std::move(outcome.write_end));
    return process;
  }
  absl::StatusOr<SpawnedProcess> Adopt(pid_t) override {
    return absl::UnimplementedError("nothing is forked here");
  }
  absl::Status SignalGroup(pid_t, int) override { return absl::OkStatus(); }
  absl::StatusOr<ExitStatus> Reap(int) override { return reap_; }
  absl::Status Discard(const SpawnedProcess& process) override {
    discarded_.push_back(process.pid - kFirstPid);
    return absl::OkStatus();
  }
  void SetFence(std::optional<std::chrono::steady_clock::time_point>) override {}
  absl::StatusOr<std::vector<pid_t>> EndOrphans(std::chrono::microseconds) override {
    return std::vector<pid_t>{};
  }

  void Execute(int worker) { outcomes_[worker].reset(); }
  void FailToExecute(int worker) {
    const char report[] = {static_cast<char>(absl::StatusCode::kNotFound), 'n', 'o'};
    EXPECT_EQ(::write(outcomes_[worker].get(), report, sizeof(report)), 3);
  }

  std::chrono::milliseconds takes_{0};  // how long each Spawn() takes
  int calls_ = 0;
  std::optional<pid_t> pid_;  // of the next processes; the test has started it
  int refused_ = -1;          // the call of Spawn() that fails
  absl::StatusOr<ExitStatus> reap_ = ExitStatus{};
  std::vector<UniqueFd> alive_;
  std::vector<UniqueFd> outcomes_;
  std::vector<int> discarded_;  // workers, in the order of their starts, from 0
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_LAUNCHER_AGENT_FAKE_RUNNER_H_
