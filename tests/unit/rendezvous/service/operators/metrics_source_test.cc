// Tests the metrics of a JobLoop: of its jobs, and of the rendezvous itself.
#include "rendezvous/service/operators/metrics_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <future>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/tls_files.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rendezvous/service/job/job_loop_fixture.h"

namespace ddprun {
namespace metrics_source_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MetricsSourceTest : public JobLoopTest {
 protected:
  std::string Get(const std::optional<std::string>& owner, MetricsSource::Files files = {}) {
    DaemonStatus daemon;
    daemon.version = "1.2";
    daemon.uptime = std::chrono::hours(1);
    MetricsSource source(
        loop_.get(), [daemon] { return daemon; }, std::move(files));
    std::promise<std::string> text;
    source.Get(owner, [&text](const std::string& got) { text.set_value(got); });
    return text.get_future().get();
  }
  void BeginTwoJobs() {
    ASSERT_TRUE(Joined("anns", 1, 1, "token:ann")->WaitFor<Assignment>());
    ASSERT_TRUE(Joined("bobs", 2, 1, "token:bob")->WaitFor<Assignment>());
  }
};

// The value of a series; "": there is none.
std::string ValueOf(const std::string& text, const std::string& series) {
  const std::size_t at = text.find(absl::StrCat("\n", series, " "));
  if (at == std::string::npos) return "";
  const std::size_t begin = at + series.size() + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST_F(MetricsSourceTest, AnOwnerSeesHisJobsAlone) {
  BeginTwoJobs();
  const std::string text = Get("token:ann");
  EXPECT_THAT(text, AllOf(HasSubstr("job=\"anns\",host=\"n1\""), Not(HasSubstr("bobs"))));
  EXPECT_EQ(ValueOf(text, "ddprun_job_generation{job=\"anns\"}"), "0");
}

TEST_F(MetricsSourceTest, WhoOwnsAllSeesAll) {
  BeginTwoJobs();
  EXPECT_THAT(Get(""),
              AllOf(HasSubstr("job=\"anns\",host=\"n1\""), HasSubstr("job=\"bobs\",host=\"n2\"")));
}

TEST_F(MetricsSourceTest, WhoShowsNothingSeesNoHosts) {
  BeginTwoJobs();
  EXPECT_THAT(Get(std::nullopt), AllOf(HasSubstr("job=\"anns\",host=\"node 1\""),
                                       HasSubstr("job=\"bobs\",host=\"node 1\""),
                                       Not(HasSubstr("n1")), Not(HasSubstr("n2"))));
}

TEST_F(MetricsSourceTest, TheRendezvousItselfIsMeasured) {
  BeginTwoJobs();
  const std::string text = Get("");
  EXPECT_EQ(ValueOf(text, "ddprun_grpc_messages_total{direction=\"received\"}"), "2");
  EXPECT_NE(ValueOf(text, "ddprun_grpc_messages_total{direction=\"sent\"}"), "0");
  double memory = 0;
  double cpu = 0;
  double started = 0;
  ASSERT_TRUE(absl::SimpleAtod(ValueOf(text, "ddprun_process_resident_memory_bytes"), &memory));
  ASSERT_TRUE(absl::SimpleAtod(ValueOf(text, "ddprun_process_cpu_seconds_total"), &cpu));
  ASSERT_TRUE(absl::SimpleAtod(ValueOf(text, "ddprun_start_time_seconds"), &started));
  EXPECT_GT(memory, 1 << 20);
  EXPECT_GT(cpu, 0);
  EXPECT_NEAR(started, static_cast<double>(std::time(nullptr) - 3600), 60);
  EXPECT_THAT(
      text, AllOf(Not(HasSubstr("ddprun_state_disk")), Not(HasSubstr("ddprun_certificate_expiry")),
                  Not(HasSubstr("ddprun_store_commit"))))
      << "there is neither";
}

TEST_F(MetricsSourceTest, DiskAndCertificateAreLookedAt) {
  const TempDir folder;
  ASSERT_TRUE(auth::MakeCertificates({folder.path(), "ann", {{"node"}}}).ok());
  const std::string certificate = folder / "node.crt";
  const std::string text =
      Get("", {folder.path(), {{"grpc", ""}, {"http", certificate}, {"x", folder / "gone"}}});
  EXPECT_EQ(ValueOf(text, "ddprun_certificate_expiry_timestamp_seconds{use=\"http\"}"),
            absl::StrCat(*auth::ExpiryOf(certificate)));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("use=\"grpc\"")), Not(HasSubstr("use=\"x\""))));
  double free = 0;
  double size = 0;
  ASSERT_TRUE(absl::SimpleAtod(ValueOf(text, "ddprun_state_disk_free_bytes"), &free));
  ASSERT_TRUE(absl::SimpleAtod(ValueOf(text, "ddprun_state_disk_size_bytes"), &size));
  EXPECT_GT(size, 0);
  EXPECT_LE(free, size);
  EXPECT_EQ(ValueOf(Get("", {folder / "gone", {}}), "ddprun_state_disk_free_bytes"), "");
}

TEST_F(MetricsSourceTest, AtTheEndThereAreNoJobs) {
  BeginTwoJobs();
  loop_->Shutdown();
  EXPECT_THAT(Get(""),
              AllOf(HasSubstr("ddprun_build_info{version=\"1.2\"} 1"), Not(HasSubstr("anns"))));
}

}  // namespace metrics_source_test
}  // namespace ddprun
