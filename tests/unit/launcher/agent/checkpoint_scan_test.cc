#include "launcher/agent/checkpoint_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace checkpoint_scan_test {

using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointScanTest : public testing::Test {
 protected:
  // A file as safetensors has it, with `data` bytes of one tensor, and `missing` of them cut off.
  void Write(const std::string& name, const std::string& metadata, int data = 8, int missing = 0) {
    const std::string header = "{\"__metadata__\":{" + metadata +
                               "},\"w\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(data) +
                               "],\"data_offsets\":[0," + std::to_string(data) + "]}}";
    std::ofstream file(folder_ / name, std::ios::binary);
    for (int i = 0; i < 8; ++i) file.put(static_cast<char>(header.size() >> (8 * i)));
    file << header << std::string(data - missing, 'x');
  }
  static std::string By(const std::string& job, int requeue_number, int generation) {
    return "\"ddprun_job\":\"" + job + "\",\"ddprun_epoch\":\"" + std::to_string(requeue_number) +
           "\",\"ddprun_generation\":\"" + std::to_string(generation) + "\"";
  }
  std::vector<SavedState> Find(std::vector<SavedFile> named = {}) {
    std::vector<SavedState> states;
    for (const SavedFile& file : FindCheckpoints({"job", folder_.path(), std::move(named)})) {
      states.push_back(file.state);
    }
    return states;
  }
  static SavedState State(int requeue_number, int generation, std::int64_t step) {
    return {static_cast<std::uint32_t>(requeue_number), Generation{generation}, step,
            Tier::kDurable};
  }

  TempDir folder_;
};

TEST_F(CheckpointScanTest, FindsTheNewestFilesAndWhoMadeThem) {
  Write("step-000000000100.safetensors", By("job", 1, 3));
  Write("step-000000000200.safetensors", By("job", 1, 4));
  EXPECT_THAT(Find(), ElementsAre(State(1, 4, 200), State(1, 3, 100)));
}

TEST_F(CheckpointScanTest, WhatIsNotWholeOrNotACheckpointIsPassedOver) {
  Write("step-000000000100.safetensors", By("job", 0, 3));
  Write("step-000000000200.safetensors", By("job", 0, 3), 8, 1);
  Write("step-000000000300.safetensors.n1-4-77.tmp", By("job", 0, 3));
  Write("step-000000000400.safetensors.corrupt", By("job", 0, 3));
  Write("weights.safetensors", By("job", 0, 3));
  std::ofstream(folder_ / "step-000000000500.safetensors") << "short";
  std::ofstream(folder_ / "step-000000000600.safetensors") << std::string(64, '\xff');
  std::ofstream(folder_ / "step-000000000700.safetensors") << std::string("\2\0\0\0\0\0\0\0[]", 10);
  mkdir((folder_ / "step-000000000800.safetensors").c_str(), 0700);
  EXPECT_THAT(Find(), ElementsAre(State(0, 3, 100)));
}

TEST_F(CheckpointScanTest, AFileOfAnotherJobOrOfNobodyWasMadeBefore) {
  Write("step-000000000100.safetensors", "");
  Write("step-000000000200.safetensors", By("another", 5, 3));
  Write("step-000000000300.safetensors", "\"ddprun_job\":7");
  EXPECT_THAT(Find(), ElementsAre(State(0, -1, 300), State(0, -1, 200), State(0, -1, 100)));
}

// Of a worker that names its own files, in any format.
TEST_F(CheckpointScanTest, WhatAWorkerHasNamedCountsWhileItIsThere) {
  std::ofstream(folder_ / "a.pt") << "weights";
  std::ofstream(folder_ / "empty.pt");
  EXPECT_THAT(Find({{State(0, 2, 70), folder_ / "a.pt"},
                    {State(0, 2, 80), folder_ / "empty.pt"},
                    {State(0, 2, 90), folder_ / "gone.pt"}}),
              ElementsAre(State(0, 2, 70)));
}

TEST_F(CheckpointScanTest, AFileThatIsNamedAndFoundIsOne) {
  Write("step-000000000100.safetensors", "");
  EXPECT_THAT(Find({{State(0, 2, 100), folder_ / "./step-000000000100.safetensors"}}),
              ElementsAre(State(0, 2, 100)));
}

TEST_F(CheckpointScanTest, AFileThatWasWrittenAnewIsOfTheGenerationThatItNames) {
  Write("step-000000000100.safetensors", By("job", 0, 3));
  EXPECT_THAT(Find({{State(0, 2, 100), folder_ / "step-000000000100.safetensors"}}),
              ElementsAre(State(0, 3, 100)));
}

TEST_F(CheckpointScanTest, AFolderThatIsNotThereHoldsNothing) {
  EXPECT_THAT(FindCheckpoints({"job", folder_ / "none", {}}), IsEmpty());
}

TEST_F(CheckpointScanTest, TheLoopHearsOfItUnlessTheScanIsGivenUp) {
  Write("step-000000000100.safetensors", By("job", 0, 3));
  EventLoop loop;
  std::vector<SavedFile> found;
  {
    const CheckpointScan abandoned(&loop, {"job", folder_.path(), {}},
                                   [](const std::vector<SavedFile>&) { FAIL(); });
  }
  const CheckpointScan scan(&loop, {"job", folder_.path(), {}}, [&](std::vector<SavedFile> files) {
    found = std::move(files);
    loop.Quit();
  });
  loop.Run();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].state.step, 100);
}

}  // namespace checkpoint_scan_test
}  // namespace ddprun
