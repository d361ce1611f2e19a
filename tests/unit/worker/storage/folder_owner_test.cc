#include "worker/src/storage/folder_owner.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "tests/support/temp_dir.h"
#include "worker/src/storage/checkpoint_folder.h"

namespace ddp::internal {
namespace folder_owner_test {

namespace fs = std::filesystem;
using ddprun::CheckpointOwner;
using ::testing::HasSubstr;

class FolderOwnerTest : public ::testing::Test {
 protected:
  FolderOwner Process(const std::string& job, int epoch, int generation) const {
    return {folder_.path(), CheckpointOwner{job, epoch, generation}};
  }
  // "saved", or why not.
  static std::string Save(FolderOwner& process) {
    bool called = false;
    try {
      process.Guard([&] { called = true; });
    } catch (const CheckpointError& e) {
      return called ? "called, and " + std::string(e.what()) : e.what();
    }
    return called ? "saved" : "not called";
  }
  std::string Owner() const {
    const auto owner = ddprun::ReadOwner(folder_.path());
    return owner ? ddprun::Describe(*owner) : "nobody";
  }

  ddprun::TempDir folder_;
};

// Seen red, with most of the others, when a successor was not looked for.
TEST_F(FolderOwnerTest, ALaterLifeTakesOverAndTheEarlierOneIsRefusedForGood) {
  FolderOwner earlier = Process("17", 0, 4);
  FolderOwner later = Process("17", 1, 0);
  EXPECT_EQ(Owner(), "nobody");
  EXPECT_EQ(Save(earlier), "saved");
  EXPECT_EQ(Save(later), "saved");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Save(earlier), "the folder " + folder_.path() +
                                 " belongs to epoch 1, generation 0, of job 17, and this is what "
                                 "is left of epoch 0, generation 4, of job 17");
  }
  EXPECT_EQ(Owner(), "epoch 1, generation 0, of job 17");
  EXPECT_EQ(Save(later), "saved");
}

TEST_F(FolderOwnerTest, AnEarlierLifeIsRefusedAlsoWithItsFirstSave) {
  FolderOwner later = Process("17", 2, 0);
  FolderOwner earlier = Process("17", 1, 9);
  EXPECT_EQ(Save(later), "saved");
  EXPECT_THAT(Save(earlier), HasSubstr("belongs to epoch 2"));
}

TEST_F(FolderOwnerTest, AnEarlierGenerationIsRefused) {
  FolderOwner first = Process("job", 0, 0);
  FolderOwner second = Process("job", 0, 1);
  EXPECT_EQ(Save(first), "saved");
  EXPECT_EQ(Save(second), "saved");
  EXPECT_THAT(Save(first), HasSubstr("belongs to epoch 0, generation 1"));
}

// A name like --rdzv-id=train is used for one run after the other.
TEST_F(FolderOwnerTest, ANewRunWithTheNameOfAnEarlierOneMaySave) {
  FolderOwner earlier_run = Process("train", 0, 5);
  EXPECT_EQ(Save(earlier_run), "saved");
  FolderOwner run = Process("train", 0, 0);
  EXPECT_EQ(Save(run), "saved");
  EXPECT_EQ(Owner(), "epoch 0, generation 0, of job train");
}

TEST_F(FolderOwnerTest, AnotherJobThatSavesHereFromNowOnHasTheFolder) {
  FolderOwner one = Process("1", 0, 0);
  FolderOwner another = Process("2", 0, 0);
  EXPECT_EQ(Save(one), "saved");
  EXPECT_EQ(Save(another), "saved");
  EXPECT_THAT(Save(one), HasSubstr("of job 2, and this is what is left of"));
  EXPECT_EQ(Save(another), "saved");
}

TEST_F(FolderOwnerTest, NobodyIsAskedWithoutALauncher) {
  FolderOwner owner = Process("17", 3, 0);
  EXPECT_EQ(Save(owner), "saved");
  FolderOwner alone(folder_.path(), OwnerOfProcess([](const char*) { return nullptr; }));
  EXPECT_EQ(Save(alone), "saved");
  EXPECT_EQ(Owner(), "epoch 3, generation 0, of job 17");
}

TEST_F(FolderOwnerTest, ALineThatACrashHasCutIsNobodys) {
  for (const char* const text : {"", "2", "2 1", "2 1 17", "two 1 17\n", "-2 1 17\n"}) {
    std::ofstream(folder_ / "owner") << text;
    FolderOwner process = Process("17", 0, 0);
    EXPECT_EQ(Save(process), "saved") << text;
    EXPECT_EQ(Owner(), "epoch 0, generation 0, of job 17") << text;
  }
}

TEST_F(FolderOwnerTest, NamesAreOfAnyLengthAndHaveSpaces) {
  const std::string name = "a job with " + std::string(300, 'x');
  FolderOwner process = Process(name, 0, 12);
  EXPECT_EQ(Save(process), "saved");
  EXPECT_EQ(Owner(), "epoch 0, generation 12, of job " + name);
  FolderOwner shorter = Process("b", 1, 0);
  EXPECT_EQ(Save(shorter), "saved");
  EXPECT_EQ(Owner(), "epoch 1, generation 0, of job b");
}

TEST_F(FolderOwnerTest, TheLockIsHeldWhileTheFilesChange) {
  FolderOwner process = Process("17", 0, 0);
  bool locked = false;
  process.Guard([&] {
    ddprun::OwnerFile other(folder_.path(), ddprun::OwnerFile::For::kReading);
    try {
      other.Lock(std::chrono::milliseconds(0));
    } catch (const std::system_error& e) {
      locked = e.code() == std::errc::operation_would_block;
    }
  });
  EXPECT_TRUE(locked);
}

// Seen red without the guard around the rename.
TEST_F(FolderOwnerTest, ARefusedCheckpointLeavesNothing) {
  const auto image = [](const char* text) {
    return CheckpointImage{7, {{{"model.x", "U8", {3}}, text, 3}}, {}};
  };
  FolderOwner earlier = Process("17", 0, 0);
  FolderOwner later = Process("17", 1, 0);
  SaveCheckpoint(folder_.path(), image("old"), &earlier);
  const std::string path = SaveCheckpoint(folder_.path(), image("new"), &later);
  EXPECT_THROW(SaveCheckpoint(folder_.path(), image("bad"), &earlier), CheckpointError);
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(content.substr(content.size() - 3), "new");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_.path())) ++files;
  EXPECT_EQ(files, 2);  // the checkpoint and the owner
}

}  // namespace folder_owner_test
}  // namespace ddp::internal
