// A stream of bytes in which each byte depends only on its offset. All 256 values occur.
#ifndef DDPRUN_TESTS_UNIT_OS_PATTERN_H_
#define DDPRUN_TESTS_UNIT_OS_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ddprun::test {

inline constexpr std::size_t kPatternBlock = 64 << 10;

// Fills `block` (kPatternBlock bytes) with block number `index` of the stream.
inline void FillPattern(std::uint64_t index, char* block) {
  for (std::size_t i = 0; i < kPatternBlock; i += sizeof(std::uint64_t)) {
    std::uint64_t word = index * kPatternBlock + i;  // splitmix64's finalizer
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    word ^= word >> 31;
    std::memcpy(block + i, &word, sizeof(word));
  }
}

}  // namespace ddprun::test

#endif  // DDPRUN_TESTS_UNIT_OS_PATTERN_H_
