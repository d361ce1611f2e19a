// ForkServer: when the fork server of a node runs, and when workers are started without it.
#include "launcher/core/fork_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/golden.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace fork_server_test {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

// Drives a ForkServer with a clock that the test sets.
class Driver {
 public:
  // The actions that follow: "start, end, note: ...".
  std::string Step(const ForkServer::Event& event) {
    return absl::StrJoin(server_.Step(event, now_), ", ", [](std::string* out, const auto& action) {
      std::visit(
          Overloaded{
              [&](const ForkServer::StartServer&) { absl::StrAppend(out, "start"); },
              [&](const ForkServer::EndServer&) { absl::StrAppend(out, "end"); },
              [&](const ForkServer::Note& note) { absl::StrAppend(out, "note: ", note.text); },
          },
          action);
    });
  }
  // Time passes. Each deadline in it gets its Tick at its time.
  std::string Advance(Duration duration) {
    const TimePoint until = now_ + duration;
    std::vector<std::string> said;
    while (server_.NextDeadline() && *server_.NextDeadline() <= until) {
      now_ = std::max(now_, *server_.NextDeadline());
      said.push_back(Step(ForkServer::Tick{}));
    }
    now_ = until;
    return absl::StrJoin(said, ", ");
  }
  void Serve() {
    Step(ForkServer::JobStarted{});
    Step(ForkServer::ServerReady{});
  }
  ForkServerState state() const { return server_.state(); }

 private:
  ForkServer server_{{}};
  TimePoint now_{};
};

TEST(ForkServerTest, ImportsOnceAndThenServes) {
  Driver node;
  EXPECT_EQ(node.Step(ForkServer::JobStarted{}), "start");
  EXPECT_EQ(node.Step(ForkServer::JobStarted{}), "");
  EXPECT_EQ(node.state(), ForkServerState::kImporting);
  EXPECT_EQ(node.Step(ForkServer::ServerReady{}), "");
  EXPECT_EQ(node.state(), ForkServerState::kServing);
  EXPECT_EQ(node.Advance(minutes(60)), "") << "one that nobody asks needs not answer";
}

TEST(ForkServerTest, WhatMustNotBeForkedIsSaidOnceAndForGood) {
  Driver node;
  node.Step(ForkServer::JobStarted{});
  EXPECT_EQ(
      node.Step(ForkServer::ServerUnfit{"they have started 3 threads (worker)"}),
      "note: the imports of --preload cannot be forked: they have started 3 threads (worker); "
      "workers are started plainly, and each imports for itself");
  EXPECT_EQ(node.Step(ForkServer::ServerEnded{"by exit code 0"}), "");
  EXPECT_EQ(node.Advance(minutes(60)), "");
  EXPECT_EQ(node.state(), ForkServerState::kUnfit);
}

// Break: without has_served_, each start of the job waits for four attempts.
TEST(ForkServerTest, ImportsThatFailAreNotTriedAgain) {
  Driver node;
  node.Step(ForkServer::JobStarted{});
  EXPECT_EQ(
      node.Step(ForkServer::ServerEnded{"by exit code 1 (ModuleNotFoundError: 'x')"}),
      "note: the fork server has ended by exit code 1 (ModuleNotFoundError: 'x'); workers are "
      "started plainly, and each imports for itself");
  EXPECT_EQ(node.Advance(minutes(60)), "");
}

TEST(ForkServerTest, ImportsThatDoNotEndAreEnded) {
  Driver node;
  node.Step(ForkServer::JobStarted{});
  EXPECT_EQ(node.Advance(minutes(5) - Duration(1)), "");
  EXPECT_THAT(node.Advance(Duration(1)), AllOf(HasSubstr("end, note: "), HasSubstr("300 s")));
  EXPECT_EQ(node.state(), ForkServerState::kUnfit);
}

TEST(ForkServerTest, OneThatHasServedForLongIsStartedAgainAtOnce) {
  Driver node;
  node.Serve();
  node.Advance(minutes(1));
  EXPECT_EQ(node.Step(ForkServer::ServerEnded{"by SIGKILL"}),
            "note: the fork server has ended by SIGKILL; no worker ends by that; it is started "
            "again");
  EXPECT_EQ(node.Advance(Duration(0)), "start");
}

TEST(ForkServerTest, EarlyEndsArePausedAfterAndAtLastGivenUp) {
  Driver node;
  node.Serve();
  for (const int pause : {1, 2, 4}) {
    EXPECT_THAT(node.Step(ForkServer::ServerEnded{"by SIGSEGV"}),
                HasSubstr(absl::StrCat("it is started again in ", pause, " s")));
    EXPECT_EQ(node.Advance(seconds(pause) - Duration(1)), "");
    EXPECT_EQ(node.Advance(Duration(1)), "start");
    node.Step(ForkServer::ServerReady{});
  }
  EXPECT_THAT(node.Step(ForkServer::ServerEnded{"by SIGSEGV"}), HasSubstr("as 3 others before it"));
  EXPECT_EQ(node.Advance(minutes(60)), "");
  EXPECT_EQ(node.state(), ForkServerState::kUnfit);
}

// Break: without fork_limit, a fork server that was stopped (SIGSTOP) holds up each start for ever.
TEST(ForkServerTest, OneThatDoesNotForkIsKilledAndStartedAgain) {
  Driver node;
  node.Serve();
  node.Step(ForkServer::ForkAsked{1});
  node.Advance(seconds(3));
  node.Step(ForkServer::ForkAsked{2});
  node.Step(ForkServer::ForkAnswered{1});
  EXPECT_EQ(node.Advance(seconds(10) - Duration(1)), "");
  EXPECT_EQ(
      node.Advance(Duration(1)),
      "end, note: the fork server has not forked within 10 s and is killed; no worker ends by "
      "that; it is started again, start");
  node.Step(ForkServer::ServerReady{});
  EXPECT_EQ(node.Advance(minutes(60)), "") << "what the last one was asked for is forgotten";
}

TEST(ForkServerTest, NothingIsLeftWhenTheJobEnds) {
  Driver node;
  node.Serve();
  EXPECT_EQ(node.Step(ForkServer::JobEnded{}), "end");
  EXPECT_EQ(node.Step(ForkServer::JobStarted{}), "");
  EXPECT_EQ(node.Advance(minutes(60)), "");
}

struct State {
  const char* name;
  std::function<void(Driver&)> reach;
};

struct Event {
  const char* name;
  ForkServer::Event event;
};

TEST(ForkServerCellsTest, EveryStateAndEventDoesWhatIsWrittenDown) {
  const std::vector<State> states = {
      {"Off", [](Driver&) {}},
      {"Importing", [](Driver& node) { node.Step(ForkServer::JobStarted{}); }},
      {"Serving", [](Driver& node) { node.Serve(); }},
      {"Serving, asked for 0",
       [](Driver& node) {
         node.Serve();
         node.Step(ForkServer::ForkAsked{0});
       }},
      {"Paused",
       [](Driver& node) {
         node.Serve();
         node.Step(ForkServer::ServerEnded{"by SIGKILL"});
       }},
      {"Unfit",
       [](Driver& node) {
         node.Step(ForkServer::JobStarted{});
         node.Step(ForkServer::ServerUnfit{"threads"});
       }},
      {"Closed", [](Driver& node) { node.Step(ForkServer::JobEnded{}); }},
  };
  const std::vector<Event> events = {
      {"JobStarted", ForkServer::JobStarted{}},
      {"ServerReady", ForkServer::ServerReady{}},
      {"ServerUnfit", ForkServer::ServerUnfit{"threads"}},
      {"ServerEnded", ForkServer::ServerEnded{"by SIGKILL"}},
      {"ForkAsked 0", ForkServer::ForkAsked{0}},
      {"ForkAnswered 0", ForkServer::ForkAnswered{0}},
      {"JobEnded", ForkServer::JobEnded{}},
      {"Tick", ForkServer::Tick{}},
  };
  std::string text = "# state × event → next state: actions.\n";
  for (const State& state : states) {
    absl::StrAppend(&text, "\n", state.name, "\n");
    for (const Event& event : events) {
      Driver node;
      state.reach(node);
      const std::string said = node.Step(event.event);
      absl::StrAppend(&text, "  ", event.name, " -> ", ToString(node.state()),
                      said.empty() ? "" : ": ", said, "\n");
    }
  }
  ExpectGolden("tests/data/cells/fork_server.txt", text);
}

}  // namespace fork_server_test
}  // namespace ddprun
