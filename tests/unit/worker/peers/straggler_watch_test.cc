// Tests StragglerWatch: which ranks are stragglers, from their times alone.
#include "worker/src/peers/straggler_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace ddp::internal {
namespace straggler_watch_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::IsEmpty;

RankTimes Even(double ms) {
  const nanoseconds time(static_cast<std::int64_t>(ms * 1e6));
  return {time, time};
}

std::vector<RankTimes> Times(const std::vector<double>& ms) {
  std::vector<RankTimes> times;
  for (const double time : ms) times.push_back(Even(time));
  return times;
}

std::vector<int> Ranks(const StragglerWatch::Verdict& verdict) {
  std::vector<int> ranks;
  for (const Straggler& straggler : verdict.stragglers) ranks.push_back(straggler.rank);
  return ranks;
}

// The verdict after three windows with these times.
StragglerWatch::Verdict Thrice(StragglerWatch& watch, const std::vector<RankTimes>& times) {
  for (int window = 1; window < 3; ++window) watch.Judge(times);
  return watch.Judge(times);
}

TEST(StragglerWatchTest, NamesARankThatIsHalfAsSlowAgainInThreeWindows) {
  StragglerWatch watch;
  EXPECT_THAT(Ranks(watch.Judge(Times({10, 10, 15, 10}))), IsEmpty());
  EXPECT_THAT(Ranks(watch.Judge(Times({11, 10, 15, 9}))), IsEmpty());
  const auto verdict = watch.Judge(Times({10, 11, 15, 9}));
  ASSERT_THAT(Ranks(verdict), ElementsAre(2));
  EXPECT_EQ(verdict.stragglers[0].time, milliseconds(15));
  EXPECT_EQ(verdict.stragglers[0].others, milliseconds(10));
  EXPECT_EQ(verdict.stragglers[0].wait(), milliseconds(5));
  EXPECT_DOUBLE_EQ(verdict.stragglers[0].ratio(), 1.5);
  EXPECT_THAT(verdict.ended, IsEmpty());
}

TEST(StragglerWatchTest, NamesNoneOfAnEvenJob) {
  StragglerWatch watch;
  for (int window = 0; window < 20; ++window) {
    EXPECT_THAT(Ranks(watch.Judge(Times({10, 10.5, 9.5, 12}))), IsEmpty());
  }
}

TEST(StragglerWatchTest, TwoSlowWindowsAreNotEnough) {
  StragglerWatch watch;
  for (int window = 0; window < 4; ++window) {
    EXPECT_THAT(Ranks(watch.Judge(Times({10, 30}))), IsEmpty());
    EXPECT_THAT(Ranks(watch.Judge(Times({10, 30}))), IsEmpty());
    EXPECT_THAT(Ranks(watch.Judge(Times({10, 10}))), IsEmpty());
  }
}

TEST(StragglerWatchTest, EndsAfterThreeWindowsAndSaysSoOnce) {
  StragglerWatch watch;
  EXPECT_THAT(Ranks(Thrice(watch, Times({10, 15}))), ElementsAre(1));
  for (int window = 0; window < 2; ++window) {
    const auto verdict = watch.Judge(Times({10, 10}));
    EXPECT_THAT(Ranks(verdict), IsEmpty());  // the rank did not keep the others waiting
    EXPECT_THAT(verdict.ended, IsEmpty());   // it can become a straggler again
  }
  EXPECT_THAT(Ranks(watch.Judge(Times({10, 15}))), ElementsAre(1));
  EXPECT_THAT(Thrice(watch, Times({10, 10})).ended, ElementsAre(1));
  EXPECT_THAT(watch.Judge(Times({10, 10})).ended, IsEmpty());
  EXPECT_THAT(Ranks(watch.Judge(Times({10, 15}))), IsEmpty());
}

TEST(StragglerWatchTest, AStragglerStaysOneJustBelowTheLimitAtWhichItBecameOne) {
  StragglerWatch watch;
  EXPECT_THAT(Ranks(Thrice(watch, Times({10, 12}))), IsEmpty());
  Thrice(watch, Times({10, 15}));
  EXPECT_THAT(Ranks(Thrice(watch, Times({10, 12}))), ElementsAre(1));
  EXPECT_THAT(Thrice(watch, Times({10, 11.4})).ended, ElementsAre(1));
}

// A delay of most steps of a rank, but not of all, is not the rank's own speed.
TEST(StragglerWatchTest, ItsQuickStepsCount) {
  StragglerWatch watch;
  EXPECT_THAT(Ranks(Thrice(watch, {Even(10), {milliseconds(12), milliseconds(20)}})), IsEmpty());
  // The verdict shows the time of its typical steps.
  const auto verdict = Thrice(watch, {Even(10), {milliseconds(14), milliseconds(20)}});
  ASSERT_THAT(Ranks(verdict), ElementsAre(1));
  EXPECT_EQ(verdict.stragglers[0].time, milliseconds(20));
}

// The others' quick steps are shorter, but typically they do not wait for this rank.
TEST(StragglerWatchTest, WhoIsNotSlowerThanTheOthersTypicalStepsIsNone) {
  StragglerWatch watch;
  const RankTimes uneven = {milliseconds(10), milliseconds(15)};
  EXPECT_THAT(Ranks(Thrice(watch, {uneven, Even(15), uneven})), IsEmpty());
  EXPECT_THAT(Ranks(Thrice(watch, {uneven, Even(16), uneven})), ElementsAre(1));
}

TEST(StragglerWatchTest, LessThanAMillisecondIsNobodysLoss) {
  StragglerWatch watch;
  EXPECT_THAT(Ranks(Thrice(watch, Times({0.5, 1.49}))), IsEmpty());
  EXPECT_THAT(Ranks(Thrice(watch, Times({0.5, 1.5}))), ElementsAre(1));
}

TEST(StragglerWatchTest, NamesTheSlowestFirst) {
  StragglerWatch watch;
  EXPECT_THAT(Ranks(Thrice(watch, Times({10, 20, 10, 30, 10, 10}))), ElementsAre(3, 1));
}

TEST(StragglerWatchTest, WhoIsAsSlowAsHalfOfTheOthersIsNone) {
  StragglerWatch watch;
  EXPECT_THAT(Ranks(Thrice(watch, Times({10, 15, 15}))), IsEmpty());
  EXPECT_THAT(Ranks(Thrice(watch, Times({10, 15, 15, 15, 10}))), IsEmpty());
}

TEST(StragglerWatchTest, RanksWithoutTimesAreNeitherJudgedNorCompared) {
  StragglerWatch watch;
  EXPECT_THAT(Ranks(Thrice(watch, {RankTimes(), Even(15)})), IsEmpty());
  EXPECT_THAT(Ranks(Thrice(watch, {RankTimes(), RankTimes()})), IsEmpty());
  EXPECT_THAT(Ranks(Thrice(watch, {Even(10), RankTimes(), Even(15)})), ElementsAre(2));
  StragglerWatch other;
  other.Judge(Times({10, 15, 10}));
  other.Judge(Times({10, 15, 10}));
  EXPECT_THAT(Ranks(other.Judge({Even(10), RankTimes(), Even(10)})), IsEmpty());  // changes nothing
  EXPECT_THAT(Ranks(other.Judge({Even(10), Even(15), RankTimes()})), ElementsAre(1));
}

TEST(StragglerWatchTest, SummarizesAWindow) {
  const auto ms = [](int n) { return nanoseconds(milliseconds(n)); };
  const RankTimes times = Summarize({ms(9), ms(1), ms(7), ms(3), ms(5), ms(2), ms(8), ms(4)});
  EXPECT_EQ(times.first_quartile, ms(3));
  EXPECT_EQ(times.median, ms(5));
  EXPECT_EQ(Summarize({ms(6)}).first_quartile, ms(6));
  EXPECT_EQ(Summarize({ms(6)}).median, ms(6));
  EXPECT_EQ(Summarize({nanoseconds(0)}).median, nanoseconds(1));
  EXPECT_EQ(Summarize({}).median, nanoseconds(0));
}

TEST(StragglerWatchTest, SaysWhoAndWhatItCosts) {
  Straggler straggler;
  straggler.rank = 3;
  straggler.time = microseconds(15250);
  straggler.others = microseconds(10100);
  EXPECT_EQ(Describe(straggler, "n2", 100),
            "rank 3 (n2) keeps the others waiting: in the last 100 steps it computed 15.2 ms "
            "before its first gradients were ready to be reduced, the others 10.1 ms; that costs "
            "all of them 5.2 ms a step");
}

}  // namespace straggler_watch_test
}  // namespace ddp::internal
