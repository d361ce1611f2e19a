#include "launcher/agent/master_store.h"

#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "launcher/log.h"
#include "launcher/os/local_address.h"
#include "launcher/os/port_holder.h"
#include "launcher/os/store_server.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

struct MasterStore::Board {
  std::mutex mutex;
  torch_store::Arrivals arrivals;  // guarded by mutex
};

struct MasterStore::Server {
  std::unique_ptr<StoreServer> server;  // null: none is open
};

namespace {

absl::StatusOr<std::unique_ptr<StoreServer>> Serve(std::optional<UniqueFd> held, int port,
                                                   StoreServer::Options options) {
  if (held) return StoreServer::Start(*std::move(held), std::move(options));
  auto bound = PortHolder::Bind("", port);
  if (!bound.ok()) return bound.status();
  return StoreServer::Start(bound->Take(), std::move(options));
}

}  // namespace

MasterStore::MasterStore(EventLoop* loop)
    : server_(std::make_shared<Server>()), off_loop_(loop, "ddprun-stores") {}

MasterStore::~MasterStore() = default;

void MasterStore::Open(const SupervisorActions::OpenStore& open,
                       std::function<void(const absl::Status&)> done) {
  world_size_ = open.world_size;
  board_ = std::make_shared<Board>();
  StoreServer::Options options;
  options.this_host_only = IsLoopback(open.master_addr);
  options.world_size = open.world_size;
  options.on_refused = [](const std::string& why) {
    LogWarning(absl::StrCat("the store disconnected a client: ", why));
  };
  options.on_arrivals = [board = board_](const torch_store::Arrivals& arrivals) {
    const std::lock_guard<std::mutex> lock(board->mutex);
    board->arrivals = arrivals;
  };
  off_loop_.Run(
      [server = server_, held = port_.Take(open.port), port = open.port,
       options = std::move(options)]() mutable -> absl::Status {
        server->server.reset();  // a configured MASTER_PORT is the same in each generation
        auto started = Serve(std::move(held), port, std::move(options));
        if (!started.ok()) return started.status();
        server->server = *std::move(started);
        return absl::OkStatus();
      },
      std::move(done));
}

void MasterStore::Close() {
  board_.reset();
  off_loop_.Run([server = server_] { server->server.reset(); });
}

std::optional<StoreArrivals> MasterStore::arrivals() const {
  if (board_ == nullptr) return std::nullopt;
  const std::lock_guard<std::mutex> lock(board_->mutex);
  StoreArrivals arrivals;
  arrivals.arrived = board_->arrivals.count(world_size_);
  if (arrivals.arrived == 0 || arrivals.arrived == world_size_) return std::nullopt;
  const auto missing = board_->arrivals.Missing(world_size_, StoreArrivals::kMostMissing);
  if (missing) {
    for (const int rank : *missing) arrivals.missing.push_back(Rank{rank});
  }
  return arrivals;
}

}  // namespace ddprun
