#include "rendezvous/service/leadership/peer_link.h"

#include <pthread.h>

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/grpc_log.h"
#include "rendezvous/service/leadership/leading.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kPause{100};

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& endpoint, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);  // for one attempt to connect
  // Ends the call to a host that lost its power or its network. Then the call is tried again.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 1000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(endpoint, credentials, arguments);
}

// gRPC has no status code for a refused connection.
bool IsRefused(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "Connection refused");
}

}  // namespace

PeerLink::PeerLink(Credentials credentials, Report report)
    : credentials_(std::move(credentials)), report_(std::move(report)) {
  auth::QuietGrpc();
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "ddprun-peer");
}

PeerLink::~PeerLink() {
  {
    const std::lock_guard lock(mutex_);
    shutdown_ = true;
    if (context_ != nullptr) context_->TryCancel();
    wake_.notify_one();
  }
  thread_.join();
}

void PeerLink::Watch(std::string endpoint) {
  const std::lock_guard lock(mutex_);
  if (endpoint == endpoint_) return;
  endpoint_ = std::move(endpoint);
  ++watched_;
  if (context_ != nullptr) context_->TryCancel();
  wake_.notify_one();
}

void PeerLink::Run() {
  std::unique_lock lock(mutex_);
  while (!shutdown_) {
    if (endpoint_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const std::string endpoint = endpoint_;
    const std::uint64_t watched = watched_;
    const auto changed = [this, watched] { return shutdown_ || watched_ != watched; };
    grpc::Status status = Follow(lock, endpoint);
    if (changed()) continue;
    if (!IsRefused(status)) status = Follow(lock, endpoint);
    if (changed()) continue;
    if (IsRefused(status)) Tell(lock, Leadership::PeerRefused{endpoint});
    wake_.wait_for(lock, kPause, changed);
  }
}

void PeerLink::Tell(std::unique_lock<std::mutex>& lock, Leadership::Event event) {
  lock.unlock();
  report_(std::move(event));
  lock.lock();
}

grpc::Status PeerLink::Follow(std::unique_lock<std::mutex>& lock, const std::string& endpoint) {
  grpc::ClientContext context;
  context_ = &context;
  lock.unlock();
  grpc::Status status;
  {
    const auto stub = v1::Rendezvous::NewStub(MakeChannel(endpoint, credentials_()));
    v1::FollowRequest request;
    request.set_interval_ms(kInterval.count());
    const auto reader = stub->Follow(&context, request);
    v1::Leading message;
    while (reader->Read(&message)) {
      const auto role = static_cast<Leading::Role>(message.role());
      if (role == Leading::Role::kLeads || role == Leading::Role::kTakesUp) {
        report_(Leadership::PeerHeard{endpoint});
      } else if (role == Leading::Role::kHandsOver) {
        report_(Leadership::PeerResigns{endpoint});
      }
    }
    status = reader->Finish();
  }
  lock.lock();
  context_ = nullptr;
  return status;
}

}  // namespace ddprun
