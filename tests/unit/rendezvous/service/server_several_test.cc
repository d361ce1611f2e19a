// Tests a RendezvousServer that is one of several, over real sockets.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/client/report_gone.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/rendezvous_server.h"
#include "tests/unit/rendezvous/client/event_inbox.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace server_several_test {

using ::testing::HasSubstr;

constexpr Duration kLimit = std::chrono::seconds(60);

// A store whose first Load() fails.
class FarStore final : public Store {
 public:
  absl::StatusOr<std::map<std::string, std::string>> Load() override {
    if (++loads == 1) return absl::UnavailableError("no quorum");
    return std::map<std::string, std::string>();
  }
  void Commit(Batch, Done done) override { done(Outcome::kKept); }
  std::atomic<int> loads = 0;
};

class RendezvousServerSeveralTest : public testing::Test {
 protected:
  RendezvousServerSeveralTest() {
    RendezvousServer::Options options{.listen = "127.0.0.1:0",
                                      .machine = {.leases = false},
                                      .log = [](std::string_view, std::string_view) {}};
    options.store = store_;
    options.events = std::make_shared<EventLog>(EventLog::Options{});
    options.validity = &validity_;
    auto server = RendezvousServer::Start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    endpoint_ = absl::StrCat("127.0.0.1:", server_->port());
    operator_ =
        v1::Operator::NewStub(grpc::CreateChannel(endpoint_, grpc::InsecureChannelCredentials()));
  }

  grpc::Status AskForEvents() {
    grpc::ClientContext context;
    const auto reader = operator_->Events(&context, {});
    v1::EventLine line;
    while (reader->Read(&line)) {
    }
    return reader->Finish();
  }
  grpc::Status AskForStatus() {
    grpc::ClientContext context;
    const auto reader = operator_->Status(&context, {});
    v1::StatusPiece piece;
    while (reader->Read(&piece)) {
    }
    return reader->Finish();
  }

  Validity validity_;
  const std::shared_ptr<FarStore> store_ = std::make_shared<FarStore>();
  std::unique_ptr<RendezvousServer> server_;
  std::string endpoint_;
  std::unique_ptr<v1::Operator::Stub> operator_;
};

// Seen red with a Create() that loads the store, and with an OperatorService that does not check
// whether it leads.
TEST_F(RendezvousServerSeveralTest, ItStandsByUntilItLeads) {
  EXPECT_EQ(store_->loads, 0) << "its state is the leader's";
  server_->SetLeader("n2:29400");
  for (const grpc::Status& status : {AskForStatus(), AskForEvents()}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(status.error_message(), HasSubstr("the leader is at n2:29400"));
  }
  const absl::Status gone = ReportGone({{endpoint_}}, HeaderOf("job", 1), kLimit);
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("the leader is at n2:29400"));

  const Term term{7, 100};
  validity_.SetUntil(TimePoint::max());
  EXPECT_THAT(std::string(server_->Lead(term, {}).message()), HasSubstr("no quorum"));
  EXPECT_FALSE(AskForStatus().ok());
  ASSERT_TRUE(server_->Lead(term, {}).ok());
  EXPECT_TRUE(AskForStatus().ok());
  EXPECT_TRUE(AskForEvents().ok());
  EXPECT_TRUE(ReportGone({{endpoint_}}, HeaderOf("job", 1), kLimit).ok());
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = endpoint_});
  client.Open(inbox.Handler());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
  Header header;
  inbox.Expect<Assignment>(&header);
  EXPECT_EQ(header.term, term);
}

// Seen red when the client did not ask the rendezvous to let the session wait.
TEST_F(RendezvousServerSeveralTest, ASessionThatWaitsOutlivesTheTakeover) {
  store_->loads = 1;  // so that Load() succeeds
  std::promise<void> opened;
  EventInbox inbox;
  GrpcRendezvousClient client({.endpoint = endpoint_, .waits = true});
  client.Open([handler = inbox.Handler(), &opened](RendezvousClient::Event event) {
    if (std::holds_alternative<RendezvousClient::Opened>(event)) opened.set_value();
    handler(std::move(event));
  });
  ASSERT_EQ(opened.get_future().wait_for(kTestDeadline), std::future_status::ready);
  validity_.SetUntil(TimePoint::max());
  const Term term{7, 100};
  ASSERT_TRUE(server_->Lead(term, {}).ok());
  client.Send(HeaderOf("job", 1, -1), JoinOf("n1", 1));
  Header header;
  inbox.Expect<Assignment>(&header);
  EXPECT_EQ(header.term, term);
}

}  // namespace server_several_test
}  // namespace ddprun
