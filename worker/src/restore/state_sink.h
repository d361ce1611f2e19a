// Where the bytes of a state go on one rank: into the tensors that they are of.
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
  std::string hash;  // XXH3-64, as HashText()
  std::size_t bytes = 0;
  torch::Tensor to;  // of so many bytes, anywhere; undefined: nobody wants them
};

// A piece of a state that travels as one message.
struct StateChunk {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// The same on all ranks: at most kMaxChunkBytes each, so that a chunk is still in the cache when it
// is hashed or sent on; none with bytes of two tensors but where those are small.
inline constexpr std::size_t kMaxChunkBytes = std::size_t{1} << 19;
std::vector<StateChunk> ChunksOf(const std::vector<StatePart>& parts);

// Takes the bytes of all parts, in order, and hashes them on the way.
// A part whose tensor is contiguous in the CPU's memory is written in place; what is contiguous on
// a GPU gets its bytes by way of a little pinned memory; another one is put together first, one at
// a time.
class StateSink {
 public:
  explicit StateSink(std::vector<StatePart> parts);
  StateSink(const StateSink&) = delete;
  StateSink& operator=(const StateSink&) = delete;

  std::size_t bytes() const { return bytes_; }

  // Where the chunk lies in the end, if that is in one piece; else null. Whoever writes there
  // passes the same address to Take().
  std::byte* Place(const StateChunk& chunk) const;

  void Take(const std::byte* data, std::size_t size);

  // The first part that is not what its hash says, or nothing. After all bytes.
  const std::string& damaged() const { return damaged_; }

 private:
  void Begin();
  void Finish();
  // Copies the next bytes to a part on a GPU.
  void ToDevice(const std::byte* data, std::size_t size);

  const std::vector<StatePart> parts_;
  std::vector<std::size_t> offsets_;  // of the parts
  std::size_t bytes_ = 0;
  std::size_t next_ = 0;     // part
  std::size_t taken_ = 0;    // of it
  std::byte* to_ = nullptr;  // its memory; null: on a GPU, or nobody wants it
  torch::Tensor whole_;      // owns that, or is the part's own; undefined: nobody wants it
  torch::Tensor pinned_;     // on the way to a GPU; undefined until it is needed
  Xxh3Stream hash_;
  std::string damaged_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_STATE_SINK_H_
