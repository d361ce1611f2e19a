#include "launcher/os/nvml.h"

#include <gtest/gtest.h>

#include <optional>

namespace ddprun {
namespace nvml_test {

TEST(NvmlTest, WithoutItsLibraryThereIsNone) {
  EXPECT_EQ(Nvml::Open("libddprun-has-no-such-library.so.1"), nullptr);
  EXPECT_EQ(Nvml::Open("libc.so.6"), nullptr) << "it has none of the functions";
}

TEST(NvmlTest, TellsWhatEachGpuTells) {
  const auto nvml = Nvml::Open(FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  const auto gpus = nvml->Read();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].utilization, 0.87);
  EXPECT_EQ(gpus[0].memory_used, 60'000'000'000);
  EXPECT_EQ(gpus[0].memory_size, 80'000'000'000);
  EXPECT_EQ(gpus[0].celsius, 71);
  EXPECT_EQ(gpus[0].ecc_corrected, 12);
  EXPECT_EQ(gpus[0].ecc_uncorrected, 1);
  EXPECT_EQ(gpus[0].xid_errors, 2);
  EXPECT_EQ(gpus[0].last_xid, 79);
  EXPECT_EQ(gpus[1].utilization, 0.0);
  EXPECT_EQ(gpus[1].ecc_corrected, std::nullopt);
  EXPECT_EQ(gpus[1].xid_errors, std::nullopt);
}

TEST(NvmlTest, CountsAnXidOnce) {
  const auto nvml = Nvml::Open(FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  const auto first = nvml->Read()[0].xid_errors;
  EXPECT_EQ(nvml->Read()[0].xid_errors, first);
}

}  // namespace nvml_test
}  // namespace ddprun
