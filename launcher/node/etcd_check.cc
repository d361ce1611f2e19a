#include "launcher/node/etcd_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ddprun {
namespace {

using Level = Finding::Level;
using Micros = std::chrono::microseconds;

// A leader sends a renewal every 500 ms, and waits as long for its answer.
constexpr Micros kSlow = std::chrono::milliseconds(100);
constexpr Micros kTooSlow = std::chrono::milliseconds(500);
constexpr std::chrono::milliseconds kClockDifference{1000};
// A longer election timeout fits an etcd over several sites, not within one site.
constexpr std::chrono::milliseconds kSlowElection{300};

std::string Milliseconds(Micros time) {
  return absl::StrFormat("%.1f ms", static_cast<double>(time.count()) / 1000);
}

// The members that answered.
std::vector<const etcd::MemberStatus*> Answered(const EtcdFacts& facts) {
  std::vector<const etcd::MemberStatus*> answered;
  for (const EtcdFacts::Member& member : facts.members) {
    if (member.status.ok()) answered.push_back(&*member.status);
  }
  return answered;
}

Finding CheckMembers(const EtcdFacts& facts) {
  std::vector<std::string> silent;
  for (const EtcdFacts::Member& member : facts.members) {
    if (!member.status.ok()) silent.push_back(std::string(member.status.status().message()));
  }
  const std::size_t all = facts.members.size();
  const std::size_t answered = all - silent.size();
  if (silent.empty() && all >= 3)
    return {Level::kOk, "members", absl::StrCat("all ", all, " answer")};
  if (silent.empty()) {
    return {Level::kWarning, "members",
            absl::StrCat(all == 1 ? "one was given and answers" : "both that were given answer",
                         ": an etcd of fewer than three members does not survive the loss of one")};
  }
  const std::string text =
      absl::StrCat(answered, " of ", all, " answer; ", absl::StrJoin(silent, "; "));
  if (answered > all / 2) return {Level::kWarning, "members", text};
  return {Level::kFailure, "members",
          absl::StrCat(text, "; nothing is written until ", all / 2 + 1,
                       " of them run and reach each other")};
}

bool IsTooOld(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  int major = 0;
  int minor = 0;
  return parts.size() >= 2 && absl::SimpleAtoi(parts[0], &major) &&
         absl::SimpleAtoi(parts[1], &minor) && (major < 3 || (major == 3 && minor < 4));
}

Finding CheckVersion(const EtcdFacts& facts) {
  std::set<std::string> versions;
  Level level = Level::kOk;
  for (const etcd::MemberStatus* const member : Answered(facts)) {
    versions.insert(member->version);
    if (IsTooOld(member->version)) level = Level::kFailure;
  }
  return {level, "version",
          absl::StrCat(absl::StrJoin(versions, ", "),
                       level == Level::kOk ? "" : ": 3.4 or newer is needed")};
}

Finding CheckCluster(const EtcdFacts& facts) {
  std::map<std::uint64_t, std::vector<std::string>> clusters;
  for (const etcd::MemberStatus* const member : Answered(facts)) {
    clusters[member->cluster].push_back(member->endpoint);
  }
  std::vector<std::string> texts;
  for (const auto& [id, endpoints] : clusters) {
    texts.push_back(absl::StrFormat("%x of %s", id, absl::StrJoin(endpoints, ", ")));
  }
  if (clusters.size() == 1) {
    return {Level::kOk, "cluster", absl::StrFormat("%x", clusters.begin()->first)};
  }
  return {Level::kFailure, "cluster",
          absl::StrCat("the endpoints belong to different etcd clusters: ",
                       absl::StrJoin(texts, "; "))};
}

Finding CheckQuorum(const EtcdFacts& facts) {
  const auto answered = Answered(facts);
  std::vector<std::string> without;
  std::set<std::uint64_t> leaders;
  for (const etcd::MemberStatus* const member : answered) {
    if (member->leader == 0) {
      without.push_back(member->endpoint);
    } else {
      leaders.insert(member->leader);
    }
  }
  if (leaders.empty()) {
    return {Level::kFailure, "quorum",
            "no member knows a leader: the majority is lost, or cut off from the members that "
            "answer; the rendezvous continues for --leader-validity, then workers end"};
  }
  std::string leader = "a member that was not given";
  for (const etcd::MemberStatus* const member : answered) {
    if (leaders.count(member->member) > 0) leader = member->endpoint;
  }
  if (leaders.size() > 1) {
    return {Level::kWarning, "quorum",
            "the members name different leaders: an election is under way; look again"};
  }
  if (!without.empty()) {
    return {Level::kWarning, "quorum",
            absl::StrCat("led by ", leader, ", but ", absl::StrJoin(without, ", "),
                         " knows of no leader: cut off from the others?")};
  }
  return {Level::kOk, "quorum", absl::StrCat("led by ", leader)};
}

Finding CheckLatency(const std::string& name, const std::string& what,
                     const absl::StatusOr<Micros>& time) {
  if (!time.ok()) {
    return {Level::kFailure, name, absl::StrCat(what, ": ", time.status().message())};
  }
  const std::string text = absl::StrCat(what, ": ", Milliseconds(*time));
  if (*time < kSlow) return {Level::kOk, name, text};
  return {*time < kTooSlow ? Level::kWarning : Level::kFailure, name,
          absl::StrCat(text,
                       ": a leader asks every 500 ms; give etcd a disk of its own that syncs "
                       "within 10 ms, and a network within one site")};
}

Finding CheckSpace(const EtcdFacts& facts) {
  std::int64_t largest = 0;
  std::uint64_t revision = 0;
  std::set<std::string> alarms;
  for (const etcd::MemberStatus* const member : Answered(facts)) {
    largest = std::max(largest, member->database_bytes);
    revision = std::max(revision, member->revision);
    alarms.insert(member->alarms.begin(), member->alarms.end());
  }
  const std::string size = absl::StrCat("its database has ", largest >> 20, " MiB");
  if (alarms.empty()) {
    return {Level::kOk, "space",
            absl::StrCat(size, "; set --auto-compaction-retention, so that it does not grow")};
  }
  const std::string what =
      absl::StrCat(size, ", and the alarm ", absl::StrJoin(alarms, ", "), " is on");
  if (alarms.count("NOSPACE") == 0) {
    return {Level::kFailure, "space",
            absl::StrCat(what, ": see etcd's documentation; docs/ha.md says how to restore it")};
  }
  return {Level::kFailure, "space",
          absl::StrCat(what, ": etcd writes nothing. Run `etcdctl compact ", revision,
                       "`, `etcdctl defrag` at each member, then `etcdctl alarm disarm`")};
}

Finding CheckTls(const EtcdFacts& facts) {
  if (facts.tls) {
    return {Level::kOk, "tls",
            Answered(facts).empty() ? "is used" : "its certificates are of --etcd-ca"};
  }
  if (facts.loopback) return {Level::kOk, "tls", "none; it is on this host"};
  if (facts.insecure) {
    return {Level::kWarning, "tls", "none: who can write the leader key owns the jobs"};
  }
  return {Level::kFailure, "tls",
          "none: who can write the leader key owns the jobs; give --etcd-ca, or --insecure"};
}

// "10.0.0.2:2379 is 3.2 s ahead (known to 0.1 s)".
std::string TextOf(const std::string& endpoint, const ClockAhead& ahead) {
  const double middle = static_cast<double>((ahead.least + ahead.most).count()) / 2000;
  return absl::StrFormat("%s is %.1f s %s (known to %.1f s)", endpoint, std::abs(middle),
                         middle < 0 ? "behind" : "ahead",
                         static_cast<double>((ahead.most - ahead.least).count()) / 2000);
}

Finding CheckClocks(const EtcdFacts& facts) {
  std::vector<std::string> wrong;
  std::vector<std::string> unknown;
  std::chrono::milliseconds farthest{};
  for (const EtcdFacts::Member& member : facts.members) {
    if (!member.status.ok()) continue;
    if (!member.clock.ok()) {
      unknown.push_back(absl::StrCat(member.endpoint, ": ", member.clock.status().message()));
      continue;
    }
    const ClockAhead& ahead = *member.clock;
    farthest = std::max({farthest, ahead.most, -ahead.least});
    // Even the bound that is nearer to 0 differs too much.
    if (ahead.least > kClockDifference || ahead.most < -kClockDifference) {
      wrong.push_back(TextOf(member.endpoint, ahead));
    }
  }
  if (!wrong.empty()) {
    return {
        Level::kWarning, "clocks",
        absl::StrCat(
            absl::StrJoin(wrong, ", "),
            " of this host: certificates and the comparison of logs depend on clocks; use NTP")};
  }
  if (!unknown.empty()) {
    return {Level::kWarning, "clocks",
            absl::StrCat("unknown, compare them yourself: ", absl::StrJoin(unknown, "; "))};
  }
  return {Level::kOk, "clocks",
          absl::StrFormat("no member's differs from this host's by more than %.1f s",
                          std::ceil(static_cast<double>(farthest.count()) / 100) / 10)};
}

Finding CheckElection(const EtcdFacts& facts) {
  std::map<std::chrono::milliseconds, std::vector<std::string>> times;
  std::vector<std::string> unknown;
  for (const EtcdFacts::Member& member : facts.members) {
    if (!member.status.ok()) continue;
    if (member.election.ok()) {
      times[*member.election].push_back(member.endpoint);
    } else {
      unknown.push_back(absl::StrCat(member.endpoint, ": ", member.election.status().message()));
    }
  }
  std::vector<std::string> texts;
  for (const auto& [time, endpoints] : times) {
    texts.push_back(absl::StrCat(
        time.count(), " ms",
        times.size() == 1 ? "" : absl::StrCat(" at ", absl::StrJoin(endpoints, ", "))));
  }
  if (!unknown.empty()) {
    texts.insert(texts.begin(), absl::StrCat("unknown: ", absl::StrJoin(unknown, "; ")));
  }
  constexpr char kAdvice[] =
      "; --heartbeat-interval 50 --election-timeout 300, the same on all members, suit one site; "
      "etcd's defaults, 100 and 1000, make its failover slower";
  const std::string text = absl::StrJoin(texts, "; ");
  if (!unknown.empty()) return {Level::kWarning, "election", absl::StrCat(text, kAdvice)};
  if (times.size() > 1) {
    return {
        Level::kWarning, "election",
        absl::StrCat("the members differ: ", text,
                     ": a member with a shorter timeout takes the lead from the others", kAdvice)};
  }
  return {Level::kOk, "election",
          times.begin()->first > kSlowElection ? absl::StrCat(text, kAdvice) : text};
}

}  // namespace

std::vector<Finding> JudgeEtcd(const EtcdFacts& facts) {
  if (!facts.options.ok()) {
    return {{Level::kFailure, "options", std::string(facts.options.message())}};
  }
  if (Answered(facts).empty()) return {CheckMembers(facts), CheckTls(facts)};
  return {CheckMembers(facts),
          CheckVersion(facts),
          CheckCluster(facts),
          CheckQuorum(facts),
          CheckLatency("reads", "a renewal takes", facts.read),
          CheckLatency("writes", "a transaction takes", facts.write),
          CheckSpace(facts),
          CheckTls(facts),
          CheckClocks(facts),
          CheckElection(facts)};
}

}  // namespace ddprun
