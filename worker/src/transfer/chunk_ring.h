// Memory that the processes of one node share. The leader (one rank) passes a long sequence of
// bytes to its followers (the other ranks), chunk by chunk.
#ifndef DDPRUN_WORKER_SRC_TRANSFER_CHUNK_RING_H_
#define DDPRUN_WORKER_SRC_TRANSFER_CHUNK_RING_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ddp::internal {

// The ring has a few places for chunks, used in turn: chunk i is in place i % places. No process
// spins; a process that waits sleeps in the kernel.
class ChunkRing {
 public:
  struct Shape {
    std::size_t places = 0;
    std::size_t place_bytes = 0;
    std::size_t followers = 0;
  };

  // For the leader: makes the file `path`. Throws std::system_error, for example ENOSPC.
  static ChunkRing Create(const std::string& path, const Shape& shape);
  // For a follower, with the same shape. `number` is the follower's number: 0 <= number <
  // followers. Throws std::system_error.
  static ChunkRing Open(const std::string& path, const Shape& shape, std::size_t number);

  ChunkRing(ChunkRing&& other) noexcept;
  ChunkRing& operator=(ChunkRing&&) = delete;
  ~ChunkRing();

  std::byte* place(std::size_t chunk) const;

  // For the leader. Waits until the place of `chunk` is free: all followers have released the
  // previous chunk there. Waits for each follower at most `patience`. False: one took longer.
  bool WaitForPlace(std::size_t chunk, std::chrono::milliseconds patience);
  // For the leader: publishes `chunk`. Chunks must be published in order.
  void Publish(std::size_t chunk);

  // For a follower. Waits until `chunk` is published. False: `patience` is over.
  bool WaitForChunk(std::size_t chunk, std::chrono::milliseconds patience);
  void Release(std::size_t chunk);  // for a follower; also in order

 private:
  struct Counter;  // a counter of chunks in the shared memory

  ChunkRing(const std::string& path, const Shape& shape, std::size_t number, bool create);
  static std::size_t HeaderBytes(const Shape& shape);
  Counter* counter(std::size_t index) const;  // 0: published; 1 + f: released by follower f

  const Shape shape_;
  const std::size_t number_;
  std::byte* map_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_TRANSFER_CHUNK_RING_H_
