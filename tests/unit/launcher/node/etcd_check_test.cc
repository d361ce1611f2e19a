#include "launcher/node/etcd_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/node/etcd_facts.h"
#include "launcher/node/etcd_http.h"
#include "tests/support/capabilities.h"
#include "tests/support/etcd_cluster.h"

namespace ddprun {
namespace etcd_check_test {

using Level = Finding::Level;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::SizeIs;

EtcdFacts GoodEtcd() {
  EtcdFacts facts;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const std::string endpoint = absl::StrCat("h", i, ":2379");
    facts.members.push_back({endpoint,
                             etcd::MemberStatus{endpoint, "3.4.23", 0xC1, i, 2, 100, 5 << 20, {}},
                             ClockAhead{milliseconds(-100), milliseconds(150)}, milliseconds(300)});
  }
  facts.read = std::chrono::microseconds(1500);
  facts.write = std::chrono::microseconds(4200);
  facts.tls = true;
  return facts;
}

Finding Of(const std::string& name, const EtcdFacts& facts) {
  for (const Finding& finding : JudgeEtcd(facts)) {
    if (finding.name == name) return finding;
  }
  return {};
}

void Expect(const std::string& name, const EtcdFacts& facts, Level level, const std::string& text) {
  const Finding finding = Of(name, facts);
  EXPECT_EQ(finding.level, level) << finding.text;
  EXPECT_THAT(finding.text, HasSubstr(text));
}

TEST(EtcdCheckTest, AGoodEtcdPasses) {
  const auto findings = JudgeEtcd(GoodEtcd());
  EXPECT_TRUE(MayRun(findings));
  EXPECT_THAT(FindingsToText(findings), HasSubstr("ok       members      all 3 answer\n"
                                                  "ok       version      3.4.23\n"
                                                  "ok       cluster      c1\n"
                                                  "ok       quorum       led by h2:2379\n"
                                                  "ok       reads        a renewal takes: 1.5 ms\n"
                                                  "ok       writes       a transaction takes: 4.2 "
                                                  "ms\n"));
}

TEST(EtcdCheckTest, MembersThatDoNotAnswerAreNamed) {
  EtcdFacts facts = GoodEtcd();
  facts.members[2].status = absl::AbortedError("h3:2379: connection refused");
  Expect("members", facts, Level::kWarning, "2 of 3 answer; h3:2379: connection refused");
  facts.members[0].status = absl::AbortedError("h1:2379: connection refused");
  Expect("members", facts, Level::kFailure, "1 of 3 answer");
  facts.members.resize(1);
  facts.members[0].status = GoodEtcd().members[0].status;
  Expect("members", facts, Level::kWarning, "fewer than three");
}

TEST(EtcdCheckTest, MembersOfTwoClustersAreNoCluster) {
  EtcdFacts facts = GoodEtcd();
  facts.members[1].status->cluster = 0xD2;
  Expect("cluster", facts, Level::kFailure, "d2 of h2:2379");
}

TEST(EtcdCheckTest, WithoutALeaderThereIsNoQuorum) {
  EtcdFacts facts = GoodEtcd();
  facts.members[0].status->leader = 0;
  Expect("quorum", facts, Level::kWarning, "h1:2379 knows of no leader");
  for (auto& member : facts.members) member.status->leader = 0;
  Expect("quorum", facts, Level::kFailure, "no member knows a leader");
}

TEST(EtcdCheckTest, WhereNobodyAnswersTheReasonIsSaidOnce) {
  EtcdFacts facts = GoodEtcd();
  for (auto& member : facts.members) {
    member.status = absl::AbortedError(member.endpoint + ": connection refused");
  }
  EXPECT_THAT(JudgeEtcd(facts), SizeIs(2));
  Expect("members", facts, Level::kFailure,
         "0 of 3 answer; h1:2379: connection refused; h2:2379: connection refused; h3:2379: "
         "connection refused; nothing is written until 2 of them run");
}

TEST(EtcdCheckTest, SlowTransactionsAndAlarmsAreSaid) {
  EtcdFacts facts = GoodEtcd();
  facts.write = std::chrono::milliseconds(120);
  Expect("writes", facts, Level::kWarning, "120.0 ms");
  facts.write = std::chrono::seconds(1);
  Expect("writes", facts, Level::kFailure, "1000.0 ms");
  facts.write = absl::PermissionDeniedError("h1:2379: etcdserver: permission denied");
  Expect("writes", facts, Level::kFailure, "permission denied");
  facts.members[1].status->alarms = {"NOSPACE"};
  Expect("space", facts, Level::kFailure, "etcdctl alarm disarm");
}

TEST(EtcdCheckTest, AnOldVersionFails) {
  EtcdFacts facts = GoodEtcd();
  facts.members[1].status->version = "3.3.27";
  Expect("version", facts, Level::kFailure, "3.4 or newer");
}

TEST(EtcdCheckTest, OffThisHostItNeedsTls) {
  EtcdFacts facts = GoodEtcd();
  facts.tls = false;
  Expect("tls", facts, Level::kFailure, "--etcd-ca");
  facts.insecure = true;
  Expect("tls", facts, Level::kWarning, "owns the jobs");
  facts.loopback = true;
  Expect("tls", facts, Level::kOk, "on this host");
}

// Break: write constants into the texts instead of the measured times.
TEST(EtcdCheckTest, ClocksThatDifferAreNamed) {
  EtcdFacts facts = GoodEtcd();
  Expect("clocks", facts, Level::kOk, "no member's differs from this host's by more than 0.2 s");
  facts.members[1].clock = ClockAhead{milliseconds(-3200), milliseconds(-2800)};
  Expect("clocks", facts, Level::kWarning, "h2:2379 is 3.0 s behind (known to 0.2 s)");
  // The measurement is so inexact that the clock may be right.
  facts.members[1].clock = ClockAhead{milliseconds(-500), milliseconds(1500)};
  Expect("clocks", facts, Level::kOk, "by more than 1.5 s");
  facts.members[1].clock = absl::NotFoundError("its answers have no date");
  Expect("clocks", facts, Level::kWarning, "unknown");
}

TEST(EtcdCheckTest, ElectionTimeoutsThatDifferOrAreUnknownAreNamed) {
  EtcdFacts facts = GoodEtcd();
  Expect("election", facts, Level::kOk, "300 ms");
  facts.members[0].election = seconds(1);
  Expect("election", facts, Level::kWarning, "300 ms at h2:2379, h3:2379; 1000 ms at h1:2379");
  facts.members[0].election = absl::NotFoundError("not on its command line");
  Expect("election", facts, Level::kWarning, "unknown: h1:2379: not on its command line; 300 ms");
}

TEST(EtcdHttpTest, TheDateOfAnAnswerIsRead) {
  const auto date = DateOf("HTTP/1.0 200 OK\r\ndate: Fri, 27 Nov 2026 11:20:35 GMT\r\n\r\nDate: x");
  ASSERT_TRUE(date.has_value());
  EXPECT_EQ(std::chrono::system_clock::to_time_t(*date), 1795778435);
  EXPECT_FALSE(DateOf("HTTP/1.0 200 OK\r\n\r\nDate: Fri, 27 Nov 2026 11:20:35 GMT").has_value());
  EXPECT_FALSE(DateOf("HTTP/1.0 200 OK\r\nDate: today\r\n\r\n").has_value());
}

// The clock of the member is 2.3 s ahead. The dates in its answers have only whole seconds.
TEST(EtcdHttpTest, SeveralAnswersNarrowTheDifferenceDown) {
  const std::chrono::system_clock::time_point begin(seconds(1'000'000));
  std::vector<DateSeen> seen;
  for (int look = 0; look < 5; ++look) {
    const auto sent = begin + look * milliseconds(220);
    const auto theirs = sent + milliseconds(2300);
    seen.push_back({sent, sent + milliseconds(2), std::chrono::floor<seconds>(theirs)});
  }
  const ClockAhead ahead = ClockAheadBy(seen);
  EXPECT_LE(ahead.least, milliseconds(2300));
  EXPECT_GE(ahead.most, milliseconds(2300));
  EXPECT_LE(ahead.most - ahead.least, milliseconds(240));
}

TEST(EtcdHttpTest, TheElectionTimeoutIsOnTheCommandLineOrUnknown) {
  const auto of = [](const std::string& arguments) {
    return ElectionTimeoutOf("HTTP/1.0 200 OK\r\n\r\n{\"cmdline\": [\"etcd\"" + arguments + "]}");
  };
  EXPECT_EQ(of(R"(, "--election-timeout", "300")").value_or(seconds(0)), milliseconds(300));
  EXPECT_EQ(of(R"(, "-election-timeout=500", "--name", "x")").value_or(seconds(0)),
            milliseconds(500));
  EXPECT_FALSE(of(R"(, "--name", "x")").ok());
  EXPECT_FALSE(of(R"(, "--election-timeout")").ok());
  EXPECT_FALSE(ElectionTimeoutOf("HTTP/1.0 404 Not Found\r\n\r\n404 page not found").ok());
}

TEST(EtcdFactsTest, ARealEtcdPassesAndNothingIsWritten) {
  DDPRUN_NEEDS(MissingForEtcd());
  EtcdCluster etcd(1);
  EtcdConfig config;
  config.endpoints = etcd.endpoints();
  const EtcdFacts facts = LookAtEtcd(config, false);
  ASSERT_THAT(facts.members, SizeIs(1));
  EXPECT_TRUE(facts.members[0].status.ok()) << facts.members[0].status.status();
  EXPECT_TRUE(facts.read.ok()) << facts.read.status();
  EXPECT_TRUE(facts.write.ok()) << facts.write.status();
  EXPECT_TRUE(facts.loopback);
  ASSERT_TRUE(facts.members[0].clock.ok()) << facts.members[0].clock.status();
  EXPECT_LE(facts.members[0].clock->least, milliseconds(0));
  EXPECT_GE(facts.members[0].clock->most, milliseconds(0));
  EXPECT_EQ(facts.members[0].election.value_or(seconds(0)), milliseconds(300));
  const auto client = etcd::Client::Create({etcd.endpoints(), "", "", "", "", ""});
  const auto keys = (*client)->List("/", true, std::chrono::seconds(10));
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_THAT(keys->found, SizeIs(0));
}

TEST(EtcdFactsTest, NobodyThereFails) {
  EtcdConfig config;
  config.endpoints = {"127.0.0.1:1"};
  const EtcdFacts facts = LookAtEtcd(config, false);
  EXPECT_FALSE(MayRun(JudgeEtcd(facts)));
  Expect("members", facts, Level::kFailure, "connection refused");
}

}  // namespace etcd_check_test
}  // namespace ddprun
