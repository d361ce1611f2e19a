// The fixture of tests of JobLoop, and streams that record what the loop does with them.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_FIXTURE_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_FIXTURE_H_

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/service/job/job_loop.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {

// Records what the loop does with a stream.
class FakeStream final : public AgentStream {
 public:
  void Send(const Header& header, const RendezvousMessage& message) override {
    if (on_send) on_send(message);
    Change([&] {
      sent_.push_back(message);
      headers_.push_back(header);
    });
  }
  void RequestMessage() override {
    Change([&] { ++requested_; });
  }
  void Close(const absl::Status& status) override {
    Change([&] { closed_ = status; });
  }
  std::string Peer() const override { return "test:1"; }
  const std::string& Principal() const override { return principal_; }
  void CountRefusal(const char* reason, const absl::Status&) override {
    Change([&] { refused_for_ = reason; });
  }

  explicit FakeStream(std::string principal = "") : principal_(std::move(principal)) {}

  // Called by Send, on any thread. Set it while nothing is sent.
  std::function<void(const RendezvousMessage&)> on_send;

  template <class M>
  bool WaitFor() {
    return Wait([&] { return !sent_.empty() && std::holds_alternative<M>(sent_.back()); });
  }
  bool WaitForRequests(int count) {
    return Wait([&] { return requested_ >= count; });
  }
  absl::Status WaitForClose() {
    EXPECT_TRUE(Wait([&] { return closed_.has_value(); }));
    const std::lock_guard lock(mutex_);
    return closed_.value_or(absl::InternalError("not closed"));
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_.has_value();
  }
  std::string refused_for() const {
    const std::lock_guard lock(mutex_);
    return refused_for_;
  }
  std::vector<RendezvousMessage> sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  // The headers of all sent messages.
  std::vector<Header> headers() const {
    const std::lock_guard lock(mutex_);
    return headers_;
  }

 private:
  template <class F>
  void Change(F change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <class F>
  bool Wait(F condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestDeadline, condition);
  }

  const std::string principal_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string refused_for_;
  std::vector<RendezvousMessage> sent_;
  std::vector<Header> headers_;
  int requested_ = 0;
  std::optional<absl::Status> closed_;
};

class JobLoopTest : public testing::Test {
 protected:
  std::shared_ptr<FakeStream> Open(const std::string& principal = "") {
    auto stream = std::make_shared<FakeStream>(principal);
    loop_->OnOpen(stream);
    return stream;
  }
  std::shared_ptr<FakeStream> Joined(const std::string& job, std::uint64_t agent_id, int nodes = 1,
                                     const std::string& principal = "") {
    std::shared_ptr<FakeStream> stream = Open(principal);
    loop_->OnMessage(stream, HeaderOf(job, agent_id, -1),
                     JoinOf(absl::StrCat("n", agent_id), nodes));
    return stream;
  }
  void Restart(JobMachineOptions machine) { loop_ = std::make_unique<JobLoop>(Options(machine)); }
  JobLoopOptions Options(JobMachineOptions machine) {
    JobLoopOptions options;
    options.machine = machine;
    options.log = [this](std::string_view job, std::string_view text) {
      const std::lock_guard lock(log_mutex_);
      log_.append(job).append(": ").append(text).append("\n");
    };
    return options;
  }
  std::string log() {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }

  std::mutex log_mutex_;
  std::string log_;
  // No lease, so that no test depends on the load of the machine.
  std::unique_ptr<JobLoop> loop_ = std::make_unique<JobLoop>(Options({.leases = false}));
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_FIXTURE_H_
