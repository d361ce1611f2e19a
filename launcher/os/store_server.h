// StoreServer: the store of torch for one generation, on MASTER_PORT, on a thread of its own.
//
// Workers of all nodes connect to it as clients of torch's TCPStore. It begins empty, and ends with
// this object: then every client loses its connection.
//
// What clients ask for is handled in launcher/torch_store; here are the sockets. A client that does
// not read what it is sent is not read from, and is disconnected when too much waits for it.
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
    // With why a client was disconnected; the first kMaxRefusals times.
    std::function<void(const std::string& why)> on_refused = [](const std::string&) {};
    // When ranks have come to the store.
    std::function<void(const torch_store::Arrivals&)> on_arrivals =
        [](const torch_store::Arrivals&) {};
    bool this_host_only = false;  // clients of other hosts are disconnected at once
    int world_size = 0;           // of the generation; 0: not known
  };

  // Listens on `socket`, a TCP socket that is bound and does not listen, and serves from now on.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Start(UniqueFd socket, Options options);

  // Ends the thread. What clients were to be sent may be lost.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // Any thread: how many clients have sent something that the store understands.
  int clients_served() const;

 private:
  class Thread;

  explicit StoreServer(std::unique_ptr<Thread> thread);

  const std::unique_ptr<Thread> thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_STORE_SERVER_H_
