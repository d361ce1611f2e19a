#include "rendezvous/http/page/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::http {
namespace view_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

const TimePoint kStart = TimePoint() + 1h;

class FakeStream final : public Stream {
 public:
  bool Write(Piece piece) override {
    if (!takes) return false;
    pieces.push_back(*piece);
    return true;
  }
  void Close() override { closed = true; }
  void Abort() override { aborted = true; }
  void OnClose(std::function<void()>) override {}
  void OnSent(std::function<void()>) override {}
  std::size_t unsent() const override { return waiting; }

  std::vector<std::string> pieces;
  bool takes = true;
  bool closed = false;
  bool aborted = false;
  std::size_t waiting = 0;
};

Json StateAt(int step, int age) { return {{"step", step}, {"since_ms_ago", age}}; }

TEST(ViewTest, WhatHasChangedIsSentAtMostOnceASecond) {
  View view;
  const auto viewer = std::make_shared<FakeStream>();
  view.Add(1, viewer, TimePoint::max());
  EXPECT_TRUE(view.due(kStart));
  view.Take("job", StateAt(1, 0), 0ms, kStart);
  EXPECT_THAT(viewer->pieces, ElementsAre("event: job\ndata: {\"step\":1,\"since_ms_ago\":0}\n\n"));
  EXPECT_FALSE(view.due(kStart + 999ms));
  EXPECT_TRUE(view.due(kStart + 1s));
}

TEST(ViewTest, OnlyAgesAreSentEveryFiveSeconds) {
  View view;
  const auto viewer = std::make_shared<FakeStream>();
  view.Add(1, viewer, TimePoint::max());
  for (int second = 0; second <= 5; ++second) {
    view.Take("job", StateAt(1, second), 0ms, kStart + second * 1s);
  }
  EXPECT_EQ(viewer->pieces.size(), 2u);
}

TEST(ViewTest, WhatIsExpensiveIsMadeLessOften) {
  View view;
  view.Add(1, std::make_shared<FakeStream>(), TimePoint::max());
  view.Take("job", StateAt(1, 0), 200ms, kStart);
  EXPECT_FALSE(view.due(kStart + 4999ms));
  EXPECT_TRUE(view.due(kStart + 5s));
}

TEST(ViewTest, WhatHasManyViewersIsSentLessOften) {
  View view;
  for (int i = 0; i < 256; ++i) view.Add(i, std::make_shared<FakeStream>(), TimePoint::max());
  view.Take("job", Json(std::string(1 << 20, 'x')), 0ms, kStart);
  EXPECT_FALSE(view.due(kStart + 15s));
  EXPECT_TRUE(view.due(kStart + 17s));
}

TEST(ViewTest, WhoIsGoneOrTooSlowOrPastHisSessionIsDropped) {
  View view;
  const auto slow = std::make_shared<FakeStream>();
  const auto late = std::make_shared<FakeStream>();
  const auto stays = std::make_shared<FakeStream>();
  view.Add(1, slow, TimePoint::max());
  view.Add(2, late, kStart + 1s);
  view.Add(3, std::make_shared<FakeStream>(), TimePoint::max());
  const SessionEnd session;
  view.Add(4, stays, session);
  slow->takes = false;
  view.Take("job", StateAt(1, 0), 0ms, kStart);
  view.Drop(3);
  view.DropEnded(kStart + 1s);
  EXPECT_EQ(view.size(), 1u);
  EXPECT_TRUE(late->closed);
  EXPECT_FALSE(stays->closed);
  session.SignOut();
  view.DropEnded(kStart + 1s);
  EXPECT_TRUE(stays->closed);
}

// A viewer that reads one byte from time to time would keep its place for ever.
TEST(ViewTest, WhoDoesNotKeepUpForAMinuteLosesHisPlace) {
  View view;
  const auto drips = std::make_shared<FakeStream>();
  const auto keeps_up = std::make_shared<FakeStream>();
  view.Add(1, drips, TimePoint::max());
  view.Add(2, keeps_up, TimePoint::max());
  const auto piece = std::make_shared<const std::string>(std::string(Pace::kBytes, 'x'));
  drips->waiting = Pace::kBytes;
  for (int second = 0; second <= 60; ++second) {
    if (second % 30 == 0) view.Send(piece);
    drips->waiting = (second / 30 + 1) * Pace::kBytes - second;
    keeps_up->waiting = 1;  // of another piece each time
    view.DropEnded(kStart + second * 1s);
  }
  EXPECT_EQ(view.size(), 2u);
  view.DropEnded(kStart + 61s);
  EXPECT_TRUE(drips->aborted);
  EXPECT_FALSE(keeps_up->aborted);
  EXPECT_EQ(view.size(), 1u);
}

TEST(ViewTest, AtItsEndEverybodyIsTold) {
  View view;
  const auto viewer = std::make_shared<FakeStream>();
  view.Add(1, viewer, TimePoint::max());
  view.End(SseEvent("bye", "{}"));
  EXPECT_THAT(viewer->pieces, ElementsAre("event: bye\ndata: {}\n\n"));
  EXPECT_TRUE(viewer->closed);
  EXPECT_EQ(view.size(), 0u);
}

TEST(ViewTest, WhatWasMadeIsFreshUntilItIsDue) {
  View view;
  EXPECT_EQ(view.Fresh(kStart), nullptr);
  view.Take("jobs", StateAt(1, 0), 0ms, kStart);
  EXPECT_NE(view.Fresh(kStart + 999ms), nullptr);
  EXPECT_EQ(view.FreshJson(kStart + 999ms), R"({"step":1,"since_ms_ago":0})");
  EXPECT_EQ(view.Fresh(kStart + 1s), nullptr);
  EXPECT_EQ(view.FreshJson(kStart + 1s), std::nullopt);
}

}  // namespace view_test
}  // namespace ddprun::http
