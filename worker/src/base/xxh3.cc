#include "worker/src/base/xxh3.h"

// Without this macro the header does not define the size of the state.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same names; they look at the CPU
#endif

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ddp::internal {

struct Xxh3Stream::State {
  XXH3_state_t xxh;
};

std::uint64_t Xxh3(const void* data, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(size == 0 ? "" : data, size, seed);
}

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) { Reset(); }
Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::Reset() { XXH3_64bits_reset(&state_->xxh); }

void Xxh3Stream::Update(const void* data, std::size_t size) {
  XXH3_64bits_update(&state_->xxh, data, size);
}

std::uint64_t Xxh3Stream::Digest() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace ddp::internal
