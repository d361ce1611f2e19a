// Tests RetainFreedMemory(): whether freed memory stays in the process, and which settings decide.
#include "worker/src/base/malloc_retention.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ddp::internal {
namespace malloc_retention_test {

long PageFaults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Allocates and frees like a training step with a gradient of 64 MiB.
void AllocateAndFree() {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  void* const memory = std::malloc(kBytes);
  std::memset(memory, 1, kBytes);
  asm volatile("" : : "r"(memory) : "memory");  // uses the memory
  std::free(memory);
}

TEST(MallocRetentionTest, WhatIsFreedIsThereForTheNextStepWithoutTheSystem) {
  ASSERT_TRUE(RetainFreedMemory([](const char*) -> const char* { return nullptr; }));
  AllocateAndFree();
  const long before = PageFaults();
  for (int step = 0; step < 10; ++step) AllocateAndFree();
  EXPECT_LT(PageFaults() - before, 1000) << "each step takes 16384 pages";
}

TEST(MallocRetentionTest, MemoryTakenAheadIsThereForTheFirstStep) {
  ASSERT_TRUE(RetainFreedMemory([](const char*) -> const char* { return nullptr; }));
  TakeMemoryAhead(std::size_t{96} << 20);
  const long before = PageFaults();
  AllocateAndFree();
  EXPECT_LT(PageFaults() - before, 16) << "it takes 32 pages of 2 MiB, or 16384 of 4 KiB";
}

TEST(MallocRetentionTest, TheEnvironmentsOwnSettingsAreLeftAlone) {
  for (const std::string set : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
                                "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"}) {
    EXPECT_FALSE(RetainFreedMemory([&](const char* name) { return name == set ? "1" : nullptr; }))
        << set;
  }
  const auto tunables = [](const char* value) {
    return RetainFreedMemory([value](const char* name) {
      return std::string(name) == "GLIBC_TUNABLES" ? value : nullptr;
    });
  };
  EXPECT_FALSE(tunables("glibc.malloc.mmap_max=3"));
  EXPECT_TRUE(tunables("glibc.rtld.nns=4"));
}

}  // namespace malloc_retention_test
}  // namespace ddp::internal
