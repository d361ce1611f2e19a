// StoreServer: torch's store for one generation, on MASTER_PORT, with its own thread.
//
// Workers of all nodes connect with torch's TCPStore client. The store begins empty. The destructor
// closes all connections.
//
// launcher/torch_store handles the requests; this class handles the sockets. It stops reading from
// a client that does not read its replies. While more than 256 MiB of replies are unsent, it
// disconnects each client whose next reply cannot be sent at once.
#ifndef DDPRUN_LAUNCHER_OS_STORE_SERVER_H_
#define DDPRUN_LAUNCHER_OS_STORE_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/torch_store/arrivals.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class StoreServer {
 public:
  static constexpr int kMaxRefusals = 5;
  static constexpr std::size_t kMaxClients = 64UL << 10U;

  // The functions are called on the server's thread.
  struct Options {
    // Gets why a client was disconnected or not accepted; only the first kMaxRefusals times.
    std::function<void(const std::string& why)> on_refused = [](const std::string&) {};
    // Called when ranks have connected to the store.
    std::function<void(const torch_store::Arrivals&)> on_arrivals =
        [](const torch_store::Arrivals&) {};
    bool this_host_only = false;  // clients of other hosts are disconnected at once
    int world_size = 0;           // of the generation; 0: unknown
  };

  // Listens on `socket`, a bound TCP socket that does not listen yet, and serves from now on.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Start(UniqueFd socket, Options options);

  // Ends the thread. Unsent replies may be lost.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // The number of clients whose first bytes were accepted. Any thread.
  int clients_served() const;

 private:
  class Thread;

  explicit StoreServer(std::unique_ptr<Thread> thread);

  const std::unique_ptr<Thread> thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_STORE_SERVER_H_
