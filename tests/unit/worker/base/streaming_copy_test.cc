#include "worker/src/base/streaming_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <vector>

namespace ddp::internal {
namespace streaming_copy_test {

// Every size and offset around cache lines, and no byte outside of the target.
TEST(StreamingCopyTest, CopiesWhatItIsToldAndNoMore) {
  constexpr std::size_t kRoom = 512;
  std::vector<unsigned char> from(kRoom);
  std::iota(from.begin(), from.end(), 1);
  for (std::size_t to_at = 0; to_at < 70; to_at += 3) {
    for (std::size_t from_at = 0; from_at < 20; from_at += 7) {
      for (std::size_t size = 0; size < 300; ++size) {
        std::vector<unsigned char> to(kRoom, 0);
        StreamingCopy(to.data() + to_at, from.data() + from_at, size);
        for (std::size_t i = 0; i < kRoom; ++i) {
          const bool inside = i >= to_at && i < to_at + size;
          ASSERT_EQ(to[i], inside ? from[i - to_at + from_at] : 0)
              << i << " of " << size << " bytes from " << from_at << " to " << to_at;
        }
      }
    }
  }
}

}  // namespace streaming_copy_test
}  // namespace ddp::internal
