#include "launcher/connection/in_process_client.h"

#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {

// The rendezvous's end of the session.
class InProcessClient::Stream final : public AgentStream {
 public:
  explicit Stream(Handler handler) : handler_(std::move(handler)) {}

  void Send(const Header& header, const RendezvousMessage& message) override {
    Tell(Received{header, message});
  }
  void RequestMessage() override {}
  void Close(const absl::Status& status) override {
    Lost lost;
    lost.reason = absl::StrCat("the rendezvous in this process has ended the session: ",
                               std::string(status.message()));
    Tell(std::move(lost));
    Mute();
  }
  std::string Peer() const override { return "this process"; }
  const std::string& Principal() const override { return nobody_; }
  void CountRefusal(const char*, const absl::Status&) override {}

  void Tell(Event event) {
    const std::lock_guard lock(mutex_);
    if (handler_) handler_(std::move(event));
  }
  // The handler is not called any more when this returns.
  void Mute() {
    const std::lock_guard lock(mutex_);
    handler_ = nullptr;
  }

 private:
  const std::string nobody_;
  std::mutex mutex_;
  Handler handler_;  // guarded by mutex_; null: closed
};

void InProcessClient::Open(Handler handler) {
  stream_ = std::make_shared<Stream>(std::move(handler));
  stream_->Tell(Opened{});
  loop_->OnOpen(stream_);
}

void InProcessClient::Send(const Header& header, const AgentMessage& message) {
  if (stream_ != nullptr) loop_->OnMessage(stream_, header, message);
}

void InProcessClient::Close() {
  if (stream_ == nullptr) return;
  stream_->Mute();
  loop_->OnEnd(std::exchange(stream_, nullptr), absl::OkStatus());
}

}  // namespace ddprun
