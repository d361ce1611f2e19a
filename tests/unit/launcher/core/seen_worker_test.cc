// The progress of a worker, from its progress page or its messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "launcher/core/still_watch.h"

namespace ddprun {
namespace seen_worker_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(SeenWorkerTest, SaysInWhichCollectiveTheWorkerWaits) {
  WorkerProgress progress;
  EXPECT_TRUE(SeenWorkerOf(progress, 100).silent) << "it tells nothing";
  progress.source = ProgressSource::kPage;
  progress.now.step = 7;
  progress.now.phase = ProgressPhase::kData;
  auto& group = progress.now.groups[1];
  group.entered = ProgressCollective{9, ProgressOperation::kAllReduce, 4096, 50};
  group.completed = ProgressCollective{9, ProgressOperation::kAllReduce, 4096, 60};
  group.finished = 9;
  EXPECT_EQ(SeenWorkerOf(progress, 100).inside, std::nullopt) << "it has completed";
  group.finished = 8;
  group.completed->number = 8;
  const SeenWorker seen = SeenWorkerOf(progress, 100);
  EXPECT_EQ(seen.inside, (CollectiveCall{"group 1", 9, "all_reduce", 4096}));
  group.entered->bucket = 2;
  EXPECT_EQ(SeenWorkerOf(progress, 100).inside->bucket, 2);
  EXPECT_EQ(seen.phase, "") << "loading data is part of training";
  EXPECT_EQ(seen.step, 7);
  EXPECT_FALSE(seen.silent);
  EXPECT_TRUE(seen.names_phases);
  progress.said_bye = true;
  EXPECT_TRUE(SeenWorkerOf(progress, 100).leaving);
  EXPECT_EQ(SeenWorkerOf(progress, 100).inside, std::nullopt);
}

// Red if kData counts as a step: then --hang-startup-timeout ends with the first load.
TEST(SeenWorkerTest, WaitingForTheFirstBatchIsNoStep) {
  WorkerProgress progress;
  progress.source = ProgressSource::kPage;
  progress.now.phase = ProgressPhase::kData;
  progress.now.begun = {{ProgressPhase::kFirstStep, "first_step", 1},
                        {ProgressPhase::kData, "data", 1}};
  EXPECT_FALSE(SeenWorkerOf(progress, 100).stepped);
  progress.now.begun.push_back({ProgressPhase::kStep, "step", 1});
  EXPECT_TRUE(SeenWorkerOf(progress, 100).stepped);
}

ProgressCollective AllReduce(std::uint64_t number, std::uint64_t bytes) {
  return {number, ProgressOperation::kAllReduce, bytes, 50};
}

CollectiveCall Call(std::int64_t number, std::int64_t bytes) {
  return {"group 0", number, "all_reduce", bytes};
}

// Seen red when the newest call was reported, although it had completed.
TEST(SeenWorkerTest, SaysInWhichOfSeveralCollectivesTheWorkerWaits) {
  WorkerProgress progress;
  progress.source = ProgressSource::kPage;
  progress.now.groups[0] = {AllReduce(60, 6), AllReduce(60, 6), 57};
  progress.now.groups[0].recent = {{AllReduce(57, 3), true},
                                   {AllReduce(58, 4), false},
                                   {AllReduce(59, 5), false},
                                   {AllReduce(60, 6), true}};
  const SeenWorker seen = SeenWorkerOf(progress, 100);
  EXPECT_EQ(seen.inside, Call(59, 5));
  EXPECT_THAT(seen.earlier, ElementsAre(Call(58, 4)));
  EXPECT_EQ(seen.entered, 60);
  for (ProgressRecent& recent : progress.now.groups[0].recent) recent.completed = true;
  EXPECT_EQ(SeenWorkerOf(progress, 100).inside, Call(60, 6)) << "it is an older one";
  EXPECT_THAT(SeenWorkerOf(progress, 100).earlier, IsEmpty());
  EXPECT_EQ(SeenWorkerOf(progress, 100).entered, 0);
}

// For example, the ranks disagree about the size of bucket 0, but not about the buckets after it.
TEST(LastCallsTest, TheFewBeforeTheLastAreToldToo) {
  std::vector<WorkerProgress> workers(1);
  workers[0].now.groups[0] = {AllReduce(60, 6), AllReduce(59, 5), 58};
  workers[0].now.groups[0].recent = {{AllReduce(58, 4), false}, {AllReduce(60, 6), false}};
  EXPECT_THAT(LastCallsOf(workers), ElementsAre(EnteredCall{LocalRank{0}, 1, Call(58, 4)},
                                                EnteredCall{LocalRank{0}, 1, Call(59, 5)},
                                                EnteredCall{LocalRank{0}, 1, Call(60, 6)}));
}

// Seen red when only the call that was entered last was reported.
TEST(LastCallsTest, WorkersInOneCollectiveAreCountedTogether) {
  std::vector<WorkerProgress> workers(3);
  for (int i = 0; i < 3; ++i) {
    workers[i].local_rank = LocalRank{i};
    workers[i].now.groups[0] = {AllReduce(9, i == 1 ? 12000 : 8000), AllReduce(8, 4), 8};
  }
  EXPECT_THAT(
      LastCallsOf(workers),
      UnorderedElementsAre(EnteredCall{LocalRank{0}, 2, {"group 0", 9, "all_reduce", 8000}},
                           EnteredCall{LocalRank{1}, 1, {"group 0", 9, "all_reduce", 12000}},
                           EnteredCall{LocalRank{0}, 3, {"group 0", 8, "all_reduce", 4}}));
}

// The root of a broadcast has completed the call as soon as it has sent, but peers may still wait.
TEST(LastCallsTest, OneThatHasCompletedIsToldToo) {
  std::vector<WorkerProgress> workers(1);
  workers[0].now.groups[0] = {AllReduce(9, 8), AllReduce(9, 8), 9};
  EXPECT_THAT(LastCallsOf(workers),
              ElementsAre(EnteredCall{LocalRank{0}, 1, {"group 0", 9, "all_reduce", 8}}));
  EXPECT_THAT(LastCallsOf(std::vector<WorkerProgress>(2)), IsEmpty()) << "they told of none";
}

TEST(SeenWorkerTest, APythonProgramNamesItsPhasesOnceItHasNamedOne) {
  WorkerProgress progress;
  progress.source = ProgressSource::kMessages;
  progress.now.phase = ProgressPhase::kNamed;
  progress.now.phase_name = "train";
  EXPECT_FALSE(SeenWorkerOf(progress, 1).names_phases);
  EXPECT_EQ(SeenWorkerOf(progress, 1).phase, "");
  progress.now.phase_name = "eval";
  EXPECT_TRUE(SeenWorkerOf(progress, 1).names_phases);
}

// At each look the program is back in training. Seen red where only the phase at a look counted.
TEST(SeenWorkerTest, AProgramNamesItsPhasesWhereEachOfThemIsShort) {
  WorkerProgress progress;
  progress.source = ProgressSource::kMessages;
  progress.now.phase = ProgressPhase::kStep;
  progress.now.begun = {{ProgressPhase::kStep, "step", 3}, {ProgressPhase::kNamed, "train", 2}};
  EXPECT_FALSE(SeenWorkerOf(progress, 1).names_phases);
  progress.now.begun.push_back({ProgressPhase::kEvaluation, "evaluation", 1});
  progress.now.begun.push_back({ProgressPhase::kRestore, "restore", 1});
  const SeenWorker seen = SeenWorkerOf(progress, 1);
  EXPECT_TRUE(seen.names_phases);
  EXPECT_EQ(seen.begun, (std::map<std::string, std::uint64_t>{{"", 5}, {"evaluation", 1}}))
      << "what comes before the first step has a limit of its own";
}

// Before a worker has joined the process group, it has no page, and sends PHASE=init.
TEST(SeenWorkerTest, TheLibraryNamesItsPhasesFromItsFirstWordOn) {
  WorkerProgress progress;
  progress.source = ProgressSource::kMessages;
  progress.now.phase = ProgressPhase::kInit;
  progress.now.phase_name = "init";
  EXPECT_TRUE(SeenWorkerOf(progress, 1).names_phases);
  EXPECT_EQ(SeenWorkerOf(progress, 1).phase, "init");
}

TEST(SeenWorkerTest, OneThatHasOnlySaidThatItWillTellIsInNoPhase) {
  WorkerProgress progress;
  progress.source = ProgressSource::kMessages;
  const SeenWorker seen = SeenWorkerOf(progress, 1);
  EXPECT_FALSE(seen.silent);
  EXPECT_FALSE(seen.names_phases);
  EXPECT_EQ(seen.phase, "")
      << "or its ranks would be in another phase than the ranks that made steps";
}

}  // namespace seen_worker_test
}  // namespace ddprun
