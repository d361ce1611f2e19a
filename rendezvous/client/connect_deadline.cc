#include "rendezvous/client/connect_deadline.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/client/connect_error.h"
#include "rendezvous/wire/grpc_handoff.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kProbeLimit{500};

std::string Seconds(Duration duration) {
  return absl::StrCat(std::chrono::duration<double>(duration).count(), "s");
}

}  // namespace

class ConnectDeadline::Probe final
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::RendezvousMessage> {
 public:
  explicit Probe(ConnectDeadline* deadline) : deadline_(deadline) {}

  void Start() {
    context_.set_deadline(std::chrono::system_clock::now() + kProbeLimit);
    wire::HandToGrpc(this);
    deadline_->stub_->async()->Session(&context_, this);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadInitialMetadataDone(bool ok) override {
    wire::TakeFromGrpc(this);
    if (ok) Cancel();  // connected after all
  }
  void OnDone(const grpc::Status& status) override {
    wire::TakeFromGrpc(this);
    deadline_->OnProbed(status);
  }

 private:
  ConnectDeadline* const deadline_;  // owns the probe
  grpc::ClientContext context_;
};

ConnectDeadline::ConnectDeadline(v1::Rendezvous::Stub* stub, Options options)
    : stub_(stub), options_(std::move(options)) {}

ConnectDeadline::~ConnectDeadline() = default;

void ConnectDeadline::Start(Done done) {
  done_ = std::move(done);
  const auto deadline =
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(options_.limit);
  wire::HandToGrpc(this);
  alarm_.Set(deadline, [this](bool expired) { OnAlarm(expired); });
}

void ConnectDeadline::Cancel() {
  alarm_.Cancel();
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (probe_ != nullptr) probe_->Cancel();
}

void ConnectDeadline::OnAlarm(bool expired) {
  wire::TakeFromGrpc(this);
  {
    const std::lock_guard lock(mutex_);
    expired = expired && !cancelled_;
    if (expired && options_.waits) {
      probe_ = std::make_unique<Probe>(this);
      probe_->Start();  // calls OnProbed
      return;
    }
  }
  if (!expired) return done_(std::nullopt);
  done_(absl::StrCat("cannot reach the rendezvous at ", options_.endpoint, ": no answer within ",
                     Seconds(options_.limit)));
}

void ConnectDeadline::OnProbed(const grpc::Status& status) {
  const std::string& text = status.error_message();
  const bool explained = status.error_code() == grpc::StatusCode::UNAVAILABLE;
  done_(absl::StrCat("cannot reach the rendezvous at ", options_.endpoint, " within ",
                     Seconds(options_.limit), ": ", explained ? RootOfError(text) : "no answer",
                     explained && IsClosedByPeer(text) ? "; does it ask for TLS (--tls-ca)?" : ""));
}

}  // namespace ddprun
