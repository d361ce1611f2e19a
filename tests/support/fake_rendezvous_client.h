// FakeRendezvousClient: a RendezvousClient for tests; the test is its rendezvous. It records the
// agent's messages and passes the test's messages to the agent. Everything happens on the test's
// thread.
#ifndef DDPRUN_TESTS_SUPPORT_FAKE_RENDEZVOUS_CLIENT_H_
#define DDPRUN_TESTS_SUPPORT_FAKE_RENDEZVOUS_CLIENT_H_

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/check.h"

namespace ddprun {

class FakeRendezvousClient final : public RendezvousClient {
 public:
  struct Sent {
    Header header;
    AgentMessage message;
  };

  void Open(Handler handler) override {
    DDPRUN_CHECK(!opened_, "a client is opened once");
    opened_ = true;
    handler_ = std::move(handler);
  }

  void Send(const Header& header, const AgentMessage& message) override {
    DDPRUN_CHECK(opened_, "a client is opened before it is used");
    if (!closed_ && !lost_) sent_.push_back({header, message});
  }

  void Close() override { closed_ = true; }

  // ---- for the test ----

  void Connect() {
    DDPRUN_CHECK(opened_ && !closed_ && !lost_, "only a session that was asked for opens");
    handler_(Opened{});
  }

  void Deliver(const Header& header, RendezvousMessage message) {
    DDPRUN_CHECK(opened_ && !closed_ && !lost_, "only an open session delivers");
    handler_(Received{header, std::move(message)});
  }

  void Lose(std::string reason, bool refused = false, TimePoint attempt_started_at = {}) {
    DDPRUN_CHECK(opened_ && !closed_ && !lost_, "only an open session is lost");
    lost_ = true;
    handler_(Lost{std::move(reason), refused, attempt_started_at});
  }

  bool opened() const { return opened_; }
  bool closed() const { return closed_; }
  // What was sent before Close() and Lose(), oldest first.
  const std::vector<Sent>& sent() const { return sent_; }

 private:
  Handler handler_;
  std::vector<Sent> sent_;
  bool opened_ = false;
  bool closed_ = false;
  bool lost_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_FAKE_RENDEZVOUS_CLIENT_H_
