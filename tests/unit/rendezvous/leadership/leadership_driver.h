// Drives a Leadership with a fake clock, and collects its actions.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_LEADERSHIP_LEADERSHIP_DRIVER_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_LEADERSHIP_LEADERSHIP_DRIVER_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/leadership/leadership.h"
#include "worker/contract/overloaded.h"

namespace ddprun {

inline const char* ToString(Leadership::Role role) {
  switch (role) {
    case Leadership::Role::kStandby:
      return "standby";
    case Leadership::Role::kTakingOver:
      return "taking over";
    case Leadership::Role::kLeading:
      return "leading";
    case Leadership::Role::kResigning:
      return "resigning";
    case Leadership::Role::kOver:
      return "over";
  }
  return "?";
}

class LeadershipDriver {
 public:
  static constexpr std::uint64_t kCluster = 77;
  static constexpr std::chrono::seconds kBegin{1000};  // the first time of the clock

  explicit LeadershipDriver(Duration validity = std::chrono::seconds(5), int ousted = 0)
      : leadership_(OptionsOf(validity, ousted)) {}

  static LeaderRecord RecordOf(const std::string& id, Duration validity = std::chrono::seconds(5)) {
    return RecordOf(id, validity, validity);
  }
  static LeaderRecord RecordOf(const std::string& id, Duration validity, Duration longest,
                               bool resigned = false) {
    return {id, id + ":1", validity, longest, resigned, kCluster};
  }
  static Leadership::PutLeader PutOf(std::uint64_t guard, LeaderRecord record) {
    return {guard, std::move(record), kCluster};
  }
  static Term TermOf(std::uint64_t revision) { return {kCluster, revision}; }

  Leadership& leadership() { return leadership_; }
  TimePoint now() const { return now_; }
  void Step(const Leadership::Event& event) {
    for (Leadership::Action& action : leadership_.Step(event, now_)) {
      actions_.push_back(std::move(action));
    }
  }
  // Advances the clock, with a Tick at each deadline. Does not answer renewals.
  void Advance(Duration duration) {
    const TimePoint end = now_ + duration;
    while (leadership_.NextDeadline() <= end) {
      now_ = std::max(now_, leadership_.NextDeadline());
      Step(Leadership::Tick{});
    }
    now_ = end;
  }
  void SetNow(TimePoint now) { now_ = now; }  // as if the process did not run until then

  void See(std::uint64_t revision, std::optional<LeaderRecord> record,
           std::uint64_t cluster = kCluster) {
    Step(Leadership::LeaderSeen{cluster, revision, std::move(record)});
  }
  void AnswerPut(std::uint64_t revision) {
    Step(Leadership::PutAnswered{true, {kCluster, revision}, now_});
  }
  void FailPut() { Step(Leadership::PutAnswered{}); }
  void AnswerRenewal(std::uint64_t revision, Duration took = Duration{}) {
    Step(Leadership::RenewAnswered{{kCluster, revision}, now_ - took});
  }
  // Makes this a waiting rendezvous; "a" leads under term 10.
  void StandBy() {
    Step(Leadership::Tick{});
    See(10, RecordOf("a"));
  }
  // Makes this the leader under term 11, after "a".
  void LeadOn() {
    StandBy();
    Step(Leadership::PeerRefused{"a:1"});
    AnswerPut(11);
  }

  // The actions of this kind since the last Clear.
  template <class Action>
  std::vector<Action> All() const {
    std::vector<Action> all;
    for (const auto& action : actions_) {
      if (const auto* one = std::get_if<Action>(&action)) all.push_back(*one);
    }
    return all;
  }
  void Clear() { actions_.clear(); }
  std::string Text() const {
    return absl::StrJoin(actions_, "; ", [this](std::string* out, const auto& action) {
      absl::StrAppend(out, TextOf(action));
    });
  }

 private:
  static Leadership::Options OptionsOf(Duration validity, int ousted) {
    Leadership::Options options;
    options.id = "me";
    options.endpoint = "me:1";
    options.validity = validity;
    options.ousted = ousted;
    return options;
  }
  static std::int64_t Milliseconds(Duration duration) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  }
  std::string At(TimePoint time) const {
    if (time == TimePoint()) return "never";
    return absl::StrCat("in ", Milliseconds(time - now_), " ms");
  }
  std::string TextOf(const Leadership::Action& action) const {
    return std::visit(
        Overloaded{
            [](const Leadership::ReadLeader&) { return std::string("read"); },
            [](const Leadership::WatchPeer& watch) {
              return absl::StrCat("watch ", watch.endpoint.empty() ? "nobody" : watch.endpoint);
            },
            [](const Leadership::PutLeader& put) {
              return absl::StrCat("put over ", put.guard, put.record.resigned ? " resigned" : "",
                                  " longest ", Milliseconds(put.record.longest_validity),
                                  put.record.complete_in == put.cluster ? "" : " incomplete");
            },
            [](const Leadership::Renew& renew) {
              return absl::StrCat("renew ", renew.term.revision);
            },
            [&](const Leadership::Lead& lead) {
              return absl::StrCat("lead ", lead.term.revision, ", leases from ",
                                  At(lead.leases_from), lead.restored ? ", restored" : "");
            },
            [](const Leadership::ChangeTerm& change) {
              return absl::StrCat("change term ", change.term.revision);
            },
            [&](const Leadership::SetValidUntil& valid) {
              return absl::StrCat("valid until ", At(valid.at));
            },
            [](const Leadership::StepDown& down) {
              return absl::StrCat("step down", down.resigned ? " resigned" : "", ", ousted ",
                                  down.ousted, " (", down.why, ")");
            },
            [](const Leadership::Note& note) { return absl::StrCat("\"", note.text, "\""); },
        },
        action);
  }

  Leadership leadership_;
  TimePoint now_{kBegin};
  std::vector<Leadership::Action> actions_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_LEADERSHIP_LEADERSHIP_DRIVER_H_
