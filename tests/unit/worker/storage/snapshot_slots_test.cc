#include "worker/src/storage/snapshot_slots.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <optional>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "tests/unit/worker/support/newest_checkpoint.h"

namespace ddp::internal {
namespace snapshot_slots_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SnapshotSlotsTest : public ::testing::Test {
 protected:
  // Makes a snapshot of `bytes` bytes with the value `fill`.
  static void Make(SnapshotSlots* slots, std::int64_t step, std::size_t bytes, char fill,
                   const std::string& text = "") {
    std::byte* const memory = slots->Begin(bytes);
    std::memset(memory, fill, bytes);
    slots->Publish(Image(step, memory, bytes, text));
  }
  static CheckpointImage Image(std::int64_t step, const std::byte* memory, std::size_t bytes,
                               const std::string& text) {
    CheckpointImage image;
    image.step = step;
    image.tensors = {{{"x", "U8", {static_cast<std::int64_t>(bytes)}}, memory, bytes}};
    image.metadata = {{"text", text}};
    return image;
  }
  std::vector<std::string> Files() const { return test::FilesIn(folder_.path()); }
  // The newest whole snapshot, "<step> <its bytes>", or "nothing".
  std::string Newest() const {
    CheckpointSearch search(0, {folder_.path()});
    if (search.Next() != CheckpointSearch::Result::kFound) return "nothing";
    test::Verify(search.file());
    return search.file().metadata().at("step") + " " +
           test::Content(search.file(), search.file().tensors()[0]);
  }
  ino_t Inode(const std::string& name) const {
    struct stat status = {};
    EXPECT_EQ(stat((folder_ / name).c_str(), &status), 0) << name;
    return status.st_ino;
  }

  ddprun::TempDir folder_;
};

constexpr char kStep1[] = "step-000000000001.safetensors";
constexpr char kStep2[] = "step-000000000002.safetensors";
constexpr char kStep3[] = "step-000000000003.safetensors";

TEST_F(SnapshotSlotsTest, TheNewestIsThereWhileTheNextIsWritten) {
  SnapshotSlots slots(folder_.path(), std::nullopt);
  slots.Prepare(4);
  EXPECT_EQ(Newest(), "nothing");
  Make(&slots, 1, 4, 'a');
  EXPECT_EQ(Newest(), "1 aaaa");
  Make(&slots, 2, 4, 'b');
  EXPECT_EQ(Newest(), "2 bbbb");
  std::byte* const third = slots.Begin(4);
  EXPECT_EQ(Newest(), "2 bbbb") << "and the slot that is written to is no snapshot";
  EXPECT_THAT(Files(), ElementsAre("slot-0.tmp", kStep2));
  std::memset(third, 'c', 4);
  EXPECT_EQ(Newest(), "2 bbbb");
  slots.Publish(Image(3, third, 4, ""));
  EXPECT_EQ(Newest(), "3 cccc");
  EXPECT_THAT(Files(), ElementsAre(kStep2, kStep3));
}

TEST_F(SnapshotSlotsTest, TheMemoryIsUsedAgainAndAgain) {
  SnapshotSlots slots(folder_.path(), std::nullopt);
  slots.Prepare(4);
  Make(&slots, 1, 4, 'a');
  const ino_t first = Inode(kStep1);
  Make(&slots, 2, 4, 'b');
  EXPECT_TRUE(slots.Fits(4));
  EXPECT_NE(Inode(kStep2), first);
  Make(&slots, 3, 4, 'c');
  EXPECT_EQ(Inode(kStep3), first);
}

TEST_F(SnapshotSlotsTest, ASuccessorKeepsWhatItResumedFromAndTakesTheMemoryOver) {
  ino_t first = 0;
  {
    SnapshotSlots slots(folder_.path(), std::nullopt);
    Make(&slots, 1, 4, 'a');
    Make(&slots, 2, 4, 'b');
    first = Inode(kStep1);
  }
  SnapshotSlots next(folder_.path(), 2);
  next.Prepare(4);
  EXPECT_EQ(Newest(), "2 bbbb");
  std::byte* const memory = next.Begin(4);
  EXPECT_EQ(Newest(), "2 bbbb");
  std::memset(memory, 'c', 4);
  next.Publish(Image(3, memory, 4, ""));
  EXPECT_EQ(Newest(), "3 cccc");
  EXPECT_EQ(Inode(kStep3), first);
  Make(&next, 4, 4, 'd');
  EXPECT_EQ(Newest(), "4 dddd");
}

TEST_F(SnapshotSlotsTest, WhatIsNewerThanTheKeptOneIsOfADeadTimeline) {
  {
    SnapshotSlots slots(folder_.path(), std::nullopt);
    Make(&slots, 2, 4, 'b');
    Make(&slots, 3, 4, 'c');
  }
  SnapshotSlots next(folder_.path(), 2);
  EXPECT_EQ(Newest(), "2 bbbb");
}

// Another node had the state from which this process resumed. If that node is lost, the rendezvous
// relies on the older snapshot of this node.
TEST_F(SnapshotSlotsTest, WhereAnotherNodeHadTheStateTheNewestBeforeIsKept) {
  {
    SnapshotSlots slots(folder_.path(), std::nullopt);
    Make(&slots, 1, 4, 'a');
    Make(&slots, 2, 4, 'b');
  }
  SnapshotSlots slots(folder_.path(), 3);
  slots.Prepare(4);
  EXPECT_EQ(Newest(), "2 bbbb");
  Make(&slots, 4, 4, 'd');
  EXPECT_EQ(Newest(), "4 dddd");
}

TEST_F(SnapshotSlotsTest, AWriterThatWasKilledLeavesTheOtherOne) {
  {
    SnapshotSlots slots(folder_.path(), std::nullopt);
    Make(&slots, 1, 4, 'a');
    Make(&slots, 2, 4, 'b');
    std::memset(slots.Begin(4), 'c', 4);
  }
  EXPECT_EQ(Newest(), "2 bbbb");
  SnapshotSlots next(folder_.path(), 2);
  next.Prepare(4);
  Make(&next, 3, 4, 'd');
  EXPECT_EQ(Newest(), "3 dddd");
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(SnapshotSlotsTest, TheStateMayGrowAndSoMayItsTexts) {
  SnapshotSlots slots(folder_.path(), std::nullopt);
  slots.Prepare(4);
  Make(&slots, 1, 4, 'a');
  Make(&slots, 2, 9000, 'b');
  EXPECT_EQ(Newest(), "2 " + std::string(9000, 'b'));
  Make(&slots, 3, 9000, 'c', std::string(200'000, 't'));
  EXPECT_EQ(Newest(), "3 " + std::string(9000, 'c'));
  Make(&slots, 4, 9000, 'd', std::string(300'000, 't'));
  Make(&slots, 5, 9000, 'e', std::string(300'000, 't'));
  EXPECT_EQ(Newest(), "5 " + std::string(9000, 'e'));
  Make(&slots, 6, 3, 'f');
  EXPECT_EQ(Newest(), "6 fff");
}

TEST_F(SnapshotSlotsTest, TheSameStepAgainTakesThePlaceOfTheFirst) {
  SnapshotSlots slots(folder_.path(), std::nullopt);
  Make(&slots, 1, 4, 'a');
  Make(&slots, 1, 4, 'b');
  EXPECT_EQ(Newest(), "1 bbbb");
  Make(&slots, 2, 4, 'c');
  Make(&slots, 3, 4, 'd');
  EXPECT_EQ(Newest(), "3 dddd");
}

TEST_F(SnapshotSlotsTest, NoRoomIsAnErrorThatSaysHowMuchThereIs) {
  SnapshotSlots slots(folder_.path(), std::nullopt);
  Make(&slots, 1, 4, 'a');
  try {
    slots.Prepare(std::size_t{1} << 50);
    ADD_FAILURE() << "no error";
  } catch (const CheckpointError& e) {
    EXPECT_THAT(e.what(), ::testing::ContainsRegex(
                              "two snapshots of 1073741824 MiB need 21474837.. MiB more"));
    EXPECT_THAT(e.what(), HasSubstr("MiB in " + folder_.path()));
  }
  EXPECT_EQ(Newest(), "1 aaaa");
}

TEST_F(SnapshotSlotsTest, AFolderThatIsNotThereIsAnError) {
  SnapshotSlots slots(folder_ / "none", std::nullopt);
  EXPECT_THROW(slots.Prepare(4), CheckpointError);
  EXPECT_THROW(slots.Begin(4), CheckpointError);
  EXPECT_THAT(Files(), IsEmpty());
}

}  // namespace snapshot_slots_test
}  // namespace ddp::internal
