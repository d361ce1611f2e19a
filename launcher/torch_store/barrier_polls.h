// BarrierPolls: answers the ranks at torch's barrier when the last one has arrived.
//
// init_process_group() of torch 1.13 and 2.0 ends with a barrier. Each rank adds 1 to a key; then
// it adds 0 to the key until the sum is the world size, and sleeps 10 ms after each try. The ranks
// usually come within a millisecond, so almost all ranks sleep too long. This class delays the
// answer to an ADD of 0 while ranks are missing: until the last rank has come, or until
// AnswerAll(), which must be called soon. The answer is the newest sum. To the client, the delay
// looks like a slow network.
//
// Pure: the caller keeps the time.
#ifndef DDPRUN_LAUNCHER_TORCH_STORE_BARRIER_POLLS_H_
#define DDPRUN_LAUNCHER_TORCH_STORE_BARRIER_POLLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "launcher/torch_store/key_store.h"
#include "launcher/torch_store/wire.h"

namespace ddprun::torch_store {

class BarrierPolls {
 public:
  // 0: unknown; then every request is answered at once.
  explicit BarrierPolls(int world_size = 0) : world_size_(world_size) {}

  // Call it when `request` of `client` was handled; its replies begin at `first`. Removes a reply
  // that must wait, and adds replies that are due now.
  void See(ClientId client, const Request& request, std::size_t first, Replies* replies);

  // Answers one client at once. Call it when the client has sent another request, because this
  // answer must come first.
  void Answer(ClientId client, Replies* replies);
  void AnswerAll(Replies* replies);
  bool any() const { return !barriers_.empty(); }

  // Call it when the client is gone.
  void Forget(ClientId client);

 private:
  struct Barrier {
    std::int64_t sum = 0;
    std::vector<ClientId> clients;  // waiting; at least one
  };

  const std::int64_t world_size_;
  absl::flat_hash_map<std::string, Barrier> barriers_;  // by key
};

}  // namespace ddprun::torch_store

#endif  // DDPRUN_LAUNCHER_TORCH_STORE_BARRIER_POLLS_H_
