#include "worker/src/base/streaming_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ddp::internal {

#if defined(__SSE2__)

void StreamingCopy(void* to, const void* from, std::size_t size) {
  constexpr std::size_t kLine = 64;  // bytes of a cache line
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  const std::size_t odd = (kLine - reinterpret_cast<std::uintptr_t>(out) % kLine) % kLine;
  const std::size_t head = std::min(odd, size);
  std::memcpy(out, in, head);
  out += head;
  in += head;
  size -= head;
  for (; size >= kLine; size -= kLine, out += kLine, in += kLine) {
    const auto* const words = reinterpret_cast<const __m128i*>(in);
    const __m128i a = _mm_loadu_si128(words);
    const __m128i b = _mm_loadu_si128(words + 1);
    const __m128i c = _mm_loadu_si128(words + 2);
    const __m128i d = _mm_loadu_si128(words + 3);
    auto* const line = reinterpret_cast<__m128i*>(out);
    _mm_stream_si128(line, a);
    _mm_stream_si128(line + 1, b);
    _mm_stream_si128(line + 2, c);
    _mm_stream_si128(line + 3, d);
  }
  _mm_sfence();
  std::memcpy(out, in, size);
}

#else

void StreamingCopy(void* to, const void* from, std::size_t size) { std::memcpy(to, from, size); }

#endif

}  // namespace ddp::internal
