// StoreClients: the store at the level of its clients' bytes.
//
// Pure. Keeps the bytes of incomplete requests, within a bound.
#ifndef DDPRUN_LAUNCHER_TORCH_STORE_STORE_CLIENTS_H_
#define DDPRUN_LAUNCHER_TORCH_STORE_STORE_CLIENTS_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "launcher/torch_store/arrivals.h"
#include "launcher/torch_store/barrier_polls.h"
#include "launcher/torch_store/key_store.h"
#include "launcher/torch_store/wire.h"

namespace ddprun::torch_store {

class StoreClients {
 public:
  struct Limits {
    KeyStore::Limits keys;
    std::size_t unfinished_bytes = 256UL << 20U;  // for all clients together
  };

  StoreClients() = default;
  // `world_size`: of the generation; 0: unknown.
  explicit StoreClients(Limits limits, int world_size = 0)
      : limits_(limits), keys_(limits.keys), polls_(world_size) {}

  // Call it when `client` has sent `bytes`, any part of its request stream. Appends the replies. On
  // an error the caller must disconnect the client and call Close().
  absl::Status Receive(ClientId client, absl::string_view bytes, Replies* replies);

  // Call it when the connection is over.
  void Close(ClientId client);

  // any_polls(): clients wait for a barrier (barrier_polls.h). Then the caller must call
  // AnswerPolls() soon after kPollLimit.
  static constexpr std::chrono::milliseconds kPollLimit{100};
  bool any_polls() const { return polls_.any(); }
  void AnswerPolls(Replies* replies) { polls_.AnswerAll(replies); }

  const KeyStore& keys() const { return keys_; }
  const Arrivals& arrivals() const { return arrivals_; }
  // True: a rank has arrived since the last call.
  bool TakeNewArrivals() { return std::exchange(new_arrivals_, false); }
  std::size_t unfinished_bytes() const { return unfinished_bytes_; }

 private:
  struct Client {
    std::optional<Dialect> dialect;
    std::string unfinished;
  };

  // Handles the complete requests at the front of `bytes`, and removes them.
  absl::Status HandleRequests(ClientId id, Client* client, absl::string_view* bytes,
                              Replies* replies);

  const Limits limits_{};
  KeyStore keys_;
  BarrierPolls polls_;
  Arrivals arrivals_;
  bool new_arrivals_ = false;
  absl::flat_hash_map<ClientId, Client> clients_;
  std::size_t unfinished_bytes_ = 0;  // of all clients
};

}  // namespace ddprun::torch_store

#endif  // DDPRUN_LAUNCHER_TORCH_STORE_STORE_CLIENTS_H_
