#include "launcher/commands/live/errands.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/operator.grpc.pb.h"

namespace ddprun::top {
namespace errands_test {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Answers no request for stacks, and answers orders only if the test says so.
class SlowRendezvous final : public v1::Operator::Service {
 public:
  explicit SlowRendezvous(bool takes_orders) : takes_orders_(takes_orders) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~SlowRendezvous() override { server_->Shutdown(std::chrono::system_clock::now()); }

  // A test that waits for an answer hangs, because the timeout is long.
  OperatorClient::Options Options() const {
    OperatorClient::Options options;
    options.places = {{absl::StrCat("127.0.0.1:", port_)}};
    options.timeout = std::chrono::minutes(10);
    return options;
  }

 private:
  static grpc::Status AnswerNothing(grpc::ServerContext* context) {
    while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::CANCELLED;
  }
  grpc::Status Stacks(grpc::ServerContext* context, const v1::StacksRequest*,
                      v1::StacksAnswer*) override {
    return AnswerNothing(context);
  }
  grpc::Status StopJob(grpc::ServerContext* context, const v1::StopRequest* request,
                       v1::OperatorAnswer* answer) override {
    if (!takes_orders_) return AnswerNothing(context);
    answer->set_text(absl::StrCat("job ", request->job(), " stops now"));
    return grpc::Status::OK;
  }

  const bool takes_orders_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

const Request kStacks{Request::Kind::kStacks, "train"};
const Request kStop{Request::Kind::kStop, "train"};

class ErrandsTest : public testing::Test {
 protected:
  Errands::Handler Handler() {
    return [this](const Request& request, const absl::StatusOr<std::string>& answer) {
      answers_.push_back(absl::StrCat(BringsText(request) ? "text: " : "order: ",
                                      answer.ok() ? *answer : answer.status().ToString()));
      loop_.Quit();
    };
  }

  EventLoop loop_;
  std::vector<std::string> answers_;
};

TEST_F(ErrandsTest, AnOrderDoesNotWaitForStacks) {
  SlowRendezvous rendezvous(/*takes_orders=*/true);
  Errands errands(&loop_, rendezvous.Options(), Handler());
  errands.Begin(kStacks);
  errands.Begin(kStop);
  loop_.Run();
  EXPECT_THAT(answers_, ElementsAre("order: job train stops now"));
  EXPECT_THAT(errands.End(milliseconds(0)), IsEmpty()) << "stacks are no order";
}

TEST_F(ErrandsTest, TheAnswerToAReplacedRequestIsDropped) {
  SlowRendezvous rendezvous(/*takes_orders=*/true);
  Errands errands(&loop_, rendezvous.Options(), Handler());
  errands.Begin(kStacks);
  errands.Begin(kStacks);  // replaces the first
  loop_.SetDeadline(EventLoop::Clock::now() + milliseconds(200), [&] { errands.Begin(kStop); });
  loop_.Run();
  EXPECT_THAT(answers_, ElementsAre("order: job train stops now"));
}

TEST_F(ErrandsTest, TheEndNamesTheOrdersWithoutAnAnswer) {
  SlowRendezvous rendezvous(/*takes_orders=*/false);
  Errands errands(&loop_, rendezvous.Options(), Handler());
  errands.Begin(kStacks);
  errands.Begin(kStop);
  EXPECT_THAT(errands.End(milliseconds(100)), ElementsAre(kStop));
  EXPECT_THAT(answers_, IsEmpty());
}

// The kernel accepts the connection, and nobody reads from it.
TEST_F(ErrandsTest, TheEndNeedsNoRendezvousThatAnswers) {
  OperatorClient::Options options;
  options.timeout = std::chrono::minutes(10);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  options.places = {{absl::StrCat("127.0.0.1:", ntohs(address.sin_port))}};
  Errands errands(&loop_, options, Handler());
  errands.Begin(kStacks);
  errands.Begin(kStop);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_THAT(errands.End(milliseconds(50)), ElementsAre(kStop));
  close(listener);
}

}  // namespace errands_test
}  // namespace ddprun::top
