#include "rendezvous/store/file_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/store/journal_reader.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rendezvous/store/crash_file_system.h"
#include "tests/unit/rendezvous/store/store_driver.h"

namespace ddprun {
namespace file_store_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Op = CrashFileSystem::Op;

FileStore::Options OptionsFor(const std::string& directory) {
  FileStore::Options options;
  options.journal.directory = directory;
  options.first_retry = std::chrono::milliseconds(1);
  options.last_retry = std::chrono::milliseconds(1);
  return options;
}

Entries MustLoad(FileStore& store) {
  const absl::StatusOr<Entries> loaded = store.Load();
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *loaded : Entries{};
}

void CommitAndWait(FileStore& store, const Store::Batch& batch) {
  Listener listener;
  store.Commit(batch, listener.Done());
  listener.WaitForDone(1);
}

int ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST(FileStoreTest, ANewProcessFindsWhatWasCommitted) {
  const TempDir dir;
  const std::string state = dir / "deep/state";
  {
    FileStore store(OptionsFor(state), nullptr);
    EXPECT_THAT(MustLoad(store), IsEmpty());
    CommitAndWait(store, {{"a", "1"}, {"b", std::string("\0\xFF", 2)}});
    CommitAndWait(store, {{"a", std::nullopt}, {"c", ""}});
  }
  {
    FileStore store(OptionsFor(state), nullptr);
    EXPECT_EQ(MustLoad(store), (Entries{{"b", std::string("\0\xFF", 2)}, {"c", ""}}));
    CommitAndWait(store, {{"d", "4"}});
  }
  FileStore store(OptionsFor(state), nullptr);
  EXPECT_EQ(MustLoad(store), (Entries{{"b", std::string("\0\xFF", 2)}, {"c", ""}, {"d", "4"}}));
}

TEST(FileStoreTest, NobodyElseCanReadIt) {
  const TempDir dir;
  FileStore store(OptionsFor(dir / "state"), nullptr);
  MustLoad(store);
  EXPECT_EQ(ModeOf(dir / "state"), 0700);
  EXPECT_EQ(ModeOf(dir / "state/journal"), 0600);
  EXPECT_EQ(ModeOf(dir / "state/lock"), 0600);
}

TEST(FileStoreTest, AFolderHasOneOwnerWhoIsNamed) {
  const TempDir dir;
  std::optional<FileStore> first(std::in_place, OptionsFor(dir / "state"), nullptr);
  MustLoad(*first);
  FileStore second(OptionsFor(dir / "state"), nullptr);
  const absl::Status refused = second.Load().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(dir / "state"), HasSubstr(absl::StrCat("(process ", getpid(), ")"))));
  first.reset();
  EXPECT_TRUE(second.Load().ok());
}

TEST(FileStoreTest, WhatAnInterruptedCompactionLeftIsRemoved) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "state");
  std::ofstream(dir / "state/journal.tmp") << "half";
  FileStore store(OptionsFor(dir / "state"), nullptr);
  MustLoad(store);
  EXPECT_FALSE(std::filesystem::exists(dir / "state/journal.tmp"));
}

TEST(FileStoreTest, ATornTailIsCutOffAndReported) {
  const TempDir dir;
  const std::string path = dir / "state/journal";
  {
    FileStore store(OptionsFor(dir / "state"), nullptr);
    MustLoad(store);
    CommitAndWait(store, {{"a", "1"}});
  }
  const auto size = std::filesystem::file_size(path);
  std::ofstream(path, std::ios::app) << "half a record";
  Listener listener;
  FileStore store(OptionsFor(dir / "state"), listener.Log());
  EXPECT_EQ(MustLoad(store), (Entries{{"a", "1"}}));
  EXPECT_THAT(listener.lines(),
              ElementsAre(path + ": cut 13 bytes off its end, of a write that was interrupted"));
  EXPECT_LE(std::filesystem::file_size(path), size + 40);  // a mark
}

TEST(FileStoreTest, ADamagedJournalIsRefusedAndLeftAsItIs) {
  const TempDir dir;
  const std::string path = dir / "state/journal";
  {
    FileStore store(OptionsFor(dir / "state"), nullptr);
    MustLoad(store);
    CommitAndWait(store, {{"a", "1"}});
  }
  std::fstream file(path, std::ios::in | std::ios::out);
  file.seekp(100);
  file.put('X');
  file.close();
  const auto size = std::filesystem::file_size(path);
  FileStore store(OptionsFor(dir / "state"), nullptr);
  const absl::Status status = store.Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": damaged at byte 48"));
  EXPECT_EQ(std::filesystem::file_size(path), size);
}

TEST(FileStoreTest, TheJournalStaysInProportionToWhatItHolds) {
  const TempDir dir;
  FileStore::Options options = OptionsFor(dir / "state");
  options.journal.compact_above_bytes = 64 << 10;
  {
    FileStore store(options, nullptr);
    MustLoad(store);
    Listener listener;
    for (int i = 0; i < 20'000; ++i) {
      store.Commit(
          {{absl::StrCat("key", i % 100), std::string(100, static_cast<char>('a' + i % 26))}},
          listener.Done());
      if (i % 100 == 99) {
        listener.WaitForDone(i + 1);
        ASSERT_LE(std::filesystem::file_size(dir / "state/journal"), (64u << 10) + 100 * 170);
      }
    }
  }
  FileStore store(options, nullptr);
  const Entries entries = MustLoad(store);
  EXPECT_EQ(entries.size(), 100u);
  EXPECT_EQ(entries.at("key99"), std::string(100, static_cast<char>('a' + 19'999 % 26)));
}

// Seen red with a DirectoryLock that is never replaced: the second process lost its entries.
TEST(FileStoreTest, AFolderThatAnotherProcessHasTakenOverIsLeftAlone) {
  const TempDir dir;
  FileStore::Options options = OptionsFor(dir / "state");
  options.journal.compact_above_bytes = 1024;  // above this size the whole file is rewritten
  Listener listener;
  FileStore first(options, listener.Log());
  MustLoad(first);
  first.Commit({{"a", "1"}}, listener.Done());
  listener.WaitForDone(1);
  std::filesystem::remove(dir / "state/lock");  // like a user who cleans up too much
  first.Commit({{"b", "2"}}, listener.Done());
  listener.WaitForDone(2);  // no other process has the folder
  {
    FileStore second(options, nullptr);
    EXPECT_EQ(MustLoad(second), (Entries{{"a", "1"}, {"b", "2"}}));
    CommitAndWait(second, {{"c", "3"}});
    first.Commit({{"a", std::string(2000, 'x')}}, listener.Done());
    listener.WaitForOutcome(Store::Outcome::kLostRight);
    first.Commit({{"b", "of the first"}}, listener.Done());
    CommitAndWait(second, {{"d", "4"}});
  }
  EXPECT_THAT(listener.lines(), ElementsAre(AllOf(HasSubstr(dir / "state"),
                                                  HasSubstr("belongs to another rendezvous"))));
  FileStore third(options, nullptr);
  EXPECT_EQ(MustLoad(third), (Entries{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}}));
}

// Tests with a file system whose calls can be held or fail.
class FileStoreFaultsTest : public testing::Test {
 protected:
  const std::shared_ptr<CrashFileSystem> files_ = std::make_shared<CrashFileSystem>(1);
  Listener listener_;  // outlives the stores
};

TEST_F(FileStoreFaultsTest, WhatIsCommittedDuringASyncSharesTheNext) {
  FileStore store(OptionsFor("state"), nullptr, files_);
  MustLoad(store);
  std::promise<void> reached;
  std::promise<void> go_on;
  int syncs = 0;
  files_->SetFault([&, gate = go_on.get_future().share()](Op op, int) {
    if (op == Op::kSync && ++syncs == 1) {
      reached.set_value();
      gate.wait();
    }
    return absl::OkStatus();
  });
  store.Commit({{"first", "1"}}, listener_.Done());
  reached.get_future().wait();
  for (int i = 0; i < 1000; ++i) store.Commit({{absl::StrCat(i), "x"}}, listener_.Done());
  EXPECT_EQ(listener_.done(), 0);
  go_on.set_value();
  listener_.WaitForDone(1001);
  files_->SetFault(nullptr);
  EXPECT_EQ(syncs, 2);
}

TEST_F(FileStoreFaultsTest, WhileTheDiskHangsCommitsReturnAndMemoryIsBounded) {
  FileStore::Options options = OptionsFor("state");
  options.merge_above_bytes = 100'000;
  std::promise<void> go_on;
  {
    FileStore store(options, nullptr, files_);
    MustLoad(store);
    files_->SetFault([gate = go_on.get_future().share()](Op op, int) {
      if (op == Op::kSync) gate.wait();
      return absl::OkStatus();
    });
    std::size_t most = 0;
    for (int i = 0; i < 20'000; ++i) {
      store.Commit(
          {{absl::StrCat("key", i % 50), std::string(1000, static_cast<char>('a' + i % 26))}},
          listener_.Done());
      most = std::max(most, store.QueuedBytes());
    }
    EXPECT_LT(most, 200'000u);
    EXPECT_EQ(listener_.done(), 0);
    go_on.set_value();
    listener_.WaitForDone(20'000);
  }
  FileStore store(options, nullptr, files_);
  const Entries entries = MustLoad(store);
  EXPECT_EQ(entries.size(), 50u);
  EXPECT_EQ(entries.at("key49"), std::string(1000, static_cast<char>('a' + 19'999 % 26)));
}

TEST_F(FileStoreFaultsTest, AStoreIsDestroyedInTimeWhileItsDiskHangs) {
  FileStore::Options options = OptionsFor("state");
  options.close_grace = std::chrono::milliseconds(10);
  std::promise<void> reached;
  std::promise<void> go_on;
  std::promise<void> after;
  {
    FileStore store(options, listener_.Log(), files_);
    MustLoad(store);
    bool first = true;
    files_->SetFault([&, first, gate = go_on.get_future().share()](Op op, int) mutable {
      if (op == Op::kSync && std::exchange(first, false)) {
        reached.set_value();
        gate.wait();
        after.set_value();
      }
      return absl::OkStatus();
    });
    store.Commit({{"a", "1"}}, listener_.Done());
    reached.get_future().wait();
  }
  go_on.set_value();
  after.get_future().wait();
  files_->SetFault(nullptr);  // the call of the fault is over
  EXPECT_EQ(listener_.done(), 0) << "a store that is gone calls nobody";
}

struct Failure {
  const char* name;
  Op op;
  absl::StatusCode code;
};

class FailingDiskTest : public FileStoreFaultsTest, public testing::WithParamInterface<Failure> {};

// One kind of call fails for a while. Batches that are committed meanwhile are kept when it works
// again.
TEST_P(FailingDiskTest, IsReportedOnceAndAgainWhenItIsOver) {
  const Failure failure = GetParam();
  {
    FileStore store(OptionsFor("state"), listener_.Log(), files_);
    MustLoad(store);
    store.Commit({{"before", "1"}}, listener_.Done());
    listener_.WaitForDone(1);
    int left = 5;
    files_->SetFault([left, failure](Op op, int) mutable -> absl::Status {
      if (op != failure.op || left == 0) return absl::OkStatus();
      --left;
      return absl::Status(failure.code, "cannot write state/journal: the disk says no");
    });
    store.Commit({{"during", "2"}}, listener_.Done());
    store.Commit({{"before", std::nullopt}}, listener_.Done());
    listener_.WaitForLines(2);
    listener_.WaitForDone(3);
    EXPECT_THAT(listener_.outcomes(), Contains(Store::Outcome::kFailed));
  }
  EXPECT_THAT(listener_.lines(),
              ElementsAre("cannot write state/journal: the disk says no: nothing new is decided "
                          "until the journal can be written again; trying on. Make room on the "
                          "disk, or repair it",
                          HasSubstr("state/journal: can be written again, after ")));
  EXPECT_EQ(journal::Read(files_->Bytes("state/journal"), "j")->torn_bytes, 0u);
  EXPECT_THAT(files_->Names(), UnorderedElementsAre("state/journal"));
  FileStore store(OptionsFor("state"), nullptr, files_);
  EXPECT_EQ(MustLoad(store), (Entries{{"during", "2"}}));
}

INSTANTIATE_TEST_SUITE_P(
    Every, FailingDiskTest,
    testing::Values(Failure{"DiskFull", Op::kAppend, absl::StatusCode::kResourceExhausted},
                    Failure{"WriteError", Op::kAppend, absl::StatusCode::kUnknown},
                    Failure{"SyncError", Op::kSync, absl::StatusCode::kUnknown}),
    [](const auto& info) { return std::string(info.param.name); });

// All calls on the old file fail; a new file works.
TEST_F(FileStoreFaultsTest, AFileThatCannotBeRepairedIsReplaced) {
  {
    FileStore store(OptionsFor("state"), listener_.Log(), files_);
    MustLoad(store);
    store.Commit({{"a", "1"}}, listener_.Done());
    listener_.WaitForDone(1);
    bool replaced = false;
    files_->SetFault([replaced](Op op, int) mutable -> absl::Status {
      if (op == Op::kCreate) replaced = true;
      if (replaced || op == Op::kSyncDirectory) return absl::OkStatus();
      return absl::UnknownError("input/output error");
    });
    store.Commit({{"b", "2"}}, listener_.Done());
    listener_.WaitForDone(2);
    store.Commit({{"c", "3"}}, listener_.Done());
    listener_.WaitForDone(3);
  }
  FileStore store(OptionsFor("state"), nullptr, files_);
  EXPECT_EQ(MustLoad(store), (Entries{{"a", "1"}, {"b", "2"}, {"c", "3"}}));
}

TEST_F(FileStoreFaultsTest, ACompactionThatFailsIsReportedOnceAndNothingIsLost) {
  FileStore::Options options = OptionsFor("state");
  options.journal.compact_above_bytes = 1000;
  {
    FileStore store(options, listener_.Log(), files_);
    MustLoad(store);
    files_->SetFault([](Op op, int) -> absl::Status {
      if (op != Op::kCreate) return absl::OkStatus();
      return absl::ResourceExhaustedError("cannot make state/journal.tmp: no space");
    });
    for (int i = 0; i < 100; ++i) {
      store.Commit({{"key", std::string(100, static_cast<char>('a' + i % 26))}}, listener_.Done());
      listener_.WaitForDone(i + 1);
    }
    listener_.WaitForLines(1);
  }
  EXPECT_THAT(listener_.lines(),
              ElementsAre("cannot compact the journal, which keeps growing: cannot make "
                          "state/journal.tmp: no space"));
  FileStore store(options, nullptr, files_);
  EXPECT_EQ(MustLoad(store), (Entries{{"key", std::string(100, 'v')}}));
}

}  // namespace file_store_test
}  // namespace ddprun
