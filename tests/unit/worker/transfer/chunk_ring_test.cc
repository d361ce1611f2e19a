#include "worker/src/transfer/chunk_ring.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ddp::internal {
namespace chunk_ring_test {

constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(60);
constexpr std::chrono::milliseconds kNone{0};

class ChunkRingTest : public ::testing::Test {
 protected:
  ddprun::TempDir folder_;
  const std::string path_ = folder_ / "ring";
};

std::byte Of(std::size_t chunk) { return static_cast<std::byte>(chunk * 7 + 1); }

// Runs in a process of its own. Returns whether all chunks are correct.
int Follow(const std::string& path, const ChunkRing::Shape& shape, std::size_t number,
           std::size_t chunks) {
  ChunkRing ring = ChunkRing::Open(path, shape, number);
  const std::vector<std::byte> expected_size(shape.place_bytes);
  for (std::size_t i = 0; i < chunks; ++i) {
    if (!ring.WaitForChunk(i, kPatience)) return 2;
    const std::vector<std::byte> expected(shape.place_bytes, Of(i));
    if (std::memcmp(ring.place(i), expected.data(), expected.size()) != 0) return 3;
    ring.Release(i);
  }
  return 0;
}

TEST_F(ChunkRingTest, EveryFollowerGetsEveryChunkWhole) {
  constexpr std::size_t kChunks = 500;
  const ChunkRing::Shape shape = {3, 10'000, 2};
  ChunkRing ring = ChunkRing::Create(path_, shape);
  std::vector<pid_t> followers;
  for (std::size_t f = 0; f < shape.followers; ++f) {
    followers.push_back(fork());
    if (followers.back() == 0) _exit(Follow(path_, shape, f, kChunks));
  }
  for (std::size_t i = 0; i < kChunks; ++i) {
    ASSERT_TRUE(ring.WaitForPlace(i, kPatience));
    std::memset(ring.place(i), static_cast<int>(Of(i)), shape.place_bytes);
    ring.Publish(i);
  }
  for (const pid_t follower : followers) {
    int status = 0;
    ASSERT_EQ(waitpid(follower, &status, 0), follower);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(ChunkRingTest, APlaceIsFreeWhenAllHaveTakenWhatWasThere) {
  const ChunkRing::Shape shape = {2, 8, 2};
  ChunkRing leader = ChunkRing::Create(path_, shape);
  ChunkRing a = ChunkRing::Open(path_, shape, 0);
  ChunkRing b = ChunkRing::Open(path_, shape, 1);
  EXPECT_FALSE(a.WaitForChunk(0, kNone));
  leader.Publish(0);
  leader.Publish(1);
  EXPECT_TRUE(a.WaitForChunk(1, kNone));
  EXPECT_FALSE(leader.WaitForPlace(2, kNone));
  a.Release(0);
  EXPECT_FALSE(leader.WaitForPlace(2, kNone)) << "b has not taken it";
  b.Release(0);
  EXPECT_TRUE(leader.WaitForPlace(2, kNone));
  EXPECT_FALSE(leader.WaitForPlace(3, kNone));
  EXPECT_EQ(leader.place(2), leader.place(0));
  EXPECT_NE(leader.place(1), leader.place(0));
}

TEST_F(ChunkRingTest, WhatIsThereAlreadyOrNotThereIsAnError) {
  const ChunkRing::Shape shape = {2, 8, 1};
  EXPECT_THROW(ChunkRing::Open(path_, shape, 0), std::system_error);
  const ChunkRing ring = ChunkRing::Create(path_, shape);
  EXPECT_THROW(ChunkRing::Create(path_, shape), std::system_error);
}

TEST_F(ChunkRingTest, NoRoomIsAnErrorAndLeavesNothing) {
  const ChunkRing::Shape shape = {2, std::size_t{1} << 60, 1};
  EXPECT_THROW(ChunkRing::Create(path_, shape), std::system_error);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace chunk_ring_test
}  // namespace ddp::internal
