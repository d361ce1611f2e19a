// Crashes a store at each of its calls of the file system. The next process must find the result of
// the first N committed batches. These must include all batches that were reported as done.
//
// The tests failed when one of these was left out of the code:
//   - a sync: of a group, of a new file, of the folder after a rename, of the data that Load() read
//   - the truncation before a write is repeated
//   - the rule that a broken record before a valid record of the same group is no damage
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/store/file_store.h"
#include "tests/unit/rendezvous/store/crash_file_system.h"
#include "tests/unit/rendezvous/store/store_driver.h"

namespace ddprun {
namespace crash_test {

constexpr int kBursts = 24;
constexpr int kOperationsOfLoad = 5;  // if there is no journal yet

FileStore::Options SmallOptions() {
  FileStore::Options options;
  options.journal.directory = "state";
  options.journal.compact_above_bytes = 1500;  // a few compactions in each run
  options.first_retry = std::chrono::milliseconds(0);
  options.last_retry = std::chrono::milliseconds(0);
  return options;
}

Store::Batch RandomBatch(std::mt19937& random) {
  Store::Batch batch;
  for (std::uint32_t writes = 1 + random() % 4; writes > 0; --writes) {
    const std::string key = absl::StrCat("key", random() % 8);
    if (random() % 5 == 0) {
      batch.push_back({key, std::nullopt});
    } else {
      batch.push_back({key, std::string(random() % 60, static_cast<char>('a' + random() % 26))});
    }
  }
  return batch;
}

// One process with a store: the entries that may be found after it.
struct Life {
  std::vector<Entries> prefixes;  // [i]: after the first i batches
  int done = 0;
};

// Commits in bursts, and waits for each burst, until all are done or the file system crashes.
Life Live(const std::shared_ptr<CrashFileSystem>& files, std::uint32_t seed, int crash_at = 0) {
  Listener listener;
  files->CrashAt(crash_at, [&listener] { listener.Stop(); });
  Life life;
  std::mt19937 random(seed);
  FileStore store(SmallOptions(), nullptr, files);
  const absl::StatusOr<Entries> loaded = store.Load();
  if (!loaded.ok()) {
    EXPECT_TRUE(files->crashed()) << loaded.status();
    return life;
  }
  life.prefixes.push_back(*loaded);
  for (int burst = 0; burst < kBursts && !files->crashed(); ++burst) {
    std::unique_lock pause = files->Pause();  // the first is written alone, the others together
    for (std::uint32_t i = 1 + random() % 5; i > 0; --i) {
      const Store::Batch batch = RandomBatch(random);
      life.prefixes.push_back(life.prefixes.back());
      Apply(batch, &life.prefixes.back());
      store.Commit(batch, listener.Done());
    }
    pause.unlock();
    listener.WaitForDone(static_cast<int>(life.prefixes.size()) - 1);
  }
  life.done = listener.done();
  return life;
}

// Loads the entries like a new process, and checks them against `life`.
Entries LoadAfter(const std::shared_ptr<CrashFileSystem>& files, const Life& life) {
  FileStore store(SmallOptions(), nullptr, files);
  const absl::StatusOr<Entries> loaded = store.Load();
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  if (!loaded.ok()) return {};
  if (life.prefixes.empty()) {
    EXPECT_TRUE(loaded->empty());
  } else {
    EXPECT_TRUE(std::find(life.prefixes.begin() + life.done, life.prefixes.end(), *loaded) !=
                life.prefixes.end())
        << life.done << " of " << life.prefixes.size() - 1 << " batches were done, found "
        << loaded->size() << " keys";
  }
  return *loaded;
}

struct Kind {
  const char* name;
  bool power_loss;
  bool faults;  // some calls fail before the crash
};

class CrashTest : public testing::TestWithParam<Kind> {};

TEST_P(CrashTest, WhatIsFoundIsAPrefixWithAllThatWasDone) {
  const Kind kind = GetParam();
  int crashes = 0;
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    for (int at = 1;; ++at) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", operation ", at));
      auto files = std::make_shared<CrashFileSystem>(seed * 1000 + at);
      if (kind.faults) {
        std::mt19937 random(seed);
        files->SetFault([random](CrashFileSystem::Op, int number) mutable -> absl::Status {
          if (number <= kOperationsOfLoad) return absl::OkStatus();
          const std::uint32_t draw = random() % 12;
          if (draw == 0) return absl::ResourceExhaustedError("no space");
          if (draw <= 2) return absl::UnknownError("input/output error");
          return absl::OkStatus();
        });
      }
      const Life life = Live(files, seed, at);
      const bool crashed = files->crashed();
      crashes += crashed ? 1 : 0;
      files->Restart(kind.power_loss);
      const Entries first = LoadAfter(files, life);
      // The process may have used these entries: they must not be lost now.
      files->Restart(/*power_loss=*/true);
      EXPECT_EQ(LoadAfter(files, life), first);
      // The journal must be usable afterwards.
      const Life next = Live(files, seed + 1);
      ASSERT_FALSE(next.prefixes.empty());
      EXPECT_EQ(next.done, static_cast<int>(next.prefixes.size()) - 1);
      files->Restart(/*power_loss=*/true);
      EXPECT_EQ(LoadAfter(files, next), next.prefixes.back());
      if (testing::Test::HasFailure()) return;
      if (!crashed) break;  // the whole life was undisturbed
    }
  }
  EXPECT_GE(crashes, 170);
  RecordProperty("crashes", crashes);
  std::printf("%s: %d cut points\n", kind.name, crashes);
}

INSTANTIATE_TEST_SUITE_P(Every, CrashTest,
                         testing::Values(Kind{"Killed", false, false},
                                         Kind{"PowerLoss", true, false},
                                         Kind{"KilledWhileCallsFail", false, true},
                                         Kind{"PowerLossWhileCallsFail", true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace crash_test
}  // namespace ddprun
