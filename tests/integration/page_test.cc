// The page of a real rendezvous: `ddprun rendezvous --http`, `ddprun page`, a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/job.h"

namespace ddprun {
namespace page_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

class PageTest : public testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string out;
    std::string err;
  };
  Result Ddprun(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DdprunPath());
    Program program(std::move(arguments), {{"DDPRUN_RDZV_ENDPOINT", daemon_.endpoint()}});
    const int code = program.ExitCode();
    return {code, program.out(), program.err()};
  }
  int PagePort() {
    EXPECT_TRUE(daemon_.program().WaitForOut("page on http://127.0.0.1:"));
    const std::string out = daemon_.program().out();
    return std::stoi(out.substr(out.find("page on http://127.0.0.1:") + 25));
  }
  // The code in a link of `ddprun page`.
  std::string Code() {
    const Result page = Ddprun({"page", "--quiet"});
    EXPECT_EQ(page.code, 0) << page.err;
    const std::size_t begin = page.out.find("#code=") + 6;
    return page.out.substr(begin, page.out.find('\n') - begin);
  }
  static Json BodyOf(const std::string& answer) {
    return Json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
  }

  const TempDir folder_;
  Daemon daemon_{folder_.path(), {"--http", "127.0.0.1:0"}};
};

TEST_F(PageTest, ALinkSignsInOnceAndShowsTheJobAndItsRestart) {
  const int port = PagePort();
  const std::string code = Code();
  const std::string login = R"({"code":")" + code + R"("})";
  const Json session = BodyOf(Ask(port, Post("/api/login", login)));
  ASSERT_TRUE(session.contains("token")) << session;
  EXPECT_THAT(Ask(port, Post("/api/login", login)), StartsWith("HTTP/1.1 403 "));
  const std::string bearer = "Authorization: Bearer " + std::string(session["token"]) + "\r\n";
  HttpClient list(port);
  list.Say(Get("/api/events", bearer));
  ASSERT_TRUE(list.HearUntil("event: jobs\n"));
  Job job(folder_.path());
  job.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "exp7", "--nnodes", "1",
               "--nproc-per-node", "2", "--max-restarts", "1", "--no-python", "/bin/sh", "-c",
               "if [ $DDPRUN_GENERATION = 0 ]; then exit 3; fi; sleep 600"});
  // The page shows the job, its restart and the cause without a reload.
  ASSERT_TRUE(list.HearUntil(R"("job":"exp7")"));
  ASSERT_TRUE(list.HearUntil(R"("event":"restarted")"));
  EXPECT_THAT(list.heard(), ContainsRegex(R"("event":"failed".*exit code 3)"));
  const Result page = Ddprun({"page", "exp7"});
  EXPECT_THAT(page.out, ContainsRegex("^http://127.0.0.1:[0-9]+/#code=[^&]+&job=exp7\n"));
  EXPECT_EQ(Ddprun({"page", "nobodys"}).code, 1);
  const std::string stop = Ask(
      port, Post("/api/stop", R"({"job":"exp7"})", bearer + "Content-Type: application/json\r\n"));
  EXPECT_THAT(stop, StartsWith("HTTP/1.1 200 ")) << stop;
  EXPECT_TRUE(list.HearUntil(R"("event":"finished")"));
}

TEST_F(PageTest, WhatThePageRefusesIsAMetricOfTheRendezvous) {
  const int port = PagePort();
  EXPECT_THAT(Ask(port, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Ask(port, Get("/api/stacks?job=a")), StartsWith("HTTP/1.1 403 "));
  const std::string metrics = Ask(port, Get("/metrics"));
  EXPECT_THAT(metrics, HasSubstr("ddprun_refusals_total{reason=\"http_foreign_host\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("ddprun_refusals_total{reason=\"http_no_session\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("ddprun_refusals_total{reason=\"http_wrong_code\"} 0\n"));
  EXPECT_TRUE(daemon_.program().WaitForErr("(http_foreign_host, number 1)"));
}

// The message goes from the worker to the agent, to the rendezvous, and into the metrics.
TEST_F(PageTest, ASnapshotThatFailedIsAMetricOfTheJob) {
  Job job(folder_.path());
  job.AddNode({"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "exp7", "--nnodes", "1",
               "--nproc-per-node", "1", "--no-python", "/usr/bin/python3", "-c",
               "import os, socket, time\n"
               "agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
               "agent.connect(os.environ['DDPRUN_CONTROL_SOCKET'])\n"
               "agent.send(b'SNAPSHOT_FAILED=no room\\n')\n"
               "time.sleep(600)\n"});
  const std::string series = "ddprun_job_checkpoint_failures_total{job=\"exp7\",tier=\"memory\"} ";
  const auto deadline = std::chrono::steady_clock::now() + kHang;
  std::string metrics;
  do {
    metrics = Ask(PagePort(), Get("/metrics"));
  } while (metrics.find(series + "1\n") == std::string::npos &&
           std::chrono::steady_clock::now() < deadline);
  EXPECT_THAT(metrics, HasSubstr(series + "1\n"));
  EXPECT_THAT(metrics, HasSubstr("tier=\"durable\"} 0\n"));
}

TEST_F(PageTest, ARestartedRendezvousKnowsNoSessionOfBefore) {
  const std::string login = R"({"code":")" + Code() + R"("})";
  const Json session = BodyOf(Ask(PagePort(), Post("/api/login", login)));
  daemon_.Kill();
  daemon_.Start();
  const std::string bearer = "Authorization: Bearer " + std::string(session["token"]) + "\r\n";
  EXPECT_EQ(BodyOf(Ask(PagePort(), Get("/api/session", bearer)))["signed_in"], false);
}

TEST_F(PageTest, ARendezvousWithoutAPageSaysSo) {
  const TempDir folder;
  Daemon plain(folder.path());
  Program page({DdprunPath(), "page", "--rdzv-endpoint", plain.endpoint()});
  EXPECT_EQ(page.ExitCode(), 1);
  EXPECT_THAT(page.err(), HasSubstr("started without --http"));
  EXPECT_THAT(plain.program().out(), Not(HasSubstr("page on")));
}

TEST_F(PageTest, AnAddressThatIsTakenEndsTheRendezvous) {
  const std::string taken = "127.0.0.1:" + std::to_string(PagePort());
  Program second({DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0", "--http", taken});
  EXPECT_EQ(second.ExitCode(), 69);
  EXPECT_THAT(second.err(), HasSubstr("cannot listen on " + taken));
}

}  // namespace page_test
}  // namespace ddprun
