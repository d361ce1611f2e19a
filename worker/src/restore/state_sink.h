// Writes the bytes of a state to the tensors of one rank.
#ifndef DDPRUN_WORKER_SRC_RESTORE_STATE_SINK_H_
#define DDPRUN_WORKER_SRC_RESTORE_STATE_SINK_H_

#include <torch/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "worker/src/base/xxh3.h"

namespace ddp::internal {

// One tensor's bytes in a state.
struct StatePart {
  std::string name;
  std::string hash;  // XXH3-64, as HashText() writes it
  std::size_t bytes = 0;
  torch::Tensor to;  // has `bytes` bytes, on any device; undefined: not wanted
};

// A piece of a state, sent as one message.
struct StateChunk {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// The chunks of a state; the same on all ranks. A chunk has at most kMaxChunkBytes, so that it is
// still in the cache when it is hashed or sent on. Only small tensors share a chunk.
inline constexpr std::size_t kMaxChunkBytes = std::size_t{1} << 19;
std::vector<StateChunk> ChunksOf(const std::vector<StatePart>& parts);

// Takes the bytes of all parts in order, and hashes them. If a part's tensor is contiguous in CPU
// memory, the bytes are written in place. If it is contiguous on a GPU, they are copied through a
// little pinned memory. Any other tensor is first assembled in memory, one tensor at a time.
class StateSink {
 public:
  explicit StateSink(std::vector<StatePart> parts);
  StateSink(const StateSink&) = delete;
  StateSink& operator=(const StateSink&) = delete;

  std::size_t bytes() const { return bytes_; }

  // The final address of the chunk's bytes. Null: they belong to several tensors, or their tensor
  // is not wanted, or not contiguous in CPU memory. A caller that writes there must pass the same
  // address to Take().
  std::byte* Place(const StateChunk& chunk) const;

  void Take(const std::byte* data, std::size_t size);

  // Call it after all bytes. The first part that does not match its hash; "" if all match.
  const std::string& damaged() const { return damaged_; }

 private:
  void Begin();
  void Finish();
  // Copies the next bytes to a part on a GPU.
  void ToDevice(const std::byte* data, std::size_t size);

  const std::vector<StatePart> parts_;
  std::vector<std::size_t> offsets_;  // of the parts
  std::size_t bytes_ = 0;
  std::size_t next_ = 0;     // index of the current part
  std::size_t taken_ = 0;    // bytes of the current part taken so far
  std::byte* to_ = nullptr;  // memory of the current part; null: on a GPU, or not wanted
  torch::Tensor whole_;   // owns that memory, or is the tensor of the part; undefined: not wanted
  torch::Tensor pinned_;  // staging memory for a GPU; undefined until needed
  Xxh3Stream hash_;
  std::string damaged_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_STATE_SINK_H_
