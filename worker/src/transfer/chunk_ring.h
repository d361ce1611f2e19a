// Memory that the processes of a node share, through which one of them, the leader, hands a long
// row of bytes to the others, its followers, chunk by chunk.
#ifndef DDPRUN_WORKER_SRC_TRANSFER_CHUNK_RING_H_
#define DDPRUN_WORKER_SRC_TRANSFER_CHUNK_RING_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ddp::internal {

// A few places for chunks, used in turn: chunk i lies in place i % places. Nobody spins: who has to
// wait sleeps in the kernel.
class ChunkRing {
 public:
  struct Shape {
    std::size_t places = 0;
    std::size_t place_bytes = 0;
    std::size_t followers = 0;
  };

  // The leader's: makes the file `path`. Throws std::system_error, as when there is no room.
  static ChunkRing Create(const std::string& path, const Shape& shape);
  // A follower's, of the same shape; `number`: 0 <= number < followers. Throws std::system_error.
  static ChunkRing Open(const std::string& path, const Shape& shape, std::size_t number);

  ChunkRing(ChunkRing&& other) noexcept;
  ChunkRing& operator=(ChunkRing&&) = delete;
  ~ChunkRing();

  std::byte* place(std::size_t chunk) const;

  // The leader's. Waits until chunk's place is free: all have taken the one before it there.
  // False: `patience` is over.
  bool WaitForPlace(std::size_t chunk, std::chrono::milliseconds patience);
  // Chunks are published in order.
  void Publish(std::size_t chunk);

  // A follower's. Waits until the chunk is there; false: `patience` is over.
  bool WaitForChunk(std::size_t chunk, std::chrono::milliseconds patience);
  void Release(std::size_t chunk);  // in order, too

 private:
  struct Counter;  // of chunks, in the shared memory

  ChunkRing(const std::string& path, const Shape& shape, std::size_t number, bool create);
  static std::size_t HeaderBytes(const Shape& shape);
  Counter* counter(std::size_t index) const;  // 0: published; 1 + f: taken by follower f

  const Shape shape_;
  const std::size_t number_;
  std::byte* map_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_TRANSFER_CHUNK_RING_H_
