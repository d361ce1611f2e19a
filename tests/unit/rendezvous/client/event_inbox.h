// Collects the events of a RendezvousClient, without Opened and Waiting, so that a test can wait
// for them. Thread-safe.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_EVENT_INBOX_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_EVENT_INBOX_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "rendezvous/client/rendezvous_client.h"

namespace ddprun {

// No event in these tests takes a second; the limit only makes a broken build fail instead of hang.
inline constexpr std::chrono::seconds kTestDeadline(20);

class EventInbox {
 public:
  RendezvousClient::Handler Handler() {
    return [this](RendezvousClient::Event event) {
      if (std::holds_alternative<RendezvousClient::Opened>(event)) return;
      // An agent is told to wait if its Join comes before others. These tests do not check the
      // order of the Joins.
      const auto* received = std::get_if<RendezvousClient::Received>(&event);
      if (received != nullptr && std::holds_alternative<Waiting>(received->message)) return;
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
      arrived_.notify_all();
    };
  }

  // Waits for the next event and takes it; nullopt: none arrived in time.
  std::optional<RendezvousClient::Event> Next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kTestDeadline, [this] { return !events_.empty(); })) {
      ADD_FAILURE() << "no event within the deadline";
      return std::nullopt;
    }
    RendezvousClient::Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  // Waits for the next event, which must be a message of type M.
  template <class M>
  M Expect(Header* header = nullptr) {
    const std::optional<RendezvousClient::Event> event = Next();
    if (!event) return {};
    if (const auto* lost = std::get_if<RendezvousClient::Lost>(&*event)) {
      ADD_FAILURE() << "lost: " << lost->reason;
      return {};
    }
    const auto& received = std::get<RendezvousClient::Received>(*event);
    const auto* message = std::get_if<M>(&received.message);
    if (message == nullptr) {
      ADD_FAILURE() << "another message came, number " << received.message.index();
      return {};
    }
    if (header != nullptr) *header = received.header;
    return *message;
  }

  // Waits for the next event, which must be Lost, and returns the reason.
  std::string ExpectLost() { return TakeLost().reason; }
  RendezvousClient::Lost TakeLost() {
    const std::optional<RendezvousClient::Event> event = Next();
    if (!event) return {};
    const auto* lost = std::get_if<RendezvousClient::Lost>(&*event);
    if (lost == nullptr) {
      ADD_FAILURE() << "a message came instead of Lost";
      return {};
    }
    return *lost;
  }

  bool empty() const {
    const std::lock_guard lock(mutex_);
    return events_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<RendezvousClient::Event> events_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_EVENT_INBOX_H_
