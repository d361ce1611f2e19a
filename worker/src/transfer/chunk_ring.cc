#include "worker/src/transfer/chunk_ring.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "worker/contract/unique_fd.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kPageBytes = 4096;

[[noreturn]] void ThrowSystemError(const std::string& what, const std::string& path, int error) {
  throw std::system_error(error, std::generic_category(), "cannot " + what + " " + path);
}

// Not std::atomic::wait(): it uses a private futex, but several processes share this word.
void Sleep(std::atomic<std::uint32_t>* word, std::uint32_t seen,
           std::chrono::steady_clock::duration time) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  const timespec limit = {static_cast<time_t>(ns / 1'000'000'000),
                          static_cast<long>(ns % 1'000'000'000)};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void Wake(std::atomic<std::uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// Each counter has a cache line of its own.
struct alignas(64) ChunkRing::Counter {
  std::atomic<std::uint32_t> value{0};
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  void Set(std::size_t count) {
    value.store(static_cast<std::uint32_t>(count), std::memory_order_release);
    Wake(&value);
  }
  bool WaitFor(std::size_t count, std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
      const std::uint32_t seen = value.load(std::memory_order_acquire);
      if (seen >= count) return true;
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= std::chrono::steady_clock::duration::zero()) return false;
      Sleep(&value, seen, left);
    }
  }
};

ChunkRing ChunkRing::Create(const std::string& path, const Shape& shape) {
  return ChunkRing(path, shape, 0, true);
}

ChunkRing ChunkRing::Open(const std::string& path, const Shape& shape, std::size_t number) {
  return ChunkRing(path, shape, number, false);
}

std::size_t ChunkRing::HeaderBytes(const Shape& shape) {
  return (sizeof(Counter) * (1 + shape.followers) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

ChunkRing::ChunkRing(const std::string& path, const Shape& shape, std::size_t number, bool create)
    : shape_(shape), number_(number) {
  size_ = HeaderBytes(shape) + shape.places * shape.place_bytes;
  const int flags = create ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
  const ddprun::UniqueFd file(open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!file.valid()) ThrowSystemError("open", path, errno);
  // Allocates now, so that a lack of memory is an error here and not a SIGBUS later.
  const int error = create ? posix_fallocate(file.get(), 0, static_cast<off_t>(size_)) : 0;
  if (error != 0) {
    unlink(path.c_str());
    ThrowSystemError("get memory for", path, error);
  }
  void* const map = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) {
    const int why = errno;
    if (create) unlink(path.c_str());
    ThrowSystemError("map", path, why);
  }
  map_ = static_cast<std::byte*>(map);
  if (!create) return;
  for (std::size_t i = 0; i <= shape.followers; ++i) new (counter(i)) Counter;
}

ChunkRing::ChunkRing(ChunkRing&& other) noexcept
    : shape_(other.shape_),
      number_(other.number_),
      map_(std::exchange(other.map_, nullptr)),
      size_(other.size_) {}

ChunkRing::~ChunkRing() {
  if (map_ != nullptr) munmap(map_, size_);
}

ChunkRing::Counter* ChunkRing::counter(std::size_t index) const {
  return reinterpret_cast<Counter*>(map_) + index;
}

std::byte* ChunkRing::place(std::size_t chunk) const {
  return map_ + HeaderBytes(shape_) + chunk % shape_.places * shape_.place_bytes;
}

bool ChunkRing::WaitForPlace(std::size_t chunk, std::chrono::milliseconds patience) {
  if (chunk < shape_.places) return true;
  for (std::size_t f = 0; f < shape_.followers; ++f) {
    if (!counter(1 + f)->WaitFor(chunk - shape_.places + 1, patience)) return false;
  }
  return true;
}

void ChunkRing::Publish(std::size_t chunk) { counter(0)->Set(chunk + 1); }

bool ChunkRing::WaitForChunk(std::size_t chunk, std::chrono::milliseconds patience) {
  return counter(0)->WaitFor(chunk + 1, patience);
}

void ChunkRing::Release(std::size_t chunk) { counter(1 + number_)->Set(chunk + 1); }

}  // namespace ddp::internal
