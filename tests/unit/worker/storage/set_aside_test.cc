#include "worker/src/storage/set_aside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "tests/unit/worker/support/newest_checkpoint.h"
#include "worker/src/storage/checkpoint_folder.h"
#include "worker/src/storage/checkpoint_writer.h"

namespace ddp::internal {
namespace set_aside_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

constexpr char kOurs[] = "5d0c4f6b9e21a873";

class SetAsideTest : public ::testing::Test {
 protected:
  std::string Path(std::int64_t step) const { return folder_ / CheckpointName(step); }
  static std::string Aside(std::int64_t step, const std::string& run = kOurs) {
    return CheckpointName(step) + "." + run + ".corrupt";
  }
  std::vector<std::string> Files() const { return test::FilesIn(folder_.path()); }

  // Makes a whole file. `run`: its maker; "": an older version.
  void Save(std::int64_t step, const std::string& run) const {
    Metadata metadata = {{"step", std::to_string(step)}};
    if (!run.empty()) metadata["ddprun_run"] = run;
    std::vector<TensorBytes> tensors = {{{"model.x", "U8", {3}}, "abc", 3}};
    std::ofstream(Path(step)) << BuildHeader(&tensors, metadata) << "abc";
  }
  void Cut(std::int64_t step) const { fs::resize_file(Path(step), fs::file_size(Path(step)) - 1); }

  // Sets all files aside, as on a host whose memory makes each hash wrong. Returns the warnings.
  std::string FindAllDamaged(DamagedFiles damaged) const {
    CheckpointSearch search(0, {folder_.path()}, 1'000, CheckpointSearch::FolderErrors::kCount,
                            std::move(damaged));
    ::testing::internal::CaptureStderr();
    while (search.Next() == CheckpointSearch::Result::kFound) search.SetAside("its hash is wrong");
    return ::testing::internal::GetCapturedStderr();
  }

  ddprun::TempDir folder_;
};

// Seen red when the third and each later file were removed, independent of their run.
TEST_F(SetAsideTest, OfAnotherRunAllStayAndOnlyThisRunsNameIt) {
  for (const std::int64_t step : {1, 2, 3, 4}) Save(step, "stranger");
  Save(5, "");
  for (const std::int64_t step : {6, 7}) Save(step, kOurs);
  FindAllDamaged({true, kOurs});
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(1) + ".corrupt", CheckpointName(2) + ".corrupt",
                                   CheckpointName(3) + ".corrupt", CheckpointName(4) + ".corrupt",
                                   CheckpointName(5) + ".corrupt", Aside(6), Aside(7)));
  RemoveOldSetAside(folder_.path(), kOurs);
  EXPECT_EQ(Files().size(), 7U);
}

// Seen red when the run was taken only from whole files.
TEST_F(SetAsideTest, AFileIsOfThisRunAsLongAsItsHeaderIsWhole) {
  Save(1, kOurs);
  Cut(1);
  Save(2, kOurs);
  std::string content = test::ReadFile(Path(2));
  content[20] ^= 1;
  std::ofstream(Path(2)) << content;
  FindAllDamaged({true, kOurs});
  EXPECT_THAT(Files(), UnorderedElementsAre(Aside(1), CheckpointName(2) + ".corrupt"));
}

TEST_F(SetAsideTest, ANameThatIsTakenGetsANumber) {
  for (int i = 0; i < 3; ++i) {
    Save(1, kOurs);
    FindAllDamaged({true, kOurs});
  }
  EXPECT_THAT(Files(),
              UnorderedElementsAre(Aside(1), CheckpointName(1) + "." + kOurs + ".2.corrupt",
                                   CheckpointName(1) + "." + kOurs + ".3.corrupt"));
  RemoveOldSetAside(folder_.path(), kOurs);
  EXPECT_THAT(Files(), UnorderedElementsAre(CheckpointName(1) + "." + kOurs + ".2.corrupt",
                                            CheckpointName(1) + "." + kOurs + ".3.corrupt"));
}

TEST_F(SetAsideTest, AnIdThatIsNoNameIsNotInAName) {
  for (const std::string run : {"", "7", "../x", "a.b", "\xc3\xa9\xc3\xa9"}) {
    Save(1, run);
    EXPECT_EQ(SetAsidePath(Path(1), run), Path(1) + ".corrupt") << run;
  }
}

TEST_F(SetAsideTest, WhoOnlyReadsRenamesNothing) {
  Save(1, kOurs);
  Save(2, kOurs);
  Cut(2);
  const std::string said = FindAllDamaged({false, kOurs});
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(1), CheckpointName(2)));
  EXPECT_THAT(said,
              HasSubstr("skipping checkpoint " + Path(2) + ": it is damaged: it is too short"));
  EXPECT_THAT(said, HasSubstr("It is left as it is"));
}

TEST_F(SetAsideTest, AllKindsOfNamesAreKnown) {
  for (const char* const name : {"step-1.safetensors.corrupt", "step-1.safetensors.2.corrupt",
                                 "step-000000000001.safetensors.5d0c4f6b9e21a873.corrupt",
                                 "step-1.safetensors.5d0c4f6b9e21a873.9.corrupt"}) {
    EXPECT_TRUE(IsSetAside(name)) << name;
  }
  for (const char* const name :
       {"step-1.safetensors", "step-1.corrupt", "step-.safetensors.corrupt", "corrupt",
        "step-1.safetensors.1.corrupt", "step-1.safetensors.2.ab.corrupt",
        "step-1.safetensors.ab.cd.corrupt", "step-1.safetensors.-.corrupt",
        "step-1.safetensorscorrupt", "step-x.safetensors.corrupt"}) {
    EXPECT_FALSE(IsSetAside(name)) << name;
  }
}

// Each restart is a new process and finds two more files. Seen red when only files renamed by this
// process were counted.
TEST_F(SetAsideTest, ASaveLeavesTheTwoNewestOfItsRunWhoeverRenamedThem) {
  for (const std::int64_t step : {1, 2, 3, 30}) std::ofstream(folder_ / Aside(step)) << "ours";
  for (const std::int64_t step : {1, 2, 3}) {
    std::ofstream(folder_ / Aside(step, "stranger")) << "theirs";
    std::ofstream(folder_ / (CheckpointName(step) + ".corrupt")) << "anybody's";
  }
  CheckpointWriter writer(folder_.path(), {},
                          {[](auto...) {}, [](auto...) { FAIL() << "it could not save"; }});
  ::testing::internal::CaptureStderr();
  writer.Start({9, {{{"model.x", "U8", {3}}, "abc", 3}}, {{"ddprun_run", kOurs}}});
  writer.Wait();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("[rank 0] warning: removed " + (folder_ / Aside(1)) +
                        ": of this run's damaged files the two newest are kept\n"));
  EXPECT_EQ(Files().size(), 9U);
  EXPECT_THAT(Files(), IsSupersetOf({Aside(3), Aside(30), CheckpointName(9)}));
}

}  // namespace set_aside_test
}  // namespace ddp::internal
