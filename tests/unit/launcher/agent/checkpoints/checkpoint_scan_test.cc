#include "launcher/agent/checkpoints/checkpoint_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace checkpoint_scan_test {

using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointScanTest : public testing::Test {
 protected:
  // Writes a safetensors file: one tensor of `data` bytes, without the last `missing` bytes.
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
    const ScanResult result = FindCheckpoints({"job", folder_.path(), std::move(named)});
    for (const SavedFile& file : result.files) states.push_back(file.state);
    problems_ = result.problems;
    return states;
  }
  static SavedState State(int requeue_number, int generation, std::int64_t step) {
    return {static_cast<std::uint32_t>(requeue_number), Generation{generation}, step,
            Tier::kDurable};
  }

  TempDir folder_;
  std::vector<std::string> problems_;  // of the last Find()
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

// Otherwise the restore plan would name a state that no rank loads, and the newest good state would
// be ignored. Seen red without IsOfAnotherStep.
TEST_F(CheckpointScanTest, AFileThatSaysAnotherStepThanItsNameIsPassedOver) {
  Write("step-000000000100.safetensors", By("job", 0, 3) + ",\"step\":\"100\"");
  Write("step-000000000900.safetensors", By("job", 0, 3) + ",\"step\":\"100\"");
  EXPECT_THAT(Find(), ElementsAre(State(0, 3, 100)));
}

TEST_F(CheckpointScanTest, AFileOfAnotherJobOrOfNobodyWasMadeBefore) {
  Write("step-000000000100.safetensors", "");
  Write("step-000000000200.safetensors", By("another", 5, 3));
  Write("step-000000000300.safetensors", "\"ddprun_job\":7");
  EXPECT_THAT(Find(), ElementsAre(State(0, -1, 300), State(0, -1, 200), State(0, -1, 100)));
}

// A worker may name its own files, in any format.
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
  const ScanResult result = FindCheckpoints({"job", folder_ / "none", {}});
  EXPECT_THAT(result.files, IsEmpty());
  EXPECT_THAT(result.problems, IsEmpty());
}

// A file that the agent cannot read may still be good: the workers find out. Nobody, not even root,
// can open a link to itself.
TEST_F(CheckpointScanTest, WhatCannotBeReadIsToldByItsNameAndNamed) {
  Write("step-000000000100.safetensors", By("job", 0, 3));
  const std::string loop = folder_ / "step-000000000200.safetensors";
  ASSERT_EQ(symlink(loop.c_str(), loop.c_str()), 0);
  SavedState unreadable = State(0, -1, 200);
  unreadable.unreadable = true;
  EXPECT_THAT(Find(), ElementsAre(unreadable, State(0, 3, 100)));
  const std::string expected = "cannot read " + loop + ": " + std::strerror(ELOOP) + " (errno 40, ";
  EXPECT_THAT(problems_, ElementsAre(testing::StartsWith(expected)));
  unreadable.generation.value = 2;
  EXPECT_THAT(Find({{State(0, 2, 200), loop}}), ElementsAre(unreadable, State(0, 3, 100)))
      << "who made it is known";
}

TEST_F(CheckpointScanTest, AFolderThatCannotBeListedIsNamed) {
  std::ofstream(folder_ / "file") << "in the way";
  const ScanResult result = FindCheckpoints({"job", folder_ / "file", {}});
  EXPECT_THAT(result.files, IsEmpty());
  EXPECT_TRUE(result.incomplete);
  EXPECT_THAT(result.problems, ElementsAre(testing::HasSubstr("Not a directory")));
}

TEST_F(CheckpointScanTest, AnewWhatWasThereBeforeDoesNotCount) {
  Write("step-000000000100.safetensors", By("job", 0, 0));
  Write("step-000000000200.safetensors", "");
  ScanRequest request{"job", folder_.path(), {}};
  request.anew = true;
  const ScanResult first = FindCheckpoints(request);
  EXPECT_THAT(first.files, IsEmpty());
  EXPECT_EQ(first.before.size(), 2u);
  request.before = first.before;
  Write("step-000000000050.safetensors", By("job", 0, 0));
  const ScanResult later = FindCheckpoints(request);
  ASSERT_EQ(later.files.size(), 1u);
  EXPECT_EQ(later.files[0].state, State(0, 0, 50));

  const std::string loop = folder_ / "step-000000000060.safetensors";
  ASSERT_EQ(symlink(loop.c_str(), loop.c_str()), 0);
  const ScanResult last = FindCheckpoints(request);
  ASSERT_EQ(last.files.size(), 2u);
  EXPECT_TRUE(last.files[0].state.unreadable) << "it came after the job began";
}

// An agent was started again in the middle of a job. Its first look takes all files for older ones.
TEST_F(CheckpointScanTest, AnewTheFilesOfTheJobsOwnRunCountAlsoIfTheyWereThereBefore) {
  Write("step-000000000100.safetensors", By("job", 0, 0) + ",\"ddprun_run\":\"00000000000000aa\"");
  Write("step-000000000200.safetensors", By("job", 0, 0) + ",\"ddprun_run\":\"00000000000000bb\"");
  Write("step-000000000300.safetensors", By("job", 0, 0));
  ScanRequest request{"job", folder_.path(), {}};
  request.anew = true;
  request.before = FindCheckpoints(request).before;
  request.run = "00000000000000aa";
  const ScanResult result = FindCheckpoints(request);
  ASSERT_EQ(result.files.size(), 1u);
  EXPECT_EQ(result.files[0].state, State(0, 0, 100));
  EXPECT_EQ(result.before.size(), 2u);
}

// Nobody knows who made it: an older job, or the workers of another node of this one.
TEST_F(CheckpointScanTest, AnewAFileOfAnUnknownMakerMayBeOfTheJobsOwnRun) {
  const std::string loop = folder_ / "step-000000000200.safetensors";
  ASSERT_EQ(symlink(loop.c_str(), loop.c_str()), 0);
  ScanRequest request{"job", folder_.path(), {}};
  request.anew = true;
  ScanResult result = FindCheckpoints(request);
  EXPECT_FALSE(result.incomplete) << "the job begins: the file is older";
  request.before = result.before;
  request.run = "00000000000000aa";
  result = FindCheckpoints(request);
  EXPECT_TRUE(result.incomplete);
  EXPECT_THAT(result.files, IsEmpty());
  EXPECT_THAT(result.before, ElementsAre(loop));
  EXPECT_THAT(result.problems, ElementsAre(testing::HasSubstr(loop)));
}

// Slurm starts the same command again. The job must continue from its own files.
TEST_F(CheckpointScanTest, AnewARequeuedJobGoesOnFromItsOwnFiles) {
  Write("step-000000000100.safetensors", By("job", 0, 0));
  Write("step-000000000200.safetensors", By("another", 0, 0));
  ScanRequest request{"job", folder_.path(), {}, 1, true};
  const ScanResult result = FindCheckpoints(request);
  ASSERT_EQ(result.files.size(), 1u);
  EXPECT_EQ(result.files[0].state, State(0, 0, 100));
}

TEST_F(CheckpointScanTest, TheLoopHearsOfItUnlessTheScanIsGivenUp) {
  Write("step-000000000100.safetensors", By("job", 0, 3));
  EventLoop loop;
  std::vector<SavedFile> found;
  {
    const CheckpointScan abandoned(&loop, {"job", folder_.path(), {}},
                                   [](const ScanResult&) { FAIL(); });
  }
  const CheckpointScan scan(&loop, {"job", folder_.path(), {}}, [&](ScanResult result) {
    found = std::move(result.files);
    loop.Quit();
  });
  loop.Run();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].state.step, 100);
}

}  // namespace checkpoint_scan_test
}  // namespace ddprun
