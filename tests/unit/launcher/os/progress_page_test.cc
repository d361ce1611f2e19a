#include "worker/contract/progress_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/os/progress_page_file.h"

namespace ddprun {
namespace progress_page_test {

// A page and its writer. Read() reads the page like an agent.
struct Written {
  std::unique_ptr<ProgressPage> page = std::make_unique<ProgressPage>();
  ProgressWriter writer{page.get()};

  ProgressSnapshot Read() const {
    const auto snapshot = ReadProgress(page.get(), sizeof(ProgressPage));
    EXPECT_TRUE(snapshot.has_value());
    return snapshot.value_or(ProgressSnapshot());
  }
};

TEST(ProgressPageTest, TellsWhatWasWritten) {
  Written w;
  EXPECT_EQ(w.Read().phase, ProgressPhase::kStart);
  EXPECT_EQ(w.Read().step, -1);
  w.writer.BeginGeneration(3);
  w.writer.SetStep(1204);
  w.writer.SetPhase(ProgressPhase::kNamed, "upload\nof results");
  w.writer.SetInOptimizerStep(true);
  const std::uint64_t first = w.writer.Enter(0, ProgressOperation::kAllReduce, 4096, 2);
  EXPECT_EQ(w.Read().groups[0].entered->bucket, 2u);
  const std::uint64_t second = w.writer.Enter(0, ProgressOperation::kBroadcast, 8);
  w.writer.Complete(0, first, ProgressOperation::kAllReduce, 4096);
  const ProgressSnapshot read = w.Read();
  EXPECT_EQ(read.generation, 3);
  EXPECT_EQ(read.step, 1204);
  EXPECT_EQ(read.phase, ProgressPhase::kNamed);
  EXPECT_EQ(read.phase_name, "upload?of results");
  EXPECT_TRUE(read.in_optimizer_step);
  const ProgressGroup& group = read.groups[0];
  ASSERT_TRUE(group.entered && group.completed);
  EXPECT_EQ(group.entered->number, second);
  EXPECT_EQ(group.entered->operation, ProgressOperation::kBroadcast);
  EXPECT_EQ(group.entered->bucket, std::nullopt) << "it averages none";
  EXPECT_EQ(group.completed->number, first);
  EXPECT_EQ(group.completed->bytes, 4096u);
  EXPECT_GE(group.completed->at_ns, group.entered->at_ns);
  EXPECT_LE(group.completed->at_ns, ProgressNow());
  EXPECT_EQ(group.unfinished(), 1u);
  EXPECT_EQ(read.groups[1].entered->number, 0u);
}

TEST(ProgressPageTest, EveryMovementChangesTheMoves) {
  Written w;
  std::uint64_t before = w.Read().moves;
  const auto moved = [&] { return std::exchange(before, w.Read().moves) != before; };
  w.writer.Move();
  EXPECT_TRUE(moved());
  w.writer.SetStep(1);
  EXPECT_TRUE(moved());
  w.writer.SetPhase(ProgressPhase::kData, "");
  EXPECT_TRUE(moved());
  const auto number = w.writer.Enter(kProgressGroups + 5, ProgressOperation::kReduce, 1);
  EXPECT_TRUE(moved());
  w.writer.Complete(kProgressGroups + 5, number, ProgressOperation::kReduce, 1);
  EXPECT_TRUE(moved());
  EXPECT_FALSE(moved());
}

TEST(ProgressPageTest, CountsHowOftenEachPhaseHasBegun) {
  Written w;
  const auto times = [&](const std::string& name) {
    for (const ProgressBegun& begun : w.Read().begun) {
      if (begun.name == name) return begun.times;
    }
    return std::uint64_t{0};
  };
  for (int i = 0; i < 3; ++i) {
    w.writer.SetPhase(ProgressPhase::kCheckpoint, "");
    w.writer.SetPhase(ProgressPhase::kNamed, "upload");
    w.writer.SetPhase(ProgressPhase::kStep, "");
  }
  w.writer.SetPhase(ProgressPhase::kNamed, "uploads");
  EXPECT_EQ(times("checkpoint"), 3u);
  EXPECT_EQ(times("step"), 3u);
  EXPECT_EQ(times("upload"), 3u);
  EXPECT_EQ(times("uploads"), 1u);
  EXPECT_EQ(times("evaluation"), 0u);
  for (int i = 0; i < 100; ++i) {
    w.writer.SetPhase(ProgressPhase::kNamed, "phase " + std::to_string(i));
  }
  EXPECT_EQ(times("upload"), 3u);
  EXPECT_EQ(w.Read().begun.size(), 2 + kProgressOwnPhases) << "there is room for so many names";
}

// A worker of an earlier version knows only the first words of the page. The others stay zero.
TEST(ProgressPageTest, ThePartThatEveryVersionWritesStaysAsItIs) {
  EXPECT_EQ(kProgressFirstBytes, 204 * sizeof(ProgressPage::Word));
  Written w;
  EXPECT_EQ(w.page->size.load(), kProgressFirstBytes);
  EXPECT_TRUE(w.Read().begun.empty());
}

// launcher/python/_ddprun_state/collectives.py has the same offsets, in words.
TEST(ProgressPageTest, APythonProgramFindsItsPlaces) {
  constexpr std::size_t kWord = sizeof(ProgressPage::Word);
  EXPECT_EQ(offsetof(ProgressPage, generation), 3 * kWord);
  EXPECT_EQ(offsetof(ProgressPage, moves), 4 * kWord);
  EXPECT_EQ(offsetof(ProgressPage, groups), 28 * kWord);
  EXPECT_EQ(sizeof(ProgressPage::Group), 22 * kWord);
  EXPECT_EQ(offsetof(ProgressPage, recent), 286 * kWord);
  EXPECT_EQ(offsetof(ProgressPage, only_collectives), 382 * kWord);
  EXPECT_EQ(kProgressFirstBytes, 1632u);
  EXPECT_EQ(kProgressVersion, 2u);
  Written w;
  EXPECT_FALSE(w.Read().only_collectives);
  w.page->only_collectives = 1;
  EXPECT_TRUE(w.Read().only_collectives);
}

TEST(ProgressPageTest, CompletionsMayComeInAnyOrder) {
  Written w;
  const auto a = w.writer.Enter(1, ProgressOperation::kAllReduce, 1);
  const auto b = w.writer.Enter(1, ProgressOperation::kAllReduce, 2);
  w.writer.Complete(1, b, ProgressOperation::kAllReduce, 2);
  EXPECT_EQ(w.Read().groups[1].unfinished(), 1u);
  w.writer.Complete(1, a, ProgressOperation::kAllReduce, 1);
  EXPECT_EQ(w.Read().groups[1].unfinished(), 0u);
}

// The numbers of the last collectives of a group, negative if the collective has completed.
std::vector<int> RecentOf(const ProgressGroup& group) {
  std::vector<int> numbers;
  for (const auto& [collective, completed] : group.recent) {
    numbers.push_back(static_cast<int>(collective.number) * (completed ? -1 : 1));
  }
  return numbers;
}

TEST(ProgressPageTest, TheLastCollectivesAreToldApart) {
  Written w;
  EXPECT_TRUE(w.Read().groups[1].recent.empty());
  for (std::uint32_t i = 1; i <= 6; ++i) {
    w.writer.Enter(1, ProgressOperation::kAllReduce, 100 * i, i);
  }
  w.writer.Complete(1, 5, ProgressOperation::kAllReduce, 500);
  w.writer.Complete(1, 2, ProgressOperation::kAllReduce, 200);  // too old to be kept
  const ProgressGroup group = w.Read().groups[1];
  EXPECT_EQ(RecentOf(group), (std::vector<int>{3, 4, -5, 6}));
  EXPECT_EQ(group.recent[0].collective.bytes, 300u);
  EXPECT_EQ(group.recent[2].collective.operation, ProgressOperation::kAllReduce);
  EXPECT_EQ(group.recent[2].collective.bucket, 5u);
  w.writer.Enter(1, ProgressOperation::kBarrier, 0);
  EXPECT_EQ(RecentOf(w.Read().groups[1]), (std::vector<int>{4, -5, 6, 7}));
  EXPECT_EQ(w.Read().groups[1].recent[3].collective.bucket, std::nullopt);
  w.writer.BeginGeneration(1);
  EXPECT_TRUE(w.Read().groups[1].recent.empty());
}

TEST(ProgressPageTest, ANewGenerationForgetsTheGroups) {
  Written w;
  const auto old = w.writer.Enter(0, ProgressOperation::kAllReduce, 1);
  w.writer.BeginGeneration(1);
  EXPECT_EQ(w.Read().groups[0].entered->number, 0u);
  w.writer.Complete(0, old, ProgressOperation::kAllReduce, 1);  // late, for the old group
  EXPECT_EQ(w.Read().groups[0].finished, 0u);
  EXPECT_EQ(w.writer.Enter(0, ProgressOperation::kAllReduce, 1), 1u);
}

TEST(ProgressPageTest, GoesOnInAnotherPage) {
  Written w;
  w.writer.SetStep(7);
  w.writer.SetPhase(ProgressPhase::kEvaluation, "");
  w.writer.Enter(0, ProgressOperation::kBarrier, 0);
  const auto other = std::make_unique<ProgressPage>();
  w.writer.MoveTo(other.get());
  w.writer.Enter(0, ProgressOperation::kAllGather, 16);
  const auto read = ReadProgress(other.get(), sizeof(ProgressPage));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step, 7);
  EXPECT_EQ(read->phase_name, "evaluation");
  EXPECT_EQ(read->groups[0].entered->number, 2u);
  EXPECT_EQ(w.Read().groups[0].entered->number, 1u);  // the first page stays as it was
}

TEST(ProgressPageTest, ReadsNothingFromWhatIsNoPage) {
  const auto page = std::make_unique<ProgressPage>();
  EXPECT_FALSE(ReadProgress(page.get(), sizeof(ProgressPage)));  // all zero: no writer yet
  const ProgressWriter writer(page.get());
  EXPECT_TRUE(ReadProgress(page.get(), sizeof(ProgressPage)));
  EXPECT_FALSE(ReadProgress(nullptr, sizeof(ProgressPage)));
  EXPECT_FALSE(ReadProgress(page.get(), sizeof(ProgressPage) - 1));
  EXPECT_FALSE(ReadProgress(reinterpret_cast<const char*>(page.get()) + 1, sizeof(ProgressPage)));
  page->version = kProgressVersion + 1;
  EXPECT_FALSE(ReadProgress(page.get(), sizeof(ProgressPage)));
}

// If a writer stops in the middle of a record, the reader gets the record before.
TEST(ProgressPageTest, AWriterThatStopsLeavesTheOlderRecordWhole) {
  Written w;
  w.writer.SetPhase(ProgressPhase::kNamed, "first");
  w.writer.SetPhase(ProgressPhase::kNamed, "second");
  const std::uint64_t next = w.page->phase.version + 1;
  for (auto& word : w.page->phase.copies[next & 1]) word = 0xeeee;  // without the new version
  EXPECT_EQ(w.Read().phase_name, "second");
}

TEST(ProgressPageTest, TrustsNoValue) {
  std::mt19937_64 random(20);
  auto page = std::make_unique<ProgressPage>();
  auto* const words = reinterpret_cast<ProgressPage::Word*>(page.get());
  int phases = 0;
  for (int round = 0; round < 20000; ++round) {
    for (std::size_t i = 0; i < sizeof(ProgressPage) / sizeof(*words); ++i) {
      words[i] = random() >> (random() % 64);  // small ones too
    }
    page->magic = kProgressMagic;
    page->version = kProgressVersion;
    page->size = kProgressFirstBytes;
    const auto read = ReadProgress(page.get(), sizeof(ProgressPage));
    ASSERT_TRUE(read);
    ASSERT_GE(read->step, -1);
    ASSERT_LE(read->phase_name.size(), kProgressNameBytes);
    for (const char c : read->phase_name) ASSERT_GE(static_cast<unsigned char>(c), 0x20);
    if (read->phase) ++phases;
    for (const ProgressBegun& begun : read->begun) {
      ASSERT_LE(begun.name.size(), kProgressNameBytes);
      for (const char c : begun.name) ASSERT_GE(static_cast<unsigned char>(c), 0x20);
    }
    ASSERT_LE(read->phase_since_ns, ProgressNow());
    for (const ProgressGroup& group : read->groups) {
      for (const auto& collective : {group.entered, group.completed}) {
        if (!collective) continue;
        ASSERT_LT(static_cast<std::size_t>(collective->operation), kProgressOperationNames.size());
        ASSERT_STRNE(ToString(collective->operation), "");
        ASSERT_GE(collective->at_ns, 0);
        ASSERT_LE(collective->at_ns, ProgressNow());
      }
      ASSERT_LE(group.unfinished(), group.entered ? group.entered->number : 0);
      ASSERT_LE(group.recent.size(), kProgressRecent);
      for (const auto& [collective, completed] : group.recent) {
        ASSERT_LT(static_cast<std::size_t>(collective.operation), kProgressOperationNames.size());
      }
    }
  }
  EXPECT_GT(phases, 0);
}

// The parts of each written record fit together. A reader must never see parts that do not.
TEST(ProgressPageTest, AReaderNeverSeesHalfARecord) {
  Written w;
  std::atomic<bool> done{false};
  std::thread thread([&] {
    for (std::uint64_t i = 1; !done; ++i) {
      w.writer.SetPhase(ProgressPhase::kNamed, std::string(64, static_cast<char>('a' + i % 26)));
      const auto number = w.writer.Enter(0, ProgressOperation::kAllReduce, i);
      w.writer.Complete(0, number, ProgressOperation::kAllReduce, i);
    }
  });
  int seen = 0;
  for (int i = 0; i < 200000; ++i) {
    const ProgressSnapshot read = w.Read();
    if (read.phase == ProgressPhase::kNamed) {
      ++seen;
      const bool whole = read.phase_name == std::string(64, read.phase_name[0]);
      if (!whole) ADD_FAILURE() << read.phase_name;
      if (!whole) break;
    }
    for (const auto& [collective, completed] : read.groups[0].recent) {
      ASSERT_EQ(collective.number, collective.bytes);
    }
    const auto& entered = read.groups[0].entered;
    if (entered && entered->number != entered->bytes) {
      ADD_FAILURE() << entered->number << " " << entered->bytes;
      break;
    }
  }
  done = true;
  thread.join();
  EXPECT_GT(seen, 0);
}

TEST(ProgressPageTest, ThreadsMayWriteAtOnce) {
  constexpr int kTimes = 300000;
  Written w;
  std::atomic<int> waiting{2};
  const auto work = [&] {
    for (--waiting; waiting != 0;) std::this_thread::yield();
    for (int i = 0; i < kTimes; ++i) {
      const auto number = w.writer.Enter(0, ProgressOperation::kAllReduce, 1);
      w.writer.Complete(0, number, ProgressOperation::kAllReduce, 1);
    }
  };
  std::thread other(work);
  work();
  other.join();
  const ProgressSnapshot read = w.Read();
  EXPECT_EQ(read.groups[0].entered->number, 2u * kTimes);
  EXPECT_EQ(read.groups[0].finished, 2u * kTimes);
  EXPECT_EQ(read.moves, 4u * kTimes);
}

TEST(ProgressPageFileTest, NobodyCanResizeItAndTheAgentReadsWhatIsWritten) {
  auto file = ProgressPageFile::Make();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(file->Read());
  EXPECT_NE(ftruncate(file->descriptor(), 1), 0);
  EXPECT_NE(ftruncate(file->descriptor(), 1 << 20), 0);
  EXPECT_NE(fcntl(file->descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_NE(fcntl(file->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  void* const worker =
      mmap(nullptr, kProgressFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor(), 0);
  ASSERT_NE(worker, MAP_FAILED);
  ProgressWriter(static_cast<ProgressPage*>(worker)).SetStep(5);
  munmap(worker, kProgressFileBytes);  // as when the worker ends
  const ProgressPageFile moved = *std::move(file);
  ASSERT_TRUE(moved.Read());
  EXPECT_EQ(moved.Read()->step, 5);
}

}  // namespace progress_page_test
}  // namespace ddprun
