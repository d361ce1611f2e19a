// A part of the runs of scripts/simulate.sh. A failure names its seed; `simulate --trace SEED`
// shows the run.
#include "tests/simulation/simulation.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun::sim {
namespace simulation_test {

// Enough for every kind of fault to happen many times.
constexpr std::uint64_t kRuns = 4000;
// Runs of several rendezvous take longer.
constexpr std::uint64_t kRunsOfSeveral = 1000;
// A planted bug must show within this number of runs.
constexpr std::uint64_t kRunsForABug = 24000;

std::string Replay(std::uint64_t seed, Rendezvous rendezvous = Rendezvous::kAlone) {
  return "replay: simulate --trace " + std::to_string(seed) + FlagOf(rendezvous);
}

TEST(SimulationTest, EverythingHoldsWhateverHappens) {
  Result all;
  int succeeded = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const Result result = Simulate(seed);
    ASSERT_EQ(result.violation, "") << Replay(seed);
    all.fences += result.fences;
    all.daemon_restarts += result.daemon_restarts;
    all.generations += result.generations;
    all.faults += result.faults;
    all.restores += result.restores;
    all.restores_elsewhere += result.restores_elsewhere;
    all.dead_states += result.dead_states;
    all.failed_checkpoints += result.failed_checkpoints;
    all.stuck += result.stuck;
    all.left_out += result.left_out;
    all.stayed += result.stayed;
    all.handed_over += result.handed_over;
    all.end_snapshots += result.end_snapshots;
    all.live_restores += result.live_restores;
    succeeded += result.outcome == Outcome::kSucceeded;
  }
  // The rules must not hold only because nothing happened or nothing finished.
  EXPECT_GT(all.faults, 3 * static_cast<int>(kRuns));
  EXPECT_GT(all.fences, static_cast<int>(kRuns) / 10);
  EXPECT_GT(all.daemon_restarts, static_cast<int>(kRuns) / 4);
  EXPECT_GT(all.generations, static_cast<int>(kRuns));
  EXPECT_GT(all.restores, static_cast<int>(kRuns) / 5);
  EXPECT_GT(all.restores_elsewhere, static_cast<int>(kRuns) / 40);
  EXPECT_GT(all.dead_states, static_cast<int>(kRuns) / 400);
  EXPECT_GT(all.failed_checkpoints, static_cast<int>(kRuns));
  EXPECT_GT(all.stuck, static_cast<int>(kRuns) / 20);
  EXPECT_GT(all.left_out, static_cast<int>(kRuns) / 100);
  EXPECT_GT(all.stayed, static_cast<int>(kRuns) / 10);
  EXPECT_GT(all.handed_over, static_cast<int>(kRuns) / 20);
  EXPECT_GT(all.end_snapshots, static_cast<int>(kRuns) / 20);
  EXPECT_GT(all.live_restores, static_cast<int>(kRuns) / 20);
  EXPECT_GT(succeeded, static_cast<int>(kRuns) * 3 / 4);
}

TEST(SimulationTest, EverythingHoldsWithSeveralRendezvous) {
  Result all;
  int succeeded = 0;
  for (std::uint64_t seed = 0; seed < kRunsOfSeveral; ++seed) {
    const Result result = Simulate(seed, Bug::kNone, nullptr, Rendezvous::kSeveral);
    ASSERT_EQ(result.violation, "") << Replay(seed, Rendezvous::kSeveral);
    all.takeovers += result.takeovers;
    all.fences += result.fences;
    all.generations += result.generations;
    succeeded += result.outcome == Outcome::kSucceeded;
  }
  EXPECT_GT(all.takeovers, 3 * static_cast<int>(kRunsOfSeveral));
  EXPECT_GT(all.fences, static_cast<int>(kRunsOfSeveral) / 10);
  EXPECT_GT(all.generations, static_cast<int>(kRunsOfSeveral));
  EXPECT_GT(succeeded, static_cast<int>(kRunsOfSeveral) * 2 / 3);
}

// Seeds that once found a violation; such runs are rarer than one in `kRuns`.
TEST(SimulationTest, SeedsThatFoundABugHold) {
  EXPECT_EQ(Simulate(56979).violation, "") << "a forming was given up without who had written";
  EXPECT_EQ(Simulate(181052).violation, "") << "a node took the place of a member by an old rank";
  EXPECT_EQ(Simulate(68193, Bug::kNone, nullptr, Rendezvous::kSeveral).violation, "")
      << "training began twice with the last step of a generation";
}

TEST(SimulationTest, ASeedReplaysToTheSameTrace) {
  for (const Rendezvous rendezvous : {Rendezvous::kAlone, Rendezvous::kSeveral}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      std::string first;
      std::string second;
      const Result a = Simulate(seed, Bug::kNone, &first, rendezvous);
      const Result b = Simulate(seed, Bug::kNone, &second, rendezvous);
      const Result without = Simulate(seed, Bug::kNone, nullptr, rendezvous);
      ASSERT_FALSE(first.empty());
      ASSERT_EQ(first, second) << Replay(seed, rendezvous);
      ASSERT_EQ(a.hash, b.hash) << Replay(seed, rendezvous);
      // A trace does not change the run.
      ASSERT_EQ(a.hash, without.hash) << Replay(seed, rendezvous);
      ASSERT_EQ(a.events, without.events) << Replay(seed, rendezvous);
    }
  }
}

TEST(SimulationTest, SeedsDiffer) { EXPECT_NE(Simulate(1).hash, Simulate(2).hash); }

class PlantedBugTest : public testing::TestWithParam<const char*> {};

TEST_P(PlantedBugTest, IsFound) {
  const std::optional<Bug> bug = BugNamed(GetParam());
  ASSERT_TRUE(bug);
  const Rendezvous rendezvous = RendezvousOf(*bug);
  const auto run = [&](std::uint64_t seed, Bug planted) {
    return Simulate(seed, planted, nullptr, rendezvous).violation;
  };
  std::uint64_t seed = 0;
  while (seed < kRunsForABug && run(seed, *bug).empty()) ++seed;
  ASSERT_LT(seed, kRunsForABug) << "not found";
  // Without the bug, the same run holds.
  EXPECT_EQ(run(seed, Bug::kNone), "") << Replay(seed, rendezvous);
  RecordProperty("seed", std::to_string(seed));
}

INSTANTIATE_TEST_SUITE_P(Bugs, PlantedBugTest,
                         testing::Values("no_agent_id_check", "lease_from_ack_arrival",
                                         "ranks_before_lease", "timeline_forgotten",
                                         "nobody_looks_again", "stuck_forgotten", "left_too_early",
                                         "old_survivor_joins", "two_sources", "half_step_as_source",
                                         "slot_of_another_step", "left_before_its_snapshot",
                                         "ack_after_validity", "no_hold", "term_not_checked",
                                         "unguarded_write", "two_leaders_from_one_revision",
                                         "stale_renewal", "delayed_duplicate", "vmax_forgotten",
                                         "no_hold_after_restore"),
                         [](const auto& info) { return std::string(info.param); });

TEST(BugNameTest, OthersHaveNone) { EXPECT_FALSE(BugNamed("none_of_them")); }

}  // namespace simulation_test
}  // namespace ddprun::sim
