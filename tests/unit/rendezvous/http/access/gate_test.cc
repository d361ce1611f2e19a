#include "rendezvous/http/access/gate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun::http {
namespace gate_test {

using namespace std::chrono_literals;
using Kind = Viewer::Kind;

const TimePoint kStart = TimePoint() + 1h;

class GateTest : public testing::Test {
 protected:
  Gate::Options Options() {
    Gate::Options options;
    options.readers = {{"prom", "reads-metrics-of-prom"}, {"token", "reads-metrics-of-all"}};
    options.random = [this](std::size_t count) {
      return std::string(count - 1, 'r') + static_cast<char>('a' + drawn_++);
    };
    return options;
  }
  Kind KindOf(const Request& request, TimePoint now = kStart) {
    return gate_.Identify(request, now).kind;
  }
  Gate::Session SignIn(const std::string& owner) {
    return *gate_.SignIn(gate_.NewCode(owner, kStart), kStart);
  }

  int drawn_ = 0;
  Gate gate_{Options()};
};

Request Local(std::map<std::string, std::string> headers = {}) {
  headers.try_emplace("host", "127.0.0.1:29480");
  return {.method = "GET", .target_path = "/", .headers = std::move(headers), .loopback = true};
}
Request Remote(std::map<std::string, std::string> headers = {}) {
  headers.try_emplace("host", "head:29480");
  return {.method = "GET", .target_path = "/", .headers = std::move(headers), .tls = true};
}
Request WithBearer(const std::string& secret) {
  return Local({{"authorization", absl::StrCat("Bearer ", secret)}});
}
Request WithCookie(const std::string& secret) {
  return Remote({{"cookie", absl::StrCat("a=b; __Host-ddprun=", secret, "; c=d")}});
}

TEST_F(GateTest, ACodeIsGoodOnceAndForAMinute) {
  const std::string code = gate_.NewCode("ann", kStart);
  EXPECT_FALSE(gate_.SignIn("another", kStart));
  EXPECT_TRUE(gate_.SignIn(code, kStart + 59s));
  EXPECT_FALSE(gate_.SignIn(code, kStart + 59s));
  const std::string late = gate_.NewCode("ann", kStart);
  EXPECT_FALSE(gate_.SignIn(late, kStart + 60s));
}

TEST_F(GateTest, ASessionIsABearerOnLoopbackAndACookieElsewhere) {
  const std::string secret = SignIn("ann").secret;
  const Viewer viewer = gate_.Identify(WithBearer(secret), kStart);
  EXPECT_EQ(viewer.kind, Kind::kSignedIn);
  EXPECT_EQ(viewer.owner, "ann");
  EXPECT_EQ(KindOf(WithCookie(secret)), Kind::kSignedIn);
  // Not the other way round: browsers send a cookie to every port of this host.
  EXPECT_EQ(KindOf(Local({{"cookie", "__Host-ddprun=" + secret}})), Kind::kNeighbour);
  EXPECT_EQ(KindOf(Remote({{"authorization", "Bearer " + secret}})), Kind::kStranger);
}

TEST_F(GateTest, ASessionEndsAfterTwelveHours) {
  const std::string secret = SignIn("ann").secret;
  EXPECT_EQ(KindOf(WithBearer(secret), kStart + 12h - 1s), Kind::kSignedIn);
  EXPECT_EQ(KindOf(WithBearer(secret), kStart + 12h), Kind::kNeighbour);
}

TEST_F(GateTest, WhoSignsOutEndsThisSessionAndNoOther) {
  const std::string secret = SignIn("ann").secret;
  const std::string other = SignIn("ann").secret;
  const Viewer viewer = gate_.Identify(WithCookie(secret), kStart);
  EXPECT_FALSE(viewer.until.IsOver(kStart));
  gate_.SignOut(Remote(), kStart);
  gate_.SignOut(WithBearer("nobodys"), kStart);
  EXPECT_EQ(KindOf(WithCookie(secret)), Kind::kSignedIn);
  gate_.SignOut(WithCookie(secret), kStart);
  EXPECT_EQ(KindOf(WithCookie(secret)), Kind::kStranger);
  EXPECT_TRUE(viewer.until.IsOver(kStart)) << "what was opened with it ends";
  EXPECT_EQ(KindOf(WithCookie(other)), Kind::kSignedIn);
}

TEST_F(GateTest, WhoShowsNothingIsANeighbourOnThisHostOnly) {
  EXPECT_EQ(KindOf(Local()), Kind::kNeighbour);
  EXPECT_EQ(KindOf(Remote()), Kind::kStranger);
  // A proxy on this host asks on behalf of another host.
  EXPECT_EQ(KindOf(Local({{"x-forwarded-for", "10.0.0.9"}})), Kind::kStranger);
  EXPECT_EQ(KindOf(Local({{"host", "page.example"}})), Kind::kStranger);
}

TEST_F(GateTest, OfAPrivatePageANeighbourSeesNothing) {
  Gate::Options options = Options();
  options.is_private = true;
  const Gate gate(std::move(options));
  EXPECT_EQ(gate.Identify(Local(), kStart).kind, Kind::kStranger);
}

TEST_F(GateTest, AScraperReadsMetricsAndNothingElse) {
  const Viewer one =
      gate_.Identify(Remote({{"authorization", "Bearer reads-metrics-of-prom"}}), kStart);
  EXPECT_EQ(one.kind, Kind::kScraper);
  EXPECT_EQ(one.owner, "token:prom");
  const Viewer all =
      gate_.Identify(Remote({{"authorization", "Bearer reads-metrics-of-all"}}), kStart);
  EXPECT_EQ(all.kind, Kind::kScraper);
  EXPECT_EQ(all.owner, "");
  EXPECT_TRUE(MayUse(one, Needs::kMetrics));
  EXPECT_FALSE(MayUse(one, Needs::kStates));
  EXPECT_FALSE(MayUse(one, Needs::kOwner));
}

TEST(ViewerTest, WhoMayUseWhat) {
  const Needs all[] = {Needs::kNothing, Needs::kStates, Needs::kMetrics, Needs::kOwner};
  const std::pair<Kind, std::string> expected[] = {{Kind::kStranger, "1000"},
                                                   {Kind::kNeighbour, "1110"},
                                                   {Kind::kScraper, "1010"},
                                                   {Kind::kSignedIn, "1111"}};
  for (const auto& [kind, may] : expected) {
    std::string got;
    for (const Needs needs : all) got += MayUse({kind}, needs) ? '1' : '0';
    EXPECT_EQ(got, may) << static_cast<int>(kind);
  }
}

TEST_F(GateTest, AnActionByCookieNeedsItsCsrfToken) {
  const Gate::Session session = SignIn("ann");
  Request request = WithCookie(session.secret);
  EXPECT_FALSE(gate_.CheckAction(request, kStart).ok());
  request.headers["x-ddprun-csrf"] = SignIn("bob").csrf;
  EXPECT_FALSE(gate_.CheckAction(request, kStart).ok());
  request.headers["x-ddprun-csrf"] = session.csrf;
  EXPECT_TRUE(gate_.CheckAction(request, kStart).ok());
  EXPECT_TRUE(gate_.CheckAction(WithBearer(session.secret), kStart).ok());
}

TEST(CrossSiteTest, OnlyOurOwnPageMayAsk) {
  EXPECT_FALSE(IsCrossSite(Local()));
  EXPECT_FALSE(IsCrossSite(Local({{"origin", "http://127.0.0.1:29480"}})));
  EXPECT_FALSE(IsCrossSite(Remote({{"origin", "https://HEAD:29480"}})));
  EXPECT_FALSE(IsCrossSite(Local({{"sec-fetch-site", "same-origin"}})));
  EXPECT_FALSE(IsCrossSite(Local({{"sec-fetch-site", "none"}})));
  EXPECT_TRUE(IsCrossSite(Local({{"origin", "http://127.0.0.1:3000"}})));
  EXPECT_TRUE(IsCrossSite(Local({{"origin", "https://127.0.0.1:29480"}})));
  EXPECT_TRUE(IsCrossSite(Local({{"origin", "null"}})));
  EXPECT_TRUE(IsCrossSite(Local({{"origin", "http://evil.example"}})));
  EXPECT_TRUE(IsCrossSite(Local({{"sec-fetch-site", "cross-site"}})));
  EXPECT_TRUE(IsCrossSite(Local({{"sec-fetch-site", "same-site"}})));  // another port of this host
}

}  // namespace gate_test
}  // namespace ddprun::http
