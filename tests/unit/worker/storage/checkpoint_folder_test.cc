#include "worker/src/storage/checkpoint_folder.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/disk.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "tests/unit/worker/support/newest_checkpoint.h"
#include "worker/src/storage/durable_file.h"

namespace ddp::internal {
namespace checkpoint_folder_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointFolderTest : public ::testing::Test {
 protected:
  std::string Path(std::int64_t step) const { return folder_ / CheckpointName(step); }

  void Save(std::int64_t step, const std::string& run = "ours") const {
    std::vector<TensorBytes> tensors = {{{"model.x", "U8", {3}}, "abc", 3}};
    Metadata metadata = {{"step", std::to_string(step)}};
    if (!run.empty()) metadata["ddprun_run"] = run;
    const std::string header = BuildHeader(&tensors, metadata);
    WriteDurably(folder_.path(), CheckpointName(step), {header, "abc"});
  }

  void SaveWithFlippedBit(std::int64_t step) const {
    Save(step);
    Rewrite(step, "abc", "abb");
  }

  void SaveInNewerFormat(std::int64_t step) const {
    Save(step);
    const std::string key = std::string("\"") + kFormatKey + "\":\"";
    Rewrite(step, key + kFormatVersion, key + "9");
  }

  // Opens the newest checkpoint and returns the name of its file; warnings_ gets the output on
  // stderr.
  std::string Newest() {
    ::testing::internal::CaptureStderr();
    const auto newest = test::FindNewest(folder_.path());
    warnings_ = ::testing::internal::GetCapturedStderr();
    return newest == nullptr ? "none" : fs::path(newest->path()).filename().string();
  }

  // Removes old files like a save of this run.
  void RemoveOld(std::int64_t saved_step, const Retention& retention) const {
    RemoveOldCheckpoints(folder_.path(), saved_step, retention, Ours());
  }
  static Lineage Ours() { return Lineage::Of({{"ddprun_run", "ours"}}); }

  std::vector<std::string> Files() const { return test::FilesIn(folder_.path()); }

  ddprun::TempDir folder_;
  std::string warnings_;

 private:
  void Rewrite(std::int64_t step, const std::string& from, const std::string& to) const {
    std::string content = test::ReadFile(Path(step));
    content.replace(content.rfind(from), from.size(), to);
    std::ofstream(Path(step), std::ios::binary | std::ios::trunc) << content;
  }
};

TEST_F(CheckpointFolderTest, TheHighestStepIsTheNewest) {
  for (const std::int64_t step : {7, 1'000, 30}) Save(step);
  Save(9'000'000'000'000);  // more digits than the names have
  Save(999'999'999'999);
  EXPECT_EQ(Newest(), "step-9000000000000.safetensors");
  EXPECT_EQ(warnings_, "");
}

TEST_F(CheckpointFolderTest, AUsersOwnFileIsNoCheckpoint) {
  Save(1);
  for (const char* name :
       {"step-best.safetensors", "step-.safetensors", "step-2.safetensors.bak"}) {
    fs::copy(Path(1), folder_ / name);
  }
  EXPECT_EQ(Newest(), CheckpointName(1));
  RemoveOld(5, {1, 0});
  EXPECT_THAT(Files(),
              ElementsAre("step-.safetensors", "step-2.safetensors.bak", "step-best.safetensors"));
}

TEST_F(CheckpointFolderTest, ADamagedFileIsSetAsideWithAWarning) {
  Save(1);
  SaveWithFlippedBit(2);
  Save(3);
  fs::resize_file(Path(3), fs::file_size(Path(3)) - 1);
  EXPECT_EQ(Newest(), CheckpointName(1));
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(1), CheckpointName(2) + ".corrupt",
                                   CheckpointName(3) + ".corrupt"));
  EXPECT_THAT(warnings_, HasSubstr("[rank 0] warning: checkpoint " + Path(2) +
                                   " is damaged: tensor model.x has a wrong hash. Renamed it to " +
                                   Path(2) + ".corrupt; looking for an older one\n"));
  EXPECT_THAT(warnings_, HasSubstr("checkpoint " + Path(3) + " is damaged: it is too short"));
  EXPECT_EQ(Newest(), CheckpointName(1));
  EXPECT_EQ(warnings_, "") << "it was said";
}

TEST_F(CheckpointFolderTest, WhatAnotherRunSetAsideIsNotReplaced) {
  Save(1);
  SaveWithFlippedBit(2);
  std::ofstream(Path(2) + ".corrupt") << "theirs";
  EXPECT_EQ(Newest(), CheckpointName(1));
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(1), CheckpointName(2) + ".2.corrupt",
                                   CheckpointName(2) + ".corrupt"));
  EXPECT_EQ(test::ReadFile(Path(2) + ".corrupt"), "theirs");
}

TEST_F(CheckpointFolderTest, ADamagedFileThatCannotBeRenamedIsSkippedAllTheSame) {
  Save(1);
  SaveWithFlippedBit(2);
  for (const char* const name : {"", ".2", ".3", ".4", ".5", ".6", ".7", ".8", ".9"}) {
    std::ofstream(Path(2) + name + ".corrupt") << "theirs";
  }
  EXPECT_EQ(Newest(), CheckpointName(1));
  EXPECT_THAT(warnings_,
              HasSubstr("It cannot be renamed to " + Path(2) + ".9.corrupt (File exists)"));
  EXPECT_EQ(test::ReadFile(Path(2) + ".9.corrupt"), "theirs");
}

TEST_F(CheckpointFolderTest, AFileOfANewerFormatIsSkippedAndLeftAlone) {
  Save(1);
  SaveInNewerFormat(2);
  EXPECT_EQ(Newest(), CheckpointName(1));
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(1), CheckpointName(2)));
  EXPECT_THAT(warnings_, HasSubstr("skipping checkpoint " + Path(2) +
                                   ": its format version is 9, expected 1. It is left as it is"));
}

// ---- unreadable files ----

using Result = CheckpointSearch::Result;

TEST_F(CheckpointFolderTest, AFileThatIsNotGivenOutEndsTheSearchAndStaysAsItIs) {
  Save(1);
  Save(2);
  const test::WatchedDisk disk(folder_.path());
  disk.FailOpening(CheckpointName(2), EACCES);
  CheckpointSearch search(0, {folder_.path()});
  EXPECT_EQ(search.Next(), Result::kUnavailable) << "it may be newer than step 1";
  EXPECT_EQ(search.unavailable().path, Path(2));
  EXPECT_EQ(search.unavailable().error, EACCES);
  EXPECT_EQ(search.unavailable().reason, "cannot open it: Permission denied");
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(1), CheckpointName(2)));
  disk.FailOpening(CheckpointName(2), 0);
  search.Restart();
  EXPECT_EQ(search.Next(), Result::kFound);
  EXPECT_EQ(search.path(), Path(2));
}

TEST_F(CheckpointFolderTest, AFileThatHasGoneMeanwhileIsPassedOver) {
  Save(1);
  Save(2);
  const test::WatchedDisk disk(folder_.path());
  disk.FailOpening(CheckpointName(2), ENOENT);
  CheckpointSearch search(0, {folder_.path()});
  EXPECT_EQ(search.Next(), Result::kFound);
  EXPECT_EQ(search.path(), Path(1));
}

// A disk with a lost block.
TEST_F(CheckpointFolderTest, AnInputErrorIsDamageOnceAnOlderFileOfTheFolderWasReadWhole) {
  Save(1);
  Save(2);
  const test::WatchedDisk disk(folder_.path());
  disk.FailReads(CheckpointName(2), EIO);
  CheckpointSearch search(0, {folder_.path()});
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(search.Next(), Result::kFound);
  EXPECT_EQ(search.path(), Path(1));
  EXPECT_TRUE(search.has_put_off());
  EXPECT_TRUE(search.Accept());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("checkpoint " + Path(2) +
                        " is damaged: cannot read its bytes 0 to 8: "
                        "Input/output error, again after an older one"));
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(1), CheckpointName(2))) << "never renamed";
}

TEST_F(CheckpointFolderTest, AnInputErrorThatHasPassedIsNoDamage) {
  Save(1);
  Save(2);
  const test::WatchedDisk disk(folder_.path());
  disk.FailReads(CheckpointName(2), EIO, 0, 1);
  CheckpointSearch search(0, {folder_.path()});
  EXPECT_EQ(search.Next(), Result::kFound);
  EXPECT_EQ(search.path(), Path(1));
  EXPECT_FALSE(search.Accept());
  EXPECT_EQ(search.Next(), Result::kFound);
  EXPECT_EQ(search.path(), Path(2));
  EXPECT_FALSE(search.has_put_off());
}

TEST_F(CheckpointFolderTest, AnInputErrorWithoutAWholeOlderFileMeansThatTheDiskIsUnavailable) {
  Save(1);
  Save(2);
  SaveWithFlippedBit(1);
  const test::WatchedDisk disk(folder_.path());
  disk.FailReads(CheckpointName(2), EIO);
  CheckpointSearch search(0, {folder_.path()});
  EXPECT_EQ(search.Next(), Result::kFound);
  search.SetAside("its hash is wrong");
  EXPECT_EQ(search.Next(), Result::kUnavailable);
  EXPECT_EQ(search.unavailable().path, Path(2));
  EXPECT_EQ(search.unavailable().error, EIO);
}

TEST_F(CheckpointFolderTest, AFileOfAnotherFolderSaysNothingOfTheDisk) {
  Save(2);
  const test::WatchedDisk disk(folder_.path());
  disk.FailReads(CheckpointName(2), EIO);
  const ddprun::TempDir other;
  fs::copy(Path(2), other / CheckpointName(2));
  CheckpointSearch search(0, {folder_.path(), other.path()});
  EXPECT_EQ(search.Next(), Result::kFound);
  EXPECT_EQ(search.path(), other / CheckpointName(2));
  EXPECT_FALSE(search.Accept());
  EXPECT_EQ(search.Next(), Result::kUnavailable);
}

TEST_F(CheckpointFolderTest, AFolderThatCannotBeListedMayHoldTheNewest) {
  Save(1);
  const std::string file = folder_ / "file";
  std::ofstream(file) << "in the way";
  CheckpointSearch search(0, {file, folder_.path()});
  EXPECT_EQ(search.Next(), Result::kUnavailable);
  EXPECT_EQ(search.unavailable().error, ENOTDIR);
  constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
  CheckpointSearch lenient(0, {file, folder_.path()}, kHighest,
                           CheckpointSearch::FolderErrors::kCountInTheEnd);
  EXPECT_EQ(lenient.Next(), Result::kFound) << "what is looked for is here";
  EXPECT_EQ(lenient.Next(), Result::kUnavailable);
}

TEST_F(CheckpointFolderTest, WhatCannotBeLoadedIsNamedAlsoTheNextTime) {
  SaveWithFlippedBit(1);
  SaveInNewerFormat(2);
  EXPECT_EQ(Newest(), "none");
  CheckpointSearch search(0, {folder_.path()});
  EXPECT_EQ(search.Next(), Result::kNone);
  EXPECT_THAT(search.rejected(), ElementsAre(Path(1) + ".corrupt: it was found damaged before",
                                             Path(2) + ": its format version is 9, expected 1"));
}

TEST_F(CheckpointFolderTest, OnlyTheNewestUpToTheOneJustSavedAreKept) {
  for (const std::int64_t step : {10, 20, 30, 40}) Save(step);
  RemoveOld(40, {2, 0});
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(30), CheckpointName(40)));
  RemoveOld(40, {1, 0});
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(40)));
}

// Seen red when files kept by keep_every were removed once they were not among the newest.
TEST_F(CheckpointFolderTest, MilestonesAreKeptForGood) {
  for (const std::int64_t step : {50, 100, 150, 200, 230, 240}) Save(step);
  RemoveOld(240, {2, 100});
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(100), CheckpointName(200), CheckpointName(230),
                                   CheckpointName(240)));
}

// The file is whole; only its name is wrong. Seen red without the check, when step 2's state was
// loaded as step 9's; and when the file was renamed as damaged.
TEST_F(CheckpointFolderTest, AFileUnderTheNameOfAnotherStepIsSkippedAndLeftAlone) {
  Save(1);
  Save(2);
  fs::rename(Path(2), Path(9));
  EXPECT_EQ(Newest(), CheckpointName(1));
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(1), CheckpointName(9)));
  EXPECT_THAT(warnings_, HasSubstr("skipping checkpoint " + Path(9) +
                                   ": it holds step '2', not the one that its name says"));
}

TEST_F(CheckpointFolderTest, FilesOfHigherStepsAreNeitherCountedNorRemoved) {
  for (const std::int64_t step : {10, 20, 30, 800, 900, 1'000}) Save(step);
  RemoveOld(30, {2, 0});
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(20), CheckpointName(30), CheckpointName(800),
                                   CheckpointName(900), CheckpointName(1'000)));
}

TEST_F(CheckpointFolderTest, UnreadableFilesAreNeitherCountedNorRemoved) {
  for (const std::int64_t step : {10, 20, 30, 40, 60}) Save(step);
  fs::resize_file(Path(40), 20);
  SaveInNewerFormat(50);
  fs::rename(Path(30), Path(55));
  RemoveOld(60, {2, 0});
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(20), CheckpointName(40), CheckpointName(50),
                                   CheckpointName(55), CheckpointName(60)));
}

// Seen red when every readable file was counted and removed, as in versions without run ids: this
// removed the files of another training in this folder.
TEST_F(CheckpointFolderTest, OnlyFilesOfThisRunAndOfTheOneItWentOnFromAreRemoved) {
  Save(10, "");  // of an older version
  Save(20, "grandparent");
  Save(30, "parent");
  Save(40, "stranger");
  for (const std::int64_t step : {50, 60}) Save(step);
  Lineage lineage = Ours();
  lineage.Loaded({{"ddprun_run", "parent"}, {"ddprun_descends_from", "grandparent"}});
  Metadata metadata;
  lineage.AddTo(&metadata);
  RemoveOldCheckpoints(folder_.path(), 60, {1, 0}, Lineage::Of(metadata));
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(10), CheckpointName(20), CheckpointName(40),
                                   CheckpointName(60)));
  EXPECT_EQ(Newest(), CheckpointName(60));
  fs::remove(Path(60));
  fs::remove(Path(40));
  fs::remove(Path(20));
  EXPECT_EQ(Newest(), CheckpointName(10)) << "one that names no run is loaded all the same";
}

TEST_F(CheckpointFolderTest, FilesOfOtherRunsDoNotCount) {
  for (const std::int64_t step : {10, 20, 30}) Save(step);
  for (const std::int64_t step : {25, 28, 29}) Save(step, "stranger");
  RemoveOld(30, {2, 0});
  EXPECT_THAT(Files(), ElementsAre(CheckpointName(20), CheckpointName(25), CheckpointName(28),
                                   CheckpointName(29), CheckpointName(30)));
}

class PublishTest : public CheckpointFolderTest {
 protected:
  // Returns "saved", or the error. The file contains "new".
  std::string Publish(std::int64_t step) {
    CheckpointImage image{step, {{{"model.x", "U8", {3}}, "new", 3}}, {{"ddprun_run", "ours"}}};
    FolderOwner owner(folder_.path(), std::nullopt);
    try {
      SaveCheckpoint(folder_.path(), std::move(image), &owner);
      return "saved";
    } catch (const CheckpointError& e) {
      return e.what();
    }
  }
  bool HasNew(std::int64_t step) const { return test::ReadFile(Path(step)).ends_with("new"); }
};

// Seen red with rename(2) alone, which replaces an existing file.
TEST_F(PublishTest, ReplacesAFileOfItsOwnRunAndNoOther) {
  Save(10);
  Save(20, "stranger");
  Save(30, "");
  Save(40);
  fs::resize_file(Path(40), 20);
  const std::string kept = "; it is kept";
  // On a disk, on a file system without RENAME_NOREPLACE, and on one without link(2) either.
  for (const bool has_rename : {true, false}) {
    for (const bool has_link : {true, false}) {
      test::WatchedDisk disk(folder_.path());
      if (!has_rename) disk.Fail(test::DiskCall::Kind::kRenameToFree, EINVAL);
      if (!has_link) disk.Fail(test::DiskCall::Kind::kLink, EPERM);
      SCOPED_TRACE(std::to_string(has_rename) + std::to_string(has_link));
      EXPECT_EQ(Publish(5), "saved");
      EXPECT_TRUE(HasNew(5));
      EXPECT_EQ(Publish(5), "saved");
      EXPECT_EQ(Publish(10), "saved");
      EXPECT_TRUE(HasNew(10));
      EXPECT_EQ(Publish(20),
                "there is a file " + Path(20) + " already, of another run, 'stranger'" + kept);
      EXPECT_EQ(Publish(30),
                "there is a file " + Path(30) + " already, of an older version" + kept);
      EXPECT_EQ(Publish(40),
                "there is a file " + Path(40) + " already, which cannot be read" + kept);
      for (const std::int64_t step : {20, 30, 40}) EXPECT_FALSE(HasNew(step)) << step;
      EXPECT_THAT(Files(), ElementsAre(CheckpointName(5), CheckpointName(10), CheckpointName(20),
                                       CheckpointName(30), CheckpointName(40)))
          << "no temporary is left";
      fs::remove(Path(5));
    }
  }
}

}  // namespace checkpoint_folder_test
}  // namespace ddp::internal
