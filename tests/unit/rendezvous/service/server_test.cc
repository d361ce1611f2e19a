// RendezvousServer and GrpcRendezvousClient together, over real sockets.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/client/report_gone.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/rendezvous_server.h"
#include "rendezvous/wire/limits.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace server_test {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

absl::StatusOr<std::unique_ptr<RendezvousServer>> StartServer(const std::string& listen) {
  return RendezvousServer::Start({.listen = listen,
                                  .machine = {.leases = false},
                                  .log = [](std::string_view, std::string_view) {}});
}

class TemporaryFolder {
 public:
  TemporaryFolder() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~TemporaryFolder() { rmdir(path_); }
  std::string operator/(const std::string& name) const { return std::string(path_) + "/" + name; }

 private:
  char path_[32] = "/tmp/ddprun_test.XXXXXX";
};

// A client with its inbox.
struct Agent {
  explicit Agent(const std::string& endpoint)
      : client(std::make_unique<GrpcRendezvousClient>(
            GrpcRendezvousClient::Options{.endpoint = endpoint})) {
    client->Open(inbox.Handler());
  }
  EventInbox inbox;
  std::unique_ptr<GrpcRendezvousClient> client;  // destroyed first: it calls the inbox
};

class RendezvousServerTest : public testing::TestWithParam<const char*> {
 protected:
  RendezvousServerTest() {
    const bool is_unix = std::string(GetParam()) == "unix";
    auto server = StartServer(is_unix ? "unix:" + folder_ / "rdzv" : "127.0.0.1:0");
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    endpoint_ = is_unix ? "unix:" + folder_ / "rdzv" : absl::StrCat("127.0.0.1:", server_->port());
  }

  TemporaryFolder folder_;
  std::unique_ptr<RendezvousServer> server_;
  std::string endpoint_;
};

INSTANTIATE_TEST_SUITE_P(Over, RendezvousServerTest, testing::Values("tcp", "unix"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RendezvousServerTest, AnAgentThatIsReportedGoneIsLostAtOnce) {
  Agent a(endpoint_);
  Agent b(endpoint_);
  a.client->Send(HeaderOf("job", 1, -1), JoinOf("n1", 2, 1));
  b.client->Send(HeaderOf("job", 2, -1), JoinOf("n2", 2, 1));
  Header header_a;
  Header header_b;
  a.inbox.Expect<Assignment>(&header_a);
  b.inbox.Expect<Assignment>(&header_b);
  a.client->Send(header_a, AssignmentAck{});
  b.client->Send(header_b, AssignmentAck{});
  b.inbox.Expect<Start>();
  const Duration limit = std::chrono::seconds(60);
  EXPECT_TRUE(ReportGone({{endpoint_}}, HeaderOf("job", 3), limit).ok()) << "a stranger is ignored";
  EXPECT_TRUE(ReportGone({{endpoint_}}, HeaderOf("no such job", 1), limit).ok());
  EXPECT_TRUE(ReportGone({{endpoint_}}, HeaderOf("job", 1), limit).ok());
  EXPECT_THAT(b.inbox.Expect<Stop>().reason, HasSubstr("its agent was killed"));
}

TEST_P(RendezvousServerTest, AReportThatNamesNoAgentIsRefused) {
  const absl::Status status =
      ReportGone({{endpoint_}}, HeaderOf("job", 0), std::chrono::seconds(60));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Header.incarnation is 0"));
  EXPECT_EQ(server_->Refusals()["malformed"], 1U);
}

TEST(ReportGoneTest, GivesUpInTimeAndNamesTheEndpoint) {
  const absl::Status status =
      ReportGone({{"127.0.0.1:1"}}, HeaderOf("job", 1), std::chrono::milliseconds(50));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
}

TEST_P(RendezvousServerTest, TwoAgentsGoFromJoinToFinished) {
  Agent a(endpoint_);
  Agent b(endpoint_);
  a.client->Send(HeaderOf("job", 1, -1), JoinOf("n1", 2, 2));
  b.client->Send(HeaderOf("job", 2, -1), JoinOf("n2", 2, 3));
  Header header_a;
  Header header_b;
  const Assignment of_a = a.inbox.Expect<Assignment>(&header_a);
  const Assignment of_b = b.inbox.Expect<Assignment>(&header_b);
  EXPECT_EQ(header_a, HeaderOf("job", 1, 0));
  EXPECT_EQ(header_b, HeaderOf("job", 2, 0));
  EXPECT_EQ(of_a.first_rank, Rank{0});
  EXPECT_EQ(of_b.first_rank, Rank{2});
  EXPECT_EQ(of_b.world_size, 5);
  EXPECT_EQ(of_b.master_addr, "n1.example");
  a.client->Send(header_a, AssignmentAck{});
  b.client->Send(header_b, AssignmentAck{});
  a.inbox.Expect<Start>();
  b.inbox.Expect<Start>();
  for (int i = 0; i < 2; ++i)
    a.client->Send(header_a, WorkerExited{{i}, {i}, 10 + i, {}, {}, {}, {}, {}});
  for (int i = 0; i < 3; ++i)
    b.client->Send(header_b, WorkerExited{{2 + i}, {i}, 20 + i, {}, {}, {}, {}, {}});
  EXPECT_EQ(a.inbox.Expect<Finished>().outcome, Outcome::kSucceeded);
  EXPECT_EQ(b.inbox.Expect<Finished>().outcome, Outcome::kSucceeded);
  a.client->Close();
  b.client->Close();
  EXPECT_TRUE(a.inbox.empty()) << "a Close by ourselves is no Lost";
}

TEST_P(RendezvousServerTest, AnAgentThatGoesAwayIsNoticedByTheOthers) {
  Agent a(endpoint_);
  Agent b(endpoint_);
  a.client->Send(HeaderOf("job", 1, -1), JoinOf("n1", 2));
  b.client->Send(HeaderOf("job", 2, -1), JoinOf("n2", 2));
  a.inbox.Expect<Assignment>();
  b.inbox.Expect<Assignment>();
  a.client->Send(HeaderOf("job", 1), AssignmentAck{});
  b.client->Send(HeaderOf("job", 2), AssignmentAck{});
  a.inbox.Expect<Start>();
  b.inbox.Expect<Start>();
  b.client.reset();
  EXPECT_THAT(a.inbox.Expect<Stop>().reason, HasSubstr("n2"));
}

TEST_P(RendezvousServerTest, ManyJobsAtOnceAreIndependent) {
  std::vector<std::unique_ptr<Agent>> agents;
  for (int job = 0; job < 8; ++job) {
    for (const std::uint64_t agent_id : {1, 2}) {
      agents.push_back(std::make_unique<Agent>(endpoint_));
      agents.back()->client->Send(HeaderOf(absl::StrCat("job", job), agent_id, -1),
                                  JoinOf(absl::StrCat("n", agent_id), 2, job + 1));
    }
  }
  for (int i = 0; i < 16; ++i) {
    Header header;
    EXPECT_EQ(agents[i]->inbox.Expect<Assignment>(&header).world_size, 2 * (i / 2 + 1));
    EXPECT_EQ(header.job, absl::StrCat("job", i / 2));
  }
}

TEST_P(RendezvousServerTest, AFinishedJobsNameCanBeUsedAgain) {
  for (const std::uint64_t agent_id : {1, 2, 3}) {
    Agent agent(endpoint_);
    agent.client->Send(HeaderOf("job", agent_id, -1), JoinOf("n1", 1));
    agent.inbox.Expect<Assignment>();
    agent.client->Send(HeaderOf("job", agent_id), AssignmentAck{});
    agent.inbox.Expect<Start>();
    agent.client->Send(HeaderOf("job", agent_id), WorkerExited{});
    EXPECT_EQ(agent.inbox.Expect<Finished>().outcome, Outcome::kSucceeded);
  }
}

TEST_P(RendezvousServerTest, AFirstMessageThatIsNoJoinIsRefused) {
  Agent agent(endpoint_);
  agent.client->Send(HeaderOf("job", 1), Heartbeat{});
  EXPECT_EQ(agent.inbox.ExpectLost(),
            absl::StrCat("the session with the rendezvous at ", endpoint_,
                         " ended: the first message of a session must be a Join"));
}

TEST_P(RendezvousServerTest, AFieldOutOfBoundsIsRefusedByName) {
  Agent agent(endpoint_);
  agent.client->Send(HeaderOf(std::string(300, 'j'), 1, -1), JoinOf("n1", 1));
  EXPECT_THAT(agent.inbox.ExpectLost(),
              HasSubstr("Header.job has 300 bytes, expected at most 256"));
}

TEST_P(RendezvousServerTest, AMessageThatIsTooLongEndsOnlyItsOwnSession) {
  Agent agent(endpoint_);
  Join join = JoinOf("n1", 1);
  join.node.host = std::string(2 << 20, 'h');
  agent.client->Send(HeaderOf("job", 1, -1), join);
  EXPECT_THAT(agent.inbox.ExpectLost(),
              HasSubstr("the session with the rendezvous at " + endpoint_));
  Agent other(endpoint_);
  other.client->Send(HeaderOf("job", 2, -1), JoinOf("n2", 1));
  other.inbox.Expect<Assignment>();
}

TEST_P(RendezvousServerTest, ShutdownWritesWhatWasSentAndEndsTheSessions) {
  auto server = std::move(server_);
  Agent a(endpoint_);
  Agent b(endpoint_);
  a.client->Send(HeaderOf("job", 1, -1), JoinOf("n1", 2));
  b.client->Send(HeaderOf("job", 2, -1), JoinOf("n2", 2));
  a.inbox.Expect<Assignment>();
  b.inbox.Expect<Assignment>();
  a.client->Send(HeaderOf("job", 1), Leave{"SIGTERM", 143});
  // The Leave may come too late. In any case every session ends, and a Finished is not lost.
  server->Shutdown();
  const auto event = b.inbox.Next();
  ASSERT_TRUE(event.has_value());
  if (std::holds_alternative<RendezvousClient::Received>(*event)) {
    EXPECT_EQ(b.inbox.ExpectLost(),
              "lost the rendezvous at " + endpoint_ + ": the rendezvous is shutting down");
  } else {
    EXPECT_THAT(std::get<RendezvousClient::Lost>(*event).reason, HasSubstr("shutting down"));
  }
  server->Shutdown();
}

TEST_P(RendezvousServerTest, AnAgentThatDoesNotReadCannotHoldUpTheShutdown) {
  // The handler of this client does not return before the server is down.
  std::promise<void> entered;
  std::promise<void> release;
  GrpcRendezvousClient stuck({.endpoint = endpoint_});
  stuck.Open([&, first = true](const RendezvousClient::Event& event) mutable {
    if (!std::holds_alternative<RendezvousClient::Received>(event)) return;
    if (!std::exchange(first, false)) return;
    entered.set_value();
    release.get_future().wait();
  });
  stuck.Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
  entered.get_future().wait();
  const auto begin = std::chrono::steady_clock::now();
  server_->Shutdown();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  release.set_value();
}

TEST(RendezvousServerLimitsTest, WhatOperatorsAskTooMuchOfIsRefusedAndCounted) {
  auto server =
      RendezvousServer::Start({.listen = "127.0.0.1:0",
                               .machine = {.leases = false},
                               .log = [](std::string_view, std::string_view) {},
                               .events = std::make_shared<EventLog>(EventLog::Options{})});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::Operator::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", (*server)->port()), grpc::InsecureChannelCredentials()));
  {
    grpc::ClientContext context;
    v1::StopRequest request;
    request.set_job(std::string(wire::kMaxJobBytes + 1, 'j'));
    v1::OperatorAnswer answer;
    const grpc::Status status = stub->StopJob(&context, request, &answer);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("job: expected 1 to 256 bytes (found 257)"));
    EXPECT_EQ((*server)->Refusals()["malformed"], 1U);
  }
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::EventLine>>> followers;
  v1::EventsRequest follow;
  follow.set_follow(true);
  for (std::size_t i = 0; i < EventLog::kMaxFollowers; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    followers.push_back(stub->Events(contexts.back().get(), follow));
    followers.back()->WaitForInitialMetadata();
  }
  grpc::ClientContext context;
  const auto one_more = stub->Events(&context, follow);
  v1::EventLine line;
  EXPECT_FALSE(one_more->Read(&line));
  EXPECT_EQ(one_more->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ((*server)->Refusals()["too_many_followers"], 1U);
  for (const auto& each : contexts) each->TryCancel();
  for (const auto& each : followers) each->Finish();
}

TEST(RendezvousServerThreadsTest, TheSessionsOfAJobMayBeServedByManyThreads) {
  auto server = RendezvousServer::Start({.listen = "127.0.0.1:0",
                                         .machine = {.leases = false},
                                         .log = [](std::string_view, std::string_view) {},
                                         .sessions_per_thread = 2});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string endpoint = absl::StrCat("127.0.0.1:", (*server)->port());
  constexpr int kAgents = 50;
  std::vector<std::unique_ptr<Agent>> agents;
  for (int i = 0; i < kAgents; ++i) {
    agents.push_back(std::make_unique<Agent>(endpoint));
    agents.back()->client->Send(HeaderOf("job", i + 1, -1), JoinOf(absl::StrCat("n", i), kAgents));
  }
  for (const auto& agent : agents) {
    EXPECT_EQ(agent->inbox.Expect<Assignment>().world_size, kAgents);
  }
  (*server)->Shutdown();
  for (const auto& agent : agents) {
    EXPECT_THAT(agent->inbox.ExpectLost(), HasSubstr("shutting down"));
  }
}

TEST(RendezvousServerStartTest, APortThatIsTakenIsExplained) {
  const auto first = StartServer("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = StartServer(address);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(std::string(second.status().message()),
            "cannot listen on " + address + ": address already in use");
}

TEST(RendezvousServerStartTest, APortCanBeUsedAgainAtOnce) {
  std::string address = "127.0.0.1:0";
  for (int i = 0; i < 3; ++i) {
    const auto server = StartServer(address);
    ASSERT_TRUE(server.ok()) << server.status();
    address = absl::StrCat("127.0.0.1:", (*server)->port());
    Agent agent(address);
    agent.client->Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
    agent.inbox.Expect<Assignment>();
  }
}

TEST(RendezvousServerStartTest, ASocketFileIsPrivateAndRemovedAtTheEnd) {
  const TemporaryFolder folder;
  const std::string path = folder / "rdzv";
  {
    const auto server = StartServer("unix:" + path);
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ((*server)->port(), 0);
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    const auto second = StartServer("unix:" + path);
    EXPECT_THAT(std::string(second.status().message()),
                MatchesRegex("cannot listen on unix:.*: address already in use"));
    EXPECT_EQ(access(path.c_str(), F_OK), 0) << "the second must leave it alone";
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(RendezvousServerStartTest, OnlyAStaleSocketIsRemoved) {
  const TemporaryFolder folder;
  const std::string stale = folder / "stale";
  {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    stale.copy(name.sun_path, sizeof name.sun_path - 1);
    ASSERT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  }
  EXPECT_TRUE(StartServer("unix:" + stale).ok());
  const std::string file = folder / "file";
  std::ofstream(file) << "of a user";
  EXPECT_THAT(std::string(StartServer("unix:" + file).status().message()),
              MatchesRegex("cannot listen on unix:.*: address already in use"));
  EXPECT_EQ(access(file.c_str(), F_OK), 0);
}

TEST(RendezvousServerStartTest, AMalformedAddressIsRefused) {
  EXPECT_EQ(std::string(StartServer("29400").status().message()),
            "cannot listen on 29400: '29400' is not HOST:PORT, [IPV6]:PORT or unix:/path");
}

}  // namespace server_test
}  // namespace ddprun
