// Shared memory of the processes of one node: the leader passes a long sequence of bytes to its
// followers, chunk by chunk.
#ifndef DDPRUN_WORKER_SRC_TRANSFER_CHUNK_RING_H_
#define DDPRUN_WORKER_SRC_TRANSFER_CHUNK_RING_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ddp::internal {

// A few places for chunks, used in turn: chunk i is in place i % places. No process spins; a
// waiting one sleeps in the kernel.
class ChunkRing {
 public:
  struct Shape {
    std::size_t places = 0;
    std::size_t place_bytes = 0;
    std::size_t followers = 0;
  };

  // For the leader: makes the file `path`. Throws std::system_error, such as ENOSPC.
  static ChunkRing Create(const std::string& path, const Shape& shape);
  // For a follower; the same shape. `number`: 0 <= number < followers. Throws std::system_error.
  static ChunkRing Open(const std::string& path, const Shape& shape, std::size_t number);

  ChunkRing(ChunkRing&& other) noexcept;
  ChunkRing& operator=(ChunkRing&&) = delete;
  ~ChunkRing();

  std::byte* place(std::size_t chunk) const;

  // For the leader. Waits until the place of `chunk` is free: all followers have taken the previous
  // chunk there. False: `patience` is over.
  bool WaitForPlace(std::size_t chunk, std::chrono::milliseconds patience);
  // Publish chunks in order.
  void Publish(std::size_t chunk);

  // For a follower. Waits until the chunk is published; false: `patience` is over.
  bool WaitForChunk(std::size_t chunk, std::chrono::milliseconds patience);
  void Release(std::size_t chunk);  // in order too

 private:
  struct Counter;  // counts chunks, in the shared memory

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
