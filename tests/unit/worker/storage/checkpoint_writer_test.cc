#include "worker/src/storage/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/disk.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "tests/unit/worker/support/newest_checkpoint.h"

namespace ddp::internal {
namespace checkpoint_writer_test {

namespace fs = std::filesystem;
using test::DiskCall;
using test::WatchedDisk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = DiskCall::Kind;

class CheckpointWriterTest : public ::testing::Test {
 protected:
  // An image of bytes that live as long as the test.
  CheckpointImage Image(std::int64_t step) {
    return {step, {{{"model.x", "U8", {3}}, "abc", 3}}, {{"ddprun_run", "ours"}}};
  }

  CheckpointWriter::Events Events() {
    return {[this](std::int64_t step, const std::string& path, std::chrono::nanoseconds took) {
              events_.push_back("durable " + std::to_string(step) + " " + path);
              took_ = took;
            },
            [this](std::int64_t step, std::int64_t failures, const std::string& reason) {
              events_.push_back("failed " + std::to_string(step) + " " + std::to_string(failures) +
                                " " + reason);
            }};
  }

  // Saves, waits, and returns the output on stderr.
  std::string Save(CheckpointWriter& writer, std::int64_t step) {
    ::testing::internal::CaptureStderr();
    writer.Start(Image(step));
    writer.Wait();
    return ::testing::internal::GetCapturedStderr();
  }

  std::string Path(std::int64_t step) const { return folder_ / CheckpointName(step); }

  ddprun::TempDir folder_;
  // Read when no writer is busy.
  std::vector<std::string> events_;
  std::chrono::nanoseconds took_{0};
};

TEST_F(CheckpointWriterTest, SaysWhenACheckpointIsOnDisk) {
  CheckpointWriter writer(folder_.path(), {2, 0}, Events());
  EXPECT_EQ(writer.status().durable_step, -1);
  EXPECT_EQ(Save(writer, 7), "");
  EXPECT_THAT(events_, ElementsAre("durable 7 " + Path(7)));
  const SaveStatus status = writer.status();
  EXPECT_EQ(status.saved, 1);
  EXPECT_EQ(status.durable_step, 7);
  EXPECT_EQ(status.durable_path, Path(7));
  EXPECT_FALSE(status.writing);
  EXPECT_NE(test::FindNewest(folder_.path()), nullptr);
}

// Like a GPU that copies the tensors while training continues.
TEST_F(CheckpointWriterTest, WaitsForBytesThatAreStillOnTheirWay) {
  CheckpointWriter writer(folder_.path(), {2, 0}, Events());
  std::string bytes = "???";
  std::promise<void> wait;
  std::promise<void> arrive;
  CheckpointImage image = {1, {{{"model.x", "U8", {3}}, bytes.data(), 3}}, {}};
  image.await = [&bytes, &wait, arrived = arrive.get_future().share()] {
    wait.set_value();
    arrived.wait();
    bytes = "abc";
    return true;
  };
  const auto start = std::chrono::steady_clock::now();
  writer.Start(std::move(image));
  EXPECT_TRUE(writer.busy());
  wait.get_future().wait();
  const auto waits = std::chrono::steady_clock::now();
  EXPECT_THAT(test::FilesIn(folder_.path()), IsEmpty());
  const auto waited = std::chrono::steady_clock::now() - waits;
  arrive.set_value();
  writer.Wait();
  EXPECT_GE(took_, waited) << "the wait is a part of what it took";
  EXPECT_LE(took_, std::chrono::steady_clock::now() - start);
  EXPECT_THAT(test::ReadFile(Path(1)), ::testing::EndsWith("abc"));
}

TEST_F(CheckpointWriterTest, BytesThatAreWorthNothingAreNotSaved) {
  CheckpointWriter writer(folder_.path(), {2, 0}, Events());
  Save(writer, 1);
  CheckpointImage image = Image(2);
  image.await = [] { return false; };
  ::testing::internal::CaptureStderr();
  writer.Start(std::move(image));
  writer.Wait();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "")
      << "the loss of the rank is told elsewhere";
  EXPECT_THAT(test::FilesIn(folder_.path()), ElementsAre(CheckpointName(1)));
  EXPECT_EQ(writer.status().failed, 0);
  EXPECT_EQ(writer.status().saved, 1);
}

// With every error of the disk, training continues, the earlier file is unchanged, and nothing is
// left of the failed one. Seen red when the exception left the writer's thread (std::terminate).
TEST_F(CheckpointWriterTest, ADiskThatFailsCostsACheckpointAndNoMore) {
  CheckpointWriter writer(folder_.path(), {1, 0}, Events());
  Save(writer, 1);
  const std::vector<std::pair<Kind, int>> faults = {
      {Kind::kWrite, ENOSPC}, {Kind::kWrite, EDQUOT},  {Kind::kCreate, EROFS},
      {Kind::kWrite, EIO},    {Kind::kSyncFile, EIO},  {Kind::kCreate, EACCES},
      {Kind::kRename, EROFS}, {Kind::kCreate, ENOSPC}, {Kind::kSyncFolder, EIO}};
  std::int64_t step = 1;
  std::int64_t failures = 0;
  for (const auto& [kind, error] : faults) {
    WatchedDisk disk(folder_.path());
    disk.Fail(kind, error);
    const std::string said = Save(writer, ++step);
    ++failures;
    const std::string number = std::to_string(step);
    EXPECT_THAT(said, AllOf(HasSubstr("[rank 0] warning: checkpoint of step " + number +
                                      " is not saved: cannot "),
                            HasSubstr(folder_.path()), HasSubstr(std::strerror(error)),
                            HasSubstr(". Training goes on; the newest checkpoint is " + Path(1) +
                                      "; the next save tries again. Failed so far: " +
                                      std::to_string(failures) + "\n")));
    EXPECT_THAT(events_.back(),
                HasSubstr("failed " + number + " " + std::to_string(failures) + " cannot "));
    EXPECT_EQ(writer.status().failed, failures);
    EXPECT_THAT(writer.status().error, HasSubstr(std::strerror(error)));
    std::vector<std::string> left = {CheckpointName(1)};
    // If the folder cannot be synced, the new file is in it, but a power failure could remove the
    // new file. So the old file stays.
    if (kind == Kind::kSyncFolder) left.push_back(CheckpointName(step));
    EXPECT_EQ(test::FilesIn(folder_.path()), left) << std::strerror(error);
  }
  EXPECT_EQ(Save(writer, 100), "");
  EXPECT_EQ(writer.status().error, "");
  EXPECT_EQ(writer.status().saved, 2);
  EXPECT_THAT(test::FilesIn(folder_.path()), ElementsAre(CheckpointName(100)));
}

TEST_F(CheckpointWriterTest, AFolderThatVanishedIsMadeAnewWithAWarning) {
  const std::string folder = folder_ / "ckpt";
  CheckpointWriter writer(folder, {2, 0}, Events());
  EXPECT_EQ(Save(writer, 1), "") << "there was none before";
  fs::remove_all(folder);
  EXPECT_EQ(Save(writer, 2), "[rank 0] warning: the checkpoint folder " + folder +
                                 " has vanished, and with it the checkpoints that were there; "
                                 "making it anew\n");
  EXPECT_THAT(test::FilesIn(folder), ElementsAre(CheckpointName(2)));
}

TEST_F(CheckpointWriterTest, ANewFolderIsSyncedInItsParent) {
  WatchedDisk disk(folder_.path());
  {
    CheckpointWriter writer(folder_ / "a/b", {2, 0}, Events());
    Save(writer, 1);
  }
  std::vector<std::string> calls;
  for (const DiskCall& call : disk.calls()) {
    if (call.kind == Kind::kMakeFolder) calls.push_back("make " + call.path);
    if (call.kind == Kind::kSyncFolder) calls.push_back("sync " + call.path);
  }
  EXPECT_THAT(calls, ElementsAre("make a", "sync ", "make a/b", "sync a", "sync a/b"));
}

// The disk is slow until the test releases it. `durable` is called on the writer's thread.
TEST_F(CheckpointWriterTest, IsBusyUntilDoneAndTheNextStartWaits) {
  std::promise<void> may_end;
  std::promise<void> is_there;
  CheckpointWriter::Events events = Events();
  bool first = true;
  events.durable = [&](std::int64_t step, const std::string&, std::chrono::nanoseconds) {
    events_.push_back("durable " + std::to_string(step));
    if (!std::exchange(first, false)) return;
    is_there.set_value();
    may_end.get_future().wait();
  };
  CheckpointWriter writer(folder_.path(), {2, 0}, events);
  writer.Start(Image(1));
  is_there.get_future().wait();
  EXPECT_TRUE(writer.busy());
  const auto second = std::async(std::launch::async, [&] { writer.Start(Image(2)); });
  may_end.set_value();
  second.wait();
  writer.Wait();
  EXPECT_FALSE(writer.busy());
  EXPECT_THAT(events_, ElementsAre("durable 1", "durable 2"));
}

TEST_F(CheckpointWriterTest, TheDestructorWaits) {
  {
    CheckpointWriter writer(folder_.path(), {2, 0}, Events());
    writer.Start(Image(1));
  }
  EXPECT_THAT(events_, ElementsAre("durable 1 " + Path(1)));
  { const CheckpointWriter unused(folder_.path(), {2, 0}, Events()); }
}

// A file that is on disk is not removed for a file that may not be: see checkpoint_folder.h.
TEST_F(CheckpointWriterTest, OldFilesAreRemovedOnlyAfterTheFolderIsSynced) {
  CheckpointWriter writer(folder_.path(), {1, 0}, Events());
  Save(writer, 1);
  WatchedDisk disk(folder_.path());
  Save(writer, 2);
  std::vector<Kind> kinds;
  for (const DiskCall& call : disk.calls()) kinds.push_back(call.kind);
  EXPECT_THAT(kinds, ElementsAre(Kind::kCreate, Kind::kWrite, Kind::kWrite, Kind::kSyncFile,
                                 Kind::kRename, Kind::kSyncFolder, Kind::kRemove));
}

}  // namespace checkpoint_writer_test
}  // namespace ddp::internal
