// Tests the effects of power failures, bit flips, truncations and mixed-up files on a checkpoint
// folder. Everything is seeded; a failure prints how to repeat it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/disk.h"
#include "tests/unit/worker/support/newest_checkpoint.h"
#include "worker/src/storage/checkpoint_writer.h"
#include "worker/src/storage/durable_file.h"

namespace ddp::internal {
namespace checkpoint_damage_test {

namespace fs = std::filesystem;
using test::DiskCall;
using test::Files;
using test::Survivors;
using test::WatchedDisk;
using ::testing::HasSubstr;
using Kind = DiskCall::Kind;

// Thousands of small files: in memory if possible.
void WorkInMemory() {
  if (fs::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 1);
}

std::size_t Below(std::mt19937_64* random, std::size_t end) { return (*random)() % end; }

// A checkpoint of some tensors, whose contents belong to this step alone.
class Sample {
 public:
  Sample(std::int64_t step, std::size_t most_bytes, std::mt19937_64* random) {
    image_.step = step;
    image_.metadata = {{"epoch", "3"}, {"ddprun_run", "ours"}, {"user", "{\"note\":\"x\"}"}};
    const std::size_t count = 1 + Below(random, 4);
    for (std::size_t i = 0; i < count; ++i) {
      bytes_.emplace_back(4 * (1 + Below(random, most_bytes / 4)), '\0');
      for (char& byte : bytes_.back()) byte = static_cast<char>((*random)());
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto size = static_cast<std::int64_t>(bytes_[i].size());
      image_.tensors.push_back({{"model.t" + std::to_string(i),
                                 i % 2 == 0 ? "F32" : "U8",
                                 {i % 2 == 0 ? size / 4 : size}},
                                bytes_[i].data(),
                                bytes_[i].size()});
    }
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  const CheckpointImage& image() const { return image_; }

 private:
  std::vector<std::string> bytes_;
  CheckpointImage image_;
};

CheckpointWriter::Events NoEvents() {
  return {[](auto...) {},
          [](std::int64_t step, std::int64_t, const std::string& reason) {
            ADD_FAILURE() << step << ": " << reason;
          }};
}

// The step of the newest loadable checkpoint, or -1; `*said` gets the warnings.
std::int64_t NewestStep(const std::string& folder, std::string* said) {
  ::testing::internal::CaptureStderr();
  const auto newest = test::FindNewest(folder);
  *said = ::testing::internal::GetCapturedStderr();
  return newest == nullptr ? -1 : std::stoll(newest->file().metadata().at("step"));
}

constexpr Survivors kSurvivors[] = {Survivors::kAll,
                                    Survivors::kNothing,
                                    Survivors::kNamesWithoutBytes,
                                    Survivors::kNamesWithZeros,
                                    Survivors::kNamesCutShort,
                                    Survivors::kAnyOfThem,
                                    Survivors::kAnyOfThem};

// One save into a folder with some checkpoints, cut off at every point.
class PowerFailure {
 public:
  PowerFailure(std::uint64_t seed, std::string work) : random_(seed), work_(std::move(work)) {}

  // Returns the number of cut points.
  std::size_t Run() {
    const std::string folder = work_ + "/ckpt";
    const Retention retention = {static_cast<int>(1 + Below(&random_, 3)),
                                 static_cast<std::int64_t>(20 * Below(&random_, 2))};
    const std::size_t most_bytes = Below(&random_, 4) == 0 ? 40'000 : 2'000;
    const auto before = static_cast<std::int64_t>(1 + Below(&random_, 4));
    CheckpointWriter writer(folder, retention, NoEvents());
    for (old_step_ = 0; old_step_ < 10 * before;) {
      const WatchedDisk no_waiting(folder);
      old_step_ += 10;
      Save(writer, most_bytes);
    }
    new_step_ = old_step_ + 10;
    if (Below(&random_, 2) == 0) {  // the file of a killed writer
      test::WriteFolder(
          folder, {{fs::path(TemporaryPath(folder + "/step-000000000005.safetensors")).filename(),
                    "half"}});
    }
    files_ = test::ReadFolder(folder);
    {
      const WatchedDisk disk(folder);
      old_step_ = new_step_;
      Save(writer, most_bytes);
      old_step_ = new_step_ - 10;
      calls_ = disk.calls();
    }
    std::size_t cuts = 0;
    for (std::size_t count = 0; count <= calls_.size(); ++count) {
      std::set<std::size_t> parts = {0};
      if (count < calls_.size() && calls_[count].kind == Kind::kWrite) {
        parts.insert(
            {1, calls_[count].bytes.size() - 1, Below(&random_, calls_[count].bytes.size())});
      }
      for (const std::size_t part : parts) {
        Check(count, part);
        ++cuts;
      }
    }
    return cuts;
  }

 private:
  void Save(CheckpointWriter& writer, std::size_t most_bytes) {
    const Sample sample(old_step_, most_bytes, &random_);
    writer.Start(sample.image());
    writer.Wait();
  }

  // True if the new checkpoint must exist: the folder was synced after the rename.
  bool IsSafe(std::size_t count) const {
    bool renamed = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (calls_[i].kind == Kind::kRename) renamed = true;
      if (calls_[i].kind == Kind::kSyncFolder && renamed) return true;
    }
    return false;
  }

  void Check(std::size_t count, std::size_t part) {
    const std::string folder = work_ + "/after";
    for (const Survivors survivors : kSurvivors) {
      fs::remove_all(folder);
      test::WriteFolder(folder,
                        test::AfterPowerFailure(files_, calls_, count, part, survivors, &random_));
      std::string said;
      const std::int64_t newest = NewestStep(folder, &said);
      EXPECT_TRUE(newest == new_step_ || (newest == old_step_ && !IsSafe(count)))
          << "step " << newest << " instead of " << old_step_ << " or " << new_step_ << " after "
          << count << " calls of " << calls_.size() << " and " << part << " bytes, survivors "
          << static_cast<int>(survivors) << "\n"
          << said;
      if (survivors != Survivors::kAnyOfThem) continue;
      // The next job can save there.
      const WatchedDisk no_waiting(folder);
      CheckpointWriter writer(folder, {1, 0}, NoEvents());
      const Sample sample(new_step_ + 10, 100, &random_);
      writer.Start(sample.image());
      writer.Wait();
      EXPECT_EQ(NewestStep(folder, &said), new_step_ + 10);
    }
  }

  std::mt19937_64 random_;
  const std::string work_;
  std::int64_t old_step_ = 0;
  std::int64_t new_step_ = 0;
  Files files_;  // before the save
  std::vector<DiskCall> calls_;
};

// Seen red without the sync of the file, without the sync of the folder, and when old files were
// removed before the sync: "step -1 instead of 10 or 20".
TEST(PowerFailureTest, TheNewestCheckpointIsTheOldOrTheNewOneWhereverASaveIsCutOff) {
  WorkInMemory();
  std::size_t cuts = 0;
  for (std::uint64_t seed = 1; seed <= 30 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ddprun::TempDir work;
    cuts += PowerFailure(seed, work.path()).Run();
  }
  EXPECT_GE(cuts, 500u);
  RecordProperty("cut_points", static_cast<int>(cuts));
  std::printf("%zu cut points, %zu outcomes each\n", cuts, std::size(kSurvivors));
}

// ---- damage ----

enum class Damage { kBitFlip, kCut, kLonger, kZeros, kSwapped, kMixed, kOlderContents, kCount };

// Returns the damaged bytes of the newest file. `good`: its bytes; `other`: the bytes of an older
// file.
std::string Damaged(Damage damage, const std::string& good, const std::string& other,
                    std::mt19937_64* random) {
  std::string bad = good;
  const std::size_t at = Below(random, good.size());
  switch (damage) {
    case Damage::kBitFlip:
      bad[at] = static_cast<char>(bad[at] ^ 1 << Below(random, 8));
      break;
    case Damage::kCut:
      bad.resize(at);
      break;
    case Damage::kLonger:
      bad.append(1 + Below(random, 5000), static_cast<char>((*random)()));
      break;
    case Damage::kZeros:
      std::fill(bad.begin() + static_cast<std::ptrdiff_t>(at),
                bad.begin() + static_cast<std::ptrdiff_t>(
                                  std::min(good.size(), at + 1 + Below(random, 4096))),
                '\0');
      break;
    case Damage::kSwapped: {  // two blocks of one file
      const std::size_t size = 1 + Below(random, good.size() / 2);
      std::swap_ranges(bad.begin(), bad.begin() + static_cast<std::ptrdiff_t>(size),
                       bad.end() - static_cast<std::ptrdiff_t>(size));
      break;
    }
    case Damage::kMixed:  // the front of one file, the rest of another
      bad = good.substr(0, at) + (at < other.size() ? other.substr(at) : "");
      break;
    case Damage::kOlderContents:
      bad = other;
      break;
    case Damage::kCount:
      break;
  }
  return bad;
}

// Seen red without the hashes of the tensors, without the hash of the header, and without the check
// of the step against the name (kOlderContents).
TEST(DamagedCheckpointTest, IsNeverLoadedAlwaysNamedAndTheOlderOneIsTaken) {
  WorkInMemory();
  std::mt19937_64 random(20'260'115);
  std::vector<int> tried(static_cast<std::size_t>(Damage::kCount), 0);
  for (int round = 0; round < 175; ++round) {
    const ddprun::TempDir work;
    const std::string folder = work / "ckpt";
    for (const std::int64_t step : {100, 200}) {
      const WatchedDisk no_waiting(folder);
      const Sample sample(step, round % 5 == 0 ? 20'000 : 400, &random);
      FolderOwner owner(folder, std::nullopt);
      SaveCheckpoint(folder, sample.image(), &owner);
    }
    const Files good = test::ReadFolder(folder);
    const std::string& older = good.at(CheckpointName(100));
    const std::string& newest = good.at(CheckpointName(200));
    for (std::size_t kind = 0; kind < tried.size(); ++kind) {
      const std::string bad = Damaged(static_cast<Damage>(kind), newest, older, &random);
      if (bad == newest) continue;
      fs::remove_all(folder);
      test::WriteFolder(folder, {{CheckpointName(100), older}, {CheckpointName(200), bad}});
      std::string said;
      EXPECT_EQ(NewestStep(folder, &said), 100) << "round " << round << ", damage " << kind;
      EXPECT_THAT(said, HasSubstr("checkpoint " + folder + "/" + CheckpointName(200)))
          << "round " << round << ", damage " << kind;
      EXPECT_EQ(test::ReadFolder(folder).at(CheckpointName(100)), older);
      ++tried[kind];
    }
  }
  int sum = 0;
  for (const int count : tried) {
    EXPECT_GE(count, 100);
    sum += count;
  }
  EXPECT_GE(sum, 1000);
  RecordProperty("damaged_files", sum);
  std::printf("%d damaged files\n", sum);
}

}  // namespace checkpoint_damage_test
}  // namespace ddp::internal
