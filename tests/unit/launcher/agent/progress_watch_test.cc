#include "launcher/agent/progress_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "worker/contract/progress_page.h"

namespace ddprun {
namespace progress_watch_test {

constexpr LocalRank kA{0};
constexpr LocalRank kB{1};

TimePoint At(int seconds) { return TimePoint(std::chrono::seconds(seconds)); }

// Writes, as a worker does, to the page that the watch has made for this worker.
class Worker {
 public:
  explicit Worker(int fd)
      : page_(mmap(nullptr, kProgressFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)),
        writer_(static_cast<ProgressPage*>(page_)) {}
  ~Worker() { munmap(page_, kProgressFileBytes); }
  Worker(const Worker&) = delete;
  ProgressWriter* operator->() { return &writer_; }

 private:
  void* const page_;
  ProgressWriter writer_;
};

TEST(ProgressWatchTest, TellsWhatAProgramSaysInMessages) {
  ProgressWatch watch(2);
  watch.BeginGeneration(Generation{4});
  EXPECT_EQ(watch.Read(At(1))[0].source, ProgressSource::kNone);

  watch.OnMessage(kB, PhaseMsg{"init"}, At(2));
  watch.OnMessage(kB, ReadyMsg{}, At(3));
  WorkerProgress b = watch.Read(At(9))[1];
  EXPECT_EQ(b.local_rank, kB);
  EXPECT_EQ(b.source, ProgressSource::kMessages);
  EXPECT_EQ(b.now.generation, 4);
  EXPECT_EQ(b.now.phase, ProgressPhase::kInit);
  EXPECT_EQ(b.now.step, -1);
  EXPECT_EQ(b.moved_at, At(3));

  watch.OnMessage(kB, StepMsg{17}, At(10));
  watch.OnMessage(kB, PhaseMsg{"my \x1b upload"}, At(11));
  b = watch.Read(At(12))[1];
  EXPECT_EQ(b.now.step, 17);
  EXPECT_EQ(b.now.phase, ProgressPhase::kNamed);
  EXPECT_EQ(b.now.phase_name, "my ? upload");
  EXPECT_EQ(b.now.phase_since_ns, 11'000'000'000);
  EXPECT_EQ(b.now.moves, 4u);

  watch.OnMessage(kB, StepMsg{18}, At(13));  // a step ends the phase
  EXPECT_EQ(watch.Read(At(14))[1].now.phase, ProgressPhase::kStep);
  watch.OnMessage(kB, ByeMsg{}, At(15));
  EXPECT_TRUE(watch.Read(At(15))[1].said_bye);
  EXPECT_EQ(watch.Read(At(15))[0].source, ProgressSource::kNone);
}

TEST(ProgressWatchTest, CountsHowOftenEachPhaseHasBegun) {
  ProgressWatch watch(1);
  for (int i = 0; i < 3; ++i) {
    watch.OnMessage(kA, PhaseMsg{"save"}, At(1));
    watch.OnMessage(kA, PhaseMsg{"train"}, At(1));
  }
  const auto times = [&](const std::string& name) {
    const WorkerProgress progress = watch.Read(At(2))[0];
    for (const ProgressBegun& begun : progress.now.begun) {
      if (begun.name == name) return begun.times;
    }
    return std::uint64_t{0};
  };
  EXPECT_EQ(times("save"), 3u);
  EXPECT_EQ(times("train"), 3u);
  for (int i = 0; i < 100; ++i) {
    watch.OnMessage(kA, PhaseMsg{"phase " + std::to_string(i)}, At(3));
  }
  EXPECT_EQ(watch.Read(At(4))[0].now.begun.size(), 32u) << "names that are made up";
  watch.BeginGeneration(Generation{1});
  EXPECT_EQ(times("save"), 0u);
}

// Helper processes that import the module send TELLS, too.
TEST(ProgressWatchTest, TheProcessThatToldTheLastStepOrPhaseDoesTheWork) {
  const ProcessId alive = ProcessIdOf(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const ProcessId other = ProcessIdOf(child);
  ProgressWatch watch(2);
  EXPECT_FALSE(watch.SpeakerOf(kA).has_value());
  watch.OnMessage(kA, TellsMsg{true}, At(1), other);
  EXPECT_EQ(watch.SpeakerOf(kA), other);
  watch.OnMessage(kA, StepMsg{1}, At(2), alive);
  watch.OnMessage(kA, CheckpointMsg{1, "/x"}, At(3), other);
  watch.OnMessage(kA, TellsMsg{true}, At(4), other);
  EXPECT_EQ(watch.SpeakerOf(kA), alive);
  EXPECT_FALSE(watch.SpeakerOf(kB).has_value());
  watch.OnMessage(kA, StepMsg{2}, At(5), {alive.pid, alive.started + 1});
  EXPECT_FALSE(watch.SpeakerOf(kA).has_value()) << "its number is another process's now";
  watch.OnMessage(kA, StepMsg{3}, At(6), alive);
  watch.BeginGeneration(Generation{1});
  EXPECT_FALSE(watch.SpeakerOf(kA).has_value());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(ProgressWatchTest, AWorkerThatSaysThatItWillTellTellsFromThenOn) {
  ProgressWatch watch(2);
  watch.OnMessage(kA, TellsMsg{true}, At(1));
  EXPECT_EQ(watch.Read(At(2))[0].source, ProgressSource::kMessages);
  EXPECT_EQ(watch.Read(At(2))[0].now.step, -1);
  EXPECT_EQ(watch.Read(At(2))[1].source, ProgressSource::kNone);
  watch.OnMessage(kA, TellsMsg{false}, At(3));
  EXPECT_EQ(watch.Read(At(4))[0].source, ProgressSource::kNone) << "it will not, after all";
  watch.OnMessage(kA, StepMsg{1}, At(5));
  watch.OnMessage(kA, TellsMsg{false}, At(6));
  EXPECT_EQ(watch.Read(At(7))[0].source, ProgressSource::kMessages) << "it has";

  watch.BeginGeneration(Generation{1}, /*will_tell=*/true);
  EXPECT_EQ(watch.Read(At(8))[1].source, ProgressSource::kMessages) << "as --auto-step has it";
  watch.BeginGeneration(Generation{2});
  EXPECT_EQ(watch.Read(At(9))[1].source, ProgressSource::kNone);
}

TEST(ProgressWatchTest, APageThatIsWrittenCountsMoreThanMessages) {
  ProgressWatch watch(1);
  watch.OnMessage(kA, StepMsg{3}, At(1));
  const int fd = watch.PageOf(kA);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(watch.PageOf(kA), fd);
  // A program may send READY, and never use the page that it gets.
  EXPECT_EQ(watch.Read(At(2))[0].source, ProgressSource::kMessages);
  EXPECT_EQ(watch.Read(At(2))[0].now.step, 3);

  Worker worker(fd);
  worker->SetStep(8);
  worker->SetPhase(ProgressPhase::kEvaluation, "");
  worker->Enter(0, ProgressOperation::kAllReduce, 64);
  const WorkerProgress a = watch.Read(At(5))[0];
  EXPECT_EQ(a.source, ProgressSource::kPage);
  EXPECT_EQ(a.now.step, 8);
  EXPECT_EQ(a.now.phase_name, "evaluation");
  EXPECT_EQ(a.now.groups[0].entered->bytes, 64u);
  EXPECT_EQ(a.moved_at, At(5));
}

// A Python program writes only its collectives into the page. Seen red when the page hid the step
// that the program had reported.
TEST(ProgressWatchTest, APageOfOnlyCollectivesLeavesStepAndPhaseToMessages) {
  ProgressWatch watch(1);
  const int fd = watch.PageOf(kA);
  Worker worker(fd);
  void* const page = mmap(nullptr, kProgressFileBytes, PROT_WRITE, MAP_SHARED, fd, 0);
  static_cast<ProgressPage*>(page)->only_collectives = 1;
  worker->Enter(0, ProgressOperation::kAllReduce, 64);
  EXPECT_EQ(watch.Read(At(1))[0].source, ProgressSource::kMessages);
  watch.OnMessage(kA, StepMsg{3}, At(2));
  watch.OnMessage(kA, PhaseMsg{"eval"}, At(3));
  const std::uint64_t moves = watch.Read(At(4))[0].now.moves;
  worker->Enter(0, ProgressOperation::kBroadcast, 8);
  const WorkerProgress a = watch.Read(At(5))[0];
  EXPECT_EQ(a.source, ProgressSource::kMessages);
  EXPECT_EQ(a.now.step, 3);
  EXPECT_EQ(a.now.phase_name, "eval");
  EXPECT_EQ(a.now.begun.size(), 2u);
  EXPECT_EQ(a.now.groups[0].entered->operation, ProgressOperation::kBroadcast);
  EXPECT_EQ(a.now.moves, moves + 1);
  EXPECT_EQ(a.moved_at, At(5));
  munmap(page, kProgressFileBytes);
}

TEST(ProgressWatchTest, KnowsSinceWhenNothingMoved) {
  ProgressWatch watch(1);
  Worker worker(watch.PageOf(kA));
  worker->Move();
  EXPECT_EQ(watch.Read(At(10))[0].moved_at, At(10));
  EXPECT_EQ(watch.Read(At(20))[0].moved_at, At(10));
  watch.OnMessage(kA, CheckpointMsg{1, "/x"}, At(25));  // its writer thread works
  EXPECT_GE(watch.Read(At(30))[0].moved_at, At(25));
  const std::uint64_t moves = watch.Read(At(30))[0].now.moves;
  worker->Move();
  EXPECT_GT(watch.Read(At(40))[0].now.moves, moves);
  EXPECT_EQ(watch.Read(At(50))[0].moved_at, At(40));
}

TEST(ProgressWatchTest, KeepsThePageOfADeadWorkerUntilTheNextGeneration) {
  ProgressWatch watch(2);
  { Worker(watch.PageOf(kA))->SetStep(99); }
  EXPECT_EQ(watch.Read(At(1))[0].now.step, 99);
  watch.BeginGeneration(Generation{1});
  const std::vector<WorkerProgress> all = watch.Read(At(2));
  EXPECT_EQ(all[0].source, ProgressSource::kNone);
  EXPECT_EQ(all[0].now.step, -1);
  EXPECT_EQ(all[0].now.generation, 1);
}

}  // namespace progress_watch_test
}  // namespace ddprun
