// KeyStore: the keys of one generation, and the clients that wait for them.
//
// Pure: a client's request goes in, replies come out, also to other clients. Requests take effect
// in the order of the calls. The semantics are libtorch's; docs/internals/store.md lists the
// differences.
#ifndef DDPRUN_LAUNCHER_TORCH_STORE_KEY_STORE_H_
#define DDPRUN_LAUNCHER_TORCH_STORE_KEY_STORE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "launcher/torch_store/wire.h"

namespace ddprun::torch_store {

// Identifies a connection. A store never uses an id again.
using ClientId = std::uint64_t;

struct Reply {
  ClientId client = 0;
  std::string bytes;
};
using Replies = std::vector<Reply>;

class KeyStore {
 public:
  struct Limits {
    std::size_t keys = 1UL << 20U;
    std::size_t bytes = 256UL << 20U;  // of keys, values, awaited and watched keys
  };

  KeyStore() = default;
  explicit KeyStore(Limits limits) : limits_(limits) {}

  // Appends the replies. On an error the caller must disconnect `client`: libtorch has no other way
  // to refuse a request.
  absl::Status Handle(ClientId client, const Request& request, Replies* replies);

  // Call it when the client is gone: no further reply is made for it.
  void Forget(ClientId client);

  // For tests, which cannot see the bounds in another way.
  std::size_t key_count() const { return values_.size(); }
  std::size_t byte_count() const { return bytes_; }  // counted like Limits::bytes

 private:
  // A client waits until `missing` more keys are set.
  struct Wait {
    std::size_t missing = 0;
    std::size_t bytes = 0;  // of the keys
    std::vector<std::string> keys;
  };
  using Clients = std::vector<ClientId>;

  absl::Status Set(absl::string_view key, absl::string_view value, Replies* replies);
  absl::Status CompareSet(ClientId client, const Request& request, Replies* replies);
  absl::Status Add(ClientId client, const Request& request, Replies* replies);
  absl::Status Append(absl::string_view key, absl::string_view value, Replies* replies);
  absl::Status SendValues(ClientId client, const Request& request, Replies* replies) const;
  absl::Status SetAll(const Request& request, Replies* replies);
  void Delete(ClientId client, absl::string_view key, Replies* replies);
  absl::Status BeginWait(ClientId client, const Request& request, Replies* replies);
  absl::Status Watch(ClientId client, absl::string_view key, Replies* replies);
  void EndWait(ClientId client);
  bool HasAll(const Request& request) const;
  void WakeClientsOf(absl::string_view key, Replies* replies);
  // Replies to the watchers of `key`. `event`: libtorch's WatchResponseType, with the value for
  // appended keys of 2.0.
  void NotifyWatchers(char event, absl::string_view key, absl::string_view old_value,
                      absl::string_view new_value, Replies* replies) const;
  absl::Status CheckRoom(std::size_t new_keys, std::size_t added, std::size_t removed) const;

  const Limits limits_{};
  std::size_t bytes_ = 0;
  absl::flat_hash_map<std::string, std::string> values_;
  absl::flat_hash_map<std::string, Clients> waiting_;  // by key
  absl::flat_hash_map<ClientId, Wait> waits_;
  absl::flat_hash_map<std::string, Clients> watchers_;  // by key; a client may be there twice
};

}  // namespace ddprun::torch_store

#endif  // DDPRUN_LAUNCHER_TORCH_STORE_KEY_STORE_H_
