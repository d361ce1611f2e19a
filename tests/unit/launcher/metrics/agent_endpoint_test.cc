// The agent's HTTP endpoint: who gets an answer, and which one.
#include "launcher/metrics/agent_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/tls_files.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace agent_endpoint_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class AgentEndpointTest : public testing::Test {
 protected:
  AgentEndpointTest() {
    NodeBoard::Facts facts;
    facts.generation = Generation{3};
    facts.workers = {{Rank{8}, getpid()}};
    board_->Set(facts);
  }
  void Start(AgentEndpoint::Options options = {}) {
    options.server.listen = "127.0.0.1:0";
    options.names = {"train", "n1", "1.2"};
    auto endpoint =
        AgentEndpoint::Start(std::move(options), board_, std::make_shared<UsageMeter>());
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }
  std::string Asked(const std::string& request) const { return Ask(endpoint_->port(), request); }

  const std::shared_ptr<NodeBoard> board_ = std::make_shared<NodeBoard>();
  std::unique_ptr<AgentEndpoint> endpoint_;
};

TEST_F(AgentEndpointTest, MetricsAreThoseOfNow) {
  Start();
  const std::string text = Asked(Get("/metrics"));
  EXPECT_THAT(text,
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("text/plain; version=0.0.4"),
                    HasSubstr("ddprun_agent_info{job=\"train\",host=\"n1\",version=\"1.2\"} 1\n"),
                    HasSubstr("\nddprun_agent_generation 3\n"), Not(HasSubstr("rank="))));
  EXPECT_THAT(text, Not(HasSubstr("\nddprun_workers_resident_memory_bytes 0\n")))
      << "/proc was not looked at";
  NodeBoard::Facts later;
  later.generation = Generation{4};
  board_->Set(later);
  EXPECT_THAT(Asked(Get("/metrics")), AllOf(HasSubstr("\nddprun_agent_generation 4\n"),
                                            HasSubstr("\nddprun_agent_workers 0\n")));
}

TEST_F(AgentEndpointTest, RanksHaveSeriesWhereTheyAreAskedFor) {
  AgentEndpoint::Options options;
  options.per_rank = true;
  Start(std::move(options));
  EXPECT_THAT(Asked(Get("/metrics")), HasSubstr("ddprun_worker_cpu_seconds_total{rank=\"8\"} "));
}

TEST_F(AgentEndpointTest, AFolderThatIsNotThereYetHasNoSeries) {
  const TempDir folder;
  AgentEndpoint::Options options;
  options.folders = {{"logs", folder.path()}, {"checkpoints", folder / "later"}};
  Start(std::move(options));
  EXPECT_THAT(Asked(Get("/metrics")), AllOf(HasSubstr("ddprun_disk_free_bytes{folder=\"logs\"} "),
                                            HasSubstr("ddprun_disk_size_bytes{folder=\"logs\"} "),
                                            Not(HasSubstr("checkpoints\"}"))));
}

TEST_F(AgentEndpointTest, ATokenIsAskedForWhereThereIsOne) {
  AgentEndpoint::Options options;
  options.token = "0123456789abcdef";
  Start(std::move(options));
  const auto with = [&](const std::string& token) {
    return Asked(Get("/metrics", absl::StrCat("Authorization: Bearer ", token, "\r\n")));
  };
  EXPECT_THAT(Asked(Get("/metrics")),
              AllOf(StartsWith("HTTP/1.1 401 "), Not(HasSubstr("ddprun_agent"))));
  EXPECT_THAT(with("0123456789abcdeX"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(with(""), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(with("0123456789abcdef"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("ddprun_agent_generation")));
  EXPECT_THAT(Asked(Get("/healthz")), StartsWith("HTTP/1.1 200 ")) << "that needs none";
}

TEST_F(AgentEndpointTest, ThereIsNothingElse) {
  Start();
  EXPECT_THAT(Asked(Get("/healthz")), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("ok\n")));
  EXPECT_THAT(Asked(Get("/")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Asked(Get("/api/jobs")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Asked(Post("/metrics", "{}")), StartsWith("HTTP/1.1 405 "));
}

TEST_F(AgentEndpointTest, IsReadyWhileHeartbeatsGoToTheRendezvous) {
  AgentEndpoint::Options options;
  options.lease = std::chrono::hours(1);
  Start(std::move(options));
  EXPECT_THAT(Asked(Get("/readyz")),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("has not joined its rendezvous yet")));
  NodeBoard::Facts facts;
  facts.heartbeat_at = std::chrono::steady_clock::now() - std::chrono::minutes(59);
  board_->Set(facts);
  EXPECT_THAT(Asked(Get("/readyz")), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("ok\n")));
  *facts.heartbeat_at -= std::chrono::minutes(2);
  board_->Set(facts);
  EXPECT_THAT(Asked(Get("/readyz")),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("no heartbeat for 366")));
}

TEST_F(AgentEndpointTest, CertificatesSayWhenTheyExpire) {
  const TempDir folder;
  ASSERT_TRUE(auth::MakeCertificates({folder.path(), "ann", {{"node"}}}).ok());
  AgentEndpoint::Options options;
  options.certificates = {{"grpc", folder / "node.crt"}, {"http", ""}};
  Start(std::move(options));
  EXPECT_THAT(Asked(Get("/metrics")),
              AllOf(HasSubstr(absl::StrCat(
                        "ddprun_agent_certificate_expiry_timestamp_seconds{use=\"grpc\"} ",
                        *auth::ExpiryOf(folder / "node.crt"), "\n")),
                    Not(HasSubstr("use=\"http\""))));
}

TEST_F(AgentEndpointTest, AnAddressThatIsTakenIsAnError) {
  Start();
  AgentEndpoint::Options options;
  options.server.listen = absl::StrCat("127.0.0.1:", endpoint_->port());
  const auto second =
      AgentEndpoint::Start(std::move(options), board_, std::make_shared<UsageMeter>());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

}  // namespace agent_endpoint_test
}  // namespace ddprun
