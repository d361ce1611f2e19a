// Every role × event cell of Leadership, written down in tests/data/cells/leadership.txt.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cells.h"
#include "tests/support/golden.h"
#include "tests/unit/rendezvous/leadership/leadership_driver.h"

namespace ddprun {
namespace leadership_cells_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Core = Leadership;

struct Row {
  std::string name;
  std::function<void(LeadershipDriver&)> run;
};

LeaderRecord Own() { return LeadershipDriver::RecordOf("me"); }
LeaderRecord Other() { return LeadershipDriver::RecordOf("b"); }
LeaderRecord Resigned(LeaderRecord record) {
  record.resigned = true;
  record.longest_validity = Duration{};
  return record;
}

const std::vector<Row>& Roles() {
  static const auto* roles = new std::vector<Row>{
      {"Standby, has not read the key",
       [](LeadershipDriver& rendezvous) { rendezvous.Step(Core::Tick{}); }},
      {"Standby, a leads", [](LeadershipDriver& rendezvous) { rendezvous.StandBy(); }},
      {"Standby, the key holds no record",
       [](LeadershipDriver& rendezvous) {
         rendezvous.Step(Core::Tick{});
         rendezvous.See(10, std::nullopt);
       }},
      {"Taking over",
       [](LeadershipDriver& rendezvous) {
         rendezvous.StandBy();
         rendezvous.Step(Core::PeerRefused{"a:1"});
       }},
      {"Taking over, the answer was lost",
       [](LeadershipDriver& rendezvous) {
         rendezvous.StandBy();
         rendezvous.Step(Core::PeerRefused{"a:1"});
         rendezvous.Step(Core::PutUnanswered{});
       }},
      {"Leading", [](LeadershipDriver& rendezvous) { rendezvous.LeadOn(); }},
      {"Leading, a renewal is under way",
       [](LeadershipDriver& rendezvous) {
         rendezvous.LeadOn();
         rendezvous.Advance(milliseconds(500));
       }},
      {"Leading, lowers what it inherited",
       [](LeadershipDriver& rendezvous) {
         rendezvous.Step(Core::Tick{});
         rendezvous.See(10, LeadershipDriver::RecordOf("a", seconds(10)));
         rendezvous.Step(Core::PeerRefused{"a:1"});
         rendezvous.AnswerPut(11);
         rendezvous.Advance(seconds(11));
         rendezvous.AnswerRenewal(11);
       }},
      {"Resigning",
       [](LeadershipDriver& rendezvous) {
         rendezvous.LeadOn();
         rendezvous.Step(Core::EndAsked{});
       }},
      {"Resigning, it is written",
       [](LeadershipDriver& rendezvous) {
         rendezvous.LeadOn();
         rendezvous.Step(Core::EndAsked{});
         rendezvous.AnswerPut(12);
       }},
      {"Over",
       [](LeadershipDriver& rendezvous) {
         rendezvous.LeadOn();
         rendezvous.Step(Core::RightLost{});
       }},
  };
  return *roles;
}

const std::vector<Row>& Rows() {
  static const auto* rows = new std::vector<Row>{
      {"LeaderSeen, no key", [](LeadershipDriver& rendezvous) { rendezvous.See(0, std::nullopt); }},
      {"LeaderSeen, no record",
       [](LeadershipDriver& rendezvous) { rendezvous.See(20, std::nullopt); }},
      {"LeaderSeen, an earlier one",
       [](LeadershipDriver& rendezvous) { rendezvous.See(9, Other()); }},
      {"LeaderSeen, a under term 10",
       [](LeadershipDriver& rendezvous) { rendezvous.See(10, LeadershipDriver::RecordOf("a")); }},
      {"LeaderSeen, ours under term 11",
       [](LeadershipDriver& rendezvous) { rendezvous.See(11, Own()); }},
      {"LeaderSeen, a later one of ours",
       [](LeadershipDriver& rendezvous) { rendezvous.See(20, Own()); }},
      {"LeaderSeen, a later one of another",
       [](LeadershipDriver& rendezvous) { rendezvous.See(20, Other()); }},
      {"LeaderSeen, a later one that resigned",
       [](LeadershipDriver& rendezvous) { rendezvous.See(20, Resigned(Other())); }},
      {"LeaderSeen, our address, another process",
       [](LeadershipDriver& rendezvous) {
         LeaderRecord earlier = Own();
         earlier.id = "before";
         rendezvous.See(20, earlier);
       }},
      {"LeaderSeen, another cluster",
       [](LeadershipDriver& rendezvous) { rendezvous.See(3, Other(), 78); }},
      {"PutAnswered, taken", [](LeadershipDriver& rendezvous) { rendezvous.AnswerPut(20); }},
      {"PutAnswered, not taken", [](LeadershipDriver& rendezvous) { rendezvous.FailPut(); }},
      {"PutAnswered, by another cluster",
       [](LeadershipDriver& rendezvous) {
         rendezvous.Step(Core::PutAnswered{true, {78, 20}, rendezvous.now()});
       }},
      {"RenewAnswered, ours", [](LeadershipDriver& rendezvous) { rendezvous.AnswerRenewal(11); }},
      {"RenewAnswered, another's",
       [](LeadershipDriver& rendezvous) { rendezvous.AnswerRenewal(20); }},
      {"RenewAnswered, no key", [](LeadershipDriver& rendezvous) { rendezvous.AnswerRenewal(0); }},
      {"RenewAnswered, by another cluster",
       [](LeadershipDriver& rendezvous) {
         rendezvous.Step(Core::RenewAnswered{{78, 11}, rendezvous.now()});
       }},
      {"PeerHeard, of a",
       [](LeadershipDriver& rendezvous) { rendezvous.Step(Core::PeerHeard{"a:1"}); }},
      {"PeerHeard, of a stranger",
       [](LeadershipDriver& rendezvous) { rendezvous.Step(Core::PeerHeard{"z:1"}); }},
      {"PeerRefused, of a",
       [](LeadershipDriver& rendezvous) { rendezvous.Step(Core::PeerRefused{"a:1"}); }},
      {"PeerRefused, of a stranger",
       [](LeadershipDriver& rendezvous) { rendezvous.Step(Core::PeerRefused{"z:1"}); }},
      {"PeerResigns, of a",
       [](LeadershipDriver& rendezvous) { rendezvous.Step(Core::PeerResigns{"a:1"}); }},
      {"PeerResigns, of a stranger",
       [](LeadershipDriver& rendezvous) { rendezvous.Step(Core::PeerResigns{"z:1"}); }},
      {"Tick at 600 ms",
       [](LeadershipDriver& rendezvous) { rendezvous.Advance(milliseconds(600)); }},
      {"Tick at 1 s", [](LeadershipDriver& rendezvous) { rendezvous.Advance(seconds(1)); }},
      {"Tick at 6 s", [](LeadershipDriver& rendezvous) { rendezvous.Advance(seconds(6)); }},
  };
  return *rows;
}

std::vector<Row> Events() {
  std::vector<Row> events = Rows();
  ForEachWithoutRow(Core::Event(), Rows(), {}, [&](const std::string& name, const auto& event) {
    events.push_back({name, [event](LeadershipDriver& rendezvous) { rendezvous.Step(event); }});
  });
  return events;
}

TEST(LeadershipCellsTest, EveryRoleAndEventDoesWhatIsWrittenDown) {
  std::string text =
      "# role × event → next role: actions. Times are from the event.\n"
      "# \"me\" has a validity of 5 s; \"a\" led before under term 10.\n";
  for (const Row& role : Roles()) {
    absl::StrAppend(&text, "\n", role.name, "\n");
    for (const Row& event : Events()) {
      LeadershipDriver rendezvous;
      role.run(rendezvous);
      rendezvous.Clear();
      event.run(rendezvous);
      const std::string did = rendezvous.Text();
      absl::StrAppend(&text, "  ", event.name, " -> ", ToString(rendezvous.leadership().role()),
                      did.empty() ? "" : ": ", did, "\n");
    }
  }
  ExpectGolden("tests/data/cells/leadership.txt", text);
}

}  // namespace leadership_cells_test
}  // namespace ddprun
