// Two clients send any bytes to the store. The answers do not depend on how the bytes are cut, the
// memory of the store is bounded, and nothing is left when the clients are gone.
//
// The first byte of an input chooses after how many bytes the other client sends, and how large the
// parts are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "launcher/torch_store/store_clients.h"
#include "tests/fuzz/require.h"

namespace ddprun::torch_store {
namespace {

constexpr StoreClients::Limits kLimits{{/*keys=*/16, /*bytes=*/512}, /*unfinished_bytes=*/1024};

class Store {
 public:
  void Say(ClientId client, absl::string_view bytes, std::size_t part) {
    for (std::size_t at = 0; at < bytes.size() && !closed_[client]; at += part) {
      Replies replies;
      const absl::Status status = clients_.Receive(client, bytes.substr(at, part), &replies);
      for (const Reply& reply : replies) {
        if (!closed_[reply.client]) heard_[reply.client] += reply.bytes;
      }
      if (!status.ok()) Refuse(client, status);
      Require(clients_.keys().byte_count() <= kLimits.keys.bytes, "keys and values are bounded");
      Require(clients_.keys().key_count() <= kLimits.keys.keys, "the number of keys is bounded");
      Require(clients_.unfinished_bytes() <= kLimits.unfinished_bytes + part,
              "requests that are not complete are bounded");
    }
  }

  void CloseAll() {
    for (const ClientId client : {0, 1}) clients_.Close(client);
    Require(clients_.unfinished_bytes() == 0, "nothing of a client is left");
    Require(!clients_.any_polls(), "nobody who is gone waits for a barrier");
  }

  // What the store sent to the client, and whether it disconnected the client.
  const std::string& heard(ClientId client) const { return heard_[client]; }
  // True if a client was refused because there was no room.
  bool full() const { return full_; }

 private:
  void Refuse(ClientId client, const absl::Status& status) {
    Require(status.message().size() < 256, "a refusal is short", std::string(status.message()));
    heard_[client] += "refused";
    closed_[client] = true;
    full_ = full_ || absl::IsResourceExhausted(status);
    clients_.Close(client);
  }

  StoreClients clients_{kLimits, /*world_size=*/2};
  std::string heard_[2];
  bool closed_[2] = {};
  bool full_ = false;
};

void Check(absl::string_view input) {
  if (input.empty()) return;
  const std::size_t turn = 1 + static_cast<std::uint8_t>(input[0]) % 64;
  const std::size_t part = 1 + static_cast<std::uint8_t>(input[0]) / 64;
  input.remove_prefix(1);
  Store whole;
  Store cut;
  for (std::size_t at = 0, client = 0; at < input.size(); at += turn, client ^= 1) {
    whole.Say(client, input.substr(at, turn), turn);
    cut.Say(client, input.substr(at, turn), part);
  }
  // If there is no room, the bytes that are held at the same time depend on the cut.
  if (!whole.full() && !cut.full()) {
    for (const ClientId client : {0, 1}) {
      Require(whole.heard(client) == cut.heard(client), "answers do not depend on the cut");
    }
  }
  whole.CloseAll();
  cut.CloseAll();
}

}  // namespace
}  // namespace ddprun::torch_store

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::torch_store::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
