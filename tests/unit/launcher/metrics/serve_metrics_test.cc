#include "launcher/metrics/serve_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace serve_metrics_test {

using testing::HasSubstr;
using testing::StartsWith;

class ServeMetricsTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<AgentEndpoint>> Serve(const std::string& listen) {
    agent_.config.told.metrics.listen = listen;
    return ServeMetrics({"train", "n1", "1.2"}, folder_.path(), &agent_);
  }

  const TempDir folder_;
  AgentOptions agent_;
};

// The training matters more than its metrics.
TEST_F(ServeMetricsTest, APortThatIsTakenIsAWarning) {
  const auto first = Serve("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_NE(*first, nullptr);
  const std::string taken = absl::StrCat("127.0.0.1:", (*first)->port());
  testing::internal::CaptureStdout();  // no log is set up, so the warning goes to stdout
  const auto second = Serve(taken);
  const std::string said = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, nullptr);
  EXPECT_EQ(agent_.board, nullptr) << "nobody reads it";
  EXPECT_THAT(said, HasSubstr(taken));
  EXPECT_THAT(said, HasSubstr("in use"));
  EXPECT_THAT(said, HasSubstr("runs without metrics"));
}

TEST_F(ServeMetricsTest, ScrapersMayAskForTheNameThatIsGiven) {
  agent_.config.told.metrics.name = "gpu7.example";
  const auto endpoint = Serve("127.0.0.1:0");
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto asked = [&](const std::string& host) {
    return Ask((*endpoint)->port(),
               absl::StrCat("GET /healthz HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
  };
  EXPECT_THAT(asked("gpu7.example"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(asked("gpu8.example"), StartsWith("HTTP/1.1 421 "));
}

TEST_F(ServeMetricsTest, WhoCouldReadThemFromElsewhereMustShowAToken) {
  const auto endpoint = Serve("0.0.0.0:0");
  ASSERT_FALSE(endpoint.ok());
  EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr("--http-read-token-file"));
}

}  // namespace serve_metrics_test
}  // namespace ddprun
