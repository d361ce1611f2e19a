#include "launcher/connection/own_rendezvous.h"

#include <sys/epoll.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "launcher/connection/in_process_client.h"
#include "launcher/log.h"
#include "rendezvous/service/job/event_log.h"

namespace ddprun {

absl::StatusOr<std::unique_ptr<OwnRendezvous>> OwnRendezvous::Start(const std::string& listen,
                                                                    const std::string& version,
                                                                    EventLoop* loop) {
  RendezvousServer::Options options;
  options.listen = listen;
  // It is stopped and continued together with its only agent (Ctrl-Z), so silence means nothing.
  options.machine.leases = false;
  options.events = std::make_shared<EventLog>(EventLog::Options{});
  options.kept_log_bytes = 0;  // it does not outlive its agent
  options.version = version;
  options.log = [](std::string_view, std::string_view text) { LogDebug(std::string(text)); };
  auto server = RendezvousServer::Create(std::move(options));
  if (!server.ok()) return absl::InternalError(server.status().message());
  return std::unique_ptr<OwnRendezvous>(new OwnRendezvous(*std::move(server), loop));
}

OwnRendezvous::OwnRendezvous(std::unique_ptr<RendezvousServer> server, EventLoop* loop)
    : server_(std::move(server)), loop_(loop) {
  loop_->Watch(server_->listener(), EPOLLIN, [this](std::uint32_t) { Serve(); });
}

OwnRendezvous::~OwnRendezvous() {
  if (starts_grpc_.joinable()) {
    starts_grpc_.join();
  } else {
    loop_->Unwatch(server_->listener());
  }
}

std::unique_ptr<RendezvousClient> OwnRendezvous::MakeClient() {
  return std::make_unique<InProcessClient>(&server_->loop());
}

void OwnRendezvous::Serve() {
  loop_->Unwatch(server_->listener());
  starts_grpc_ = std::thread([server = server_.get()] {
    if (const absl::Status served = server->Serve(); !served.ok()) LogWarning(served.message());
  });
}

}  // namespace ddprun
