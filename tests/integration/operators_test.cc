// What operators do with a running rendezvous: the real daemon, real agents and workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/job.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace operators_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

// A connection that never says anything.
int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

class OperatorsTest : public testing::Test {
 protected:
  Result Ddprun(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DdprunPath());
    Program program(std::move(arguments), {{"DDPRUN_RDZV_ENDPOINT", daemon_.endpoint()}});
    const int code = program.ExitCode();
    return {code, program.out(), program.err()};
  }

  Json Status(const std::string& job) {
    const Result result = Ddprun({"status", job, "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    const Json json = Json::parse(result.out, nullptr, false);
    return json.is_object() && !json["jobs"].empty() ? json["jobs"][0] : Json::object();
  }

  // A node of two workers that run `script`.
  Program& AddNode(Job& job, const std::string& id, const std::string& nodes, int number,
                   const std::string& script, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "--rdzv-endpoint",  daemon_.endpoint(),
        "--rdzv-id",        id,
        "--nnodes",         nodes,
        "--rdzv-conf",      "last_call_timeout=0",
        "--nproc-per-node", "2",
        "--local-addr",     "127.0.0." + std::to_string(number + 1),
        "--stop-grace",     "1s",
        "--no-python"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {"/bin/sh", "-c", script});
    return job.AddNode(arguments);
  }

  // A script that touches running/<generation>.<rank> and then runs until it is stopped.
  std::string RunForEver() {
    std::filesystem::create_directories(folder_ / "running");
    return "touch " + (folder_ / "running") + "/$DDPRUN_GENERATION.$RANK; exec sleep 1000";
  }
  bool WaitForWorkers(int generation, int workers) {
    return WaitForChange(folder_ / "running", [&] {
      for (int rank = 0; rank < workers; ++rank) {
        if (!std::filesystem::exists(folder_ / "running" + "/" + std::to_string(generation) + "." +
                                     std::to_string(rank))) {
          return false;
        }
      }
      return true;
    });
  }

  const TempDir folder_;
  Daemon daemon_{folder_.path()};
};

TEST_F(OperatorsTest, StacksShowWhereAllRanksOfAHealthyJobAre) {
  Job job(folder_.path());
  AddNode(job, "train", "2", 0, RunForEver());
  AddNode(job, "train", "2", 1, RunForEver());
  ASSERT_TRUE(WaitForWorkers(0, 4));

  const Result shown = Ddprun({"stacks", "train"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, ContainsRegex("^4 ")) << "their common frames stand once";
  const Result json = Ddprun({"stacks", "train", "--json"});
  const Json stacks = Json::parse(json.out, nullptr, false);
  EXPECT_EQ(stacks["ranks"].dump(), "[[0,3]]");
  EXPECT_EQ(stacks["missing"].dump(), "[]");
  EXPECT_EQ(stacks["job"], "train");
  const Json one =
      Json::parse(Ddprun({"stacks", "train", "--rank", "2", "--json"}).out, nullptr, false);
  EXPECT_EQ(one["ranks"].dump(), "[[2,2]]");
  EXPECT_EQ(one["main"][0]["count"], 1);

  const Result nobody = Ddprun({"stacks", "train", "--rank", "4"});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("job train has no rank 4"));
  const Result unknown = Ddprun({"stacks", "zebra"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("there is no job zebra"));
  EXPECT_EQ(Ddprun({"stop", "train"}).code, 0);
  const Result over = Ddprun({"stacks", "train"});
  EXPECT_EQ(over.code, 1);
  EXPECT_THAT(over.err, HasSubstr("is over"));
}

TEST_F(OperatorsTest, StatusShowsAJobItsRanksAndItsSpares) {
  Job job(folder_.path());
  AddNode(job, "train", "2", 0, RunForEver(), {"--max-restarts", "3"});
  AddNode(job, "train", "2", 1, RunForEver(), {"--max-restarts", "3"});
  ASSERT_TRUE(WaitForWorkers(0, 4));
  Program& spare = AddNode(job, "train", "2", 2, RunForEver(), {"--max-restarts", "3"});
  ASSERT_TRUE(spare.WaitForErr("spare"));

  const Json status = Status("train");
  EXPECT_EQ(status["state"], "Running");
  EXPECT_EQ(status["generation"], 0);
  EXPECT_EQ(status["world_size"], 4);
  EXPECT_EQ(status["restarts_left"], 3);
  EXPECT_THAT(status["spares"], SizeIs(1));
  ASSERT_THAT(status["nodes"], SizeIs(3));
  EXPECT_EQ(status["nodes"][0]["state"], "running");
  EXPECT_EQ(status["nodes"][0]["first_rank"], 0);
  EXPECT_EQ(status["nodes"][1]["first_rank"], 2);
  EXPECT_EQ(status["nodes"][2]["state"], "spare");

  const Result table = Ddprun({"status"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, AllOf(HasSubstr("job train: Running, for "),
                               HasSubstr("2 nodes of 2 and 1 spare; 4 workers"), HasSubstr("2-3"),
                               HasSubstr("127.0.0.3  spare")));
  const Result stopped = Ddprun({"stop", "train"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  for (std::size_t i = 0; i < job.size(); ++i) EXPECT_EQ(job.node(i).ExitCode(), 143);
}

TEST_F(OperatorsTest, StopEndsAJobEverywhereAndSaysHow) {
  Job job(folder_.path());
  AddNode(job, "train", "2", 0, RunForEver());
  AddNode(job, "train", "2", 1, RunForEver());
  ASSERT_TRUE(WaitForWorkers(0, 4));
  const Result result = Ddprun({"stop", "train"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("job train ended: left (exit code 143): stopped by an operator"));
  EXPECT_EQ(job.node(0).ExitCode(), 143);
  EXPECT_EQ(job.node(1).ExitCode(), 143);
  EXPECT_THAT(job.Survivors(), testing::IsEmpty());
  const Json status = Status("train");
  EXPECT_EQ(status["outcome"], "left");
  EXPECT_EQ(status["exit_code"], 143);
  // A second `stop` finds a finished job.
  const Result again = Ddprun({"stop", "train"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("job train is over"));
}

TEST_F(OperatorsTest, DrainFormsTheJobAgainWithoutTheNode) {
  Job job(folder_.path());
  AddNode(job, "train", "1:2", 0, RunForEver());
  ASSERT_TRUE(WaitForWorkers(0, 2));
  AddNode(job, "train", "1:2", 1, RunForEver());
  ASSERT_TRUE(WaitForWorkers(1, 4));
  EXPECT_EQ(Status("train")["world_size"], 4);
  const Result result = Ddprun({"drain", "127.0.0.2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("127.0.0.2"));
  ASSERT_TRUE(WaitForWorkers(2, 2));
  EXPECT_NE(job.node(1).ExitCode(), 0);
  const Json status = Status("train");
  EXPECT_EQ(status["world_size"], 2);
  EXPECT_EQ(status["restarts"], 0);
  ASSERT_THAT(status["nodes"], SizeIs(1));
  EXPECT_EQ(status["nodes"][0]["address"], "127.0.0.1");
  EXPECT_EQ(Ddprun({"stop", "train"}).code, 0);
  job.node(0).ExitCode();
}

TEST_F(OperatorsTest, EventsTellAJobsLifeInOrder) {
  Job job(folder_.path());
  AddNode(job, "train", "1", 0, "test $DDPRUN_GENERATION -gt 0 || exit 7", {"--max-restarts", "1"});
  EXPECT_EQ(job.node(0).ExitCode(), 0);
  const Result result = Ddprun({"events", "train"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<std::string> names;
  std::vector<int> generations;
  std::string last_time;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, false);
    ASSERT_TRUE(event.is_object()) << line;
    EXPECT_EQ(event["job"], "train");
    EXPECT_THAT(event["time"].get<std::string>(),
                ContainsRegex("^20[0-9-]+T[0-9:]+\\.[0-9][0-9][0-9]Z$"));
    EXPECT_GE(event["time"].get<std::string>(), last_time);
    last_time = event["time"].get<std::string>();
    if (event["event"] == "stopping") continue;
    names.push_back(event["event"]);
    generations.push_back(event["generation"]);
    if (event["event"] == "failed") {
      EXPECT_EQ(event["cause"]["exit_code"], 7);
    }
    if (event["event"] == "finished") {
      EXPECT_EQ(event["outcome"], "succeeded");
    }
  }
  EXPECT_THAT(names, ElementsAre("joined", "formed", "started", "failed", "restarted", "formed",
                                 "started", "finished"));
  EXPECT_THAT(generations, ElementsAre(-1, 0, 0, 0, 0, 1, 1, 1));
  // The same lines are in the file.
  EXPECT_EQ(ReadFile(folder_ / "state/events.jsonl"), result.out);
}

TEST_F(OperatorsTest, AFollowerHearsWhatHappensAndTheEndOfTheRendezvous) {
  Program follower({DdprunPath(), "events", "--follow", "--rdzv-endpoint", daemon_.endpoint()});
  Job job(folder_.path());
  AddNode(job, "train", "1", 0, "true");
  EXPECT_EQ(job.node(0).ExitCode(), 0);
  EXPECT_TRUE(follower.WaitForOut("\"finished\""));
  daemon_.program().Signal(SIGTERM);
  EXPECT_EQ(daemon_.program().ExitCode(), 0);
  EXPECT_EQ(follower.ExitCode(), 69);
  EXPECT_THAT(follower.err(), HasSubstr("the rendezvous is shutting down"));
}

TEST_F(OperatorsTest, WatchPrintsAgainWhenSomethingHasHappened) {
  Program watch({DdprunPath(), "status", "--watch", "--rdzv-endpoint", daemon_.endpoint()});
  ASSERT_TRUE(watch.WaitForOut("0 jobs"));
  Job job(folder_.path());
  AddNode(job, "train", "1", 0, "true");
  EXPECT_EQ(job.node(0).ExitCode(), 0);
  EXPECT_TRUE(watch.WaitForOut("job train: succeeded"));
  watch.Signal(SIGINT);
  watch.Wait();
}

TEST_F(OperatorsTest, HistoryOutlivesTheDaemon) {
  Job job(folder_.path());
  AddNode(job, "train", "1", 0, "true");
  EXPECT_EQ(job.node(0).ExitCode(), 0);
  const std::string before = Ddprun({"events"}).out;
  ASSERT_THAT(before, HasSubstr("finished"));
  daemon_.program().Signal(SIGTERM);
  EXPECT_EQ(daemon_.program().ExitCode(), 0);
  daemon_.Start();
  EXPECT_EQ(Ddprun({"events"}).out, before);
  EXPECT_EQ(Status("train")["outcome"], "succeeded");
}

TEST_F(OperatorsTest, WhatIsNotThereIsSaid) {
  EXPECT_THAT(Ddprun({"status", "nope"}).err, HasSubstr("has no job nope"));
  EXPECT_EQ(Ddprun({"status", "nope"}).code, 1);
  EXPECT_EQ(Ddprun({"stop", "nope"}).code, 1);
  const Result drain = Ddprun({"drain", "n77"});
  EXPECT_EQ(drain.code, 1);
  EXPECT_THAT(drain.err, HasSubstr("there is no node n77"));
  daemon_.Kill();
  const Result gone = Ddprun({"status"});
  EXPECT_EQ(gone.code, 69);
  EXPECT_THAT(gone.err, HasSubstr("cannot reach the rendezvous at " + daemon_.endpoint() +
                                  " (--rdzv-endpoint): connection refused\n"));
}

TEST(RendezvousFilesTest, SighupOpensLogAndEventsAnew) {
  const TempDir folder;
  Program daemon({DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0", "--port-file",
                  folder / "port", "--log-file", folder / "log", "--events-file",
                  folder / "events"});
  ASSERT_TRUE(WaitForChange(folder.path(), [&] { return !ReadFile(folder / "port").empty(); }));
  const std::string endpoint = "127.0.0.1:" + std::to_string(std::stoi(ReadFile(folder / "port")));
  const auto run = [&](const std::string& id) {
    Program job({DdprunPath(), "--rdzv-endpoint", endpoint, "--rdzv-id", id, "--log-dir",
                 folder / "logs", "--no-python", "/bin/true"});
    EXPECT_EQ(job.ExitCode(), 0) << job.err();
  };
  run("first");
  ASSERT_TRUE(WaitForChange(folder.path(), [&] {
    return ReadFile(folder / "events").find("finished") != std::string::npos;
  }));
  std::filesystem::rename(folder / "log", folder / "log.1");
  std::filesystem::rename(folder / "events", folder / "events.1");
  daemon.Signal(SIGHUP);
  ASSERT_TRUE(WaitForChange(folder.path(), [&] {
    return ReadFile(folder / "log").find("SIGHUP") != std::string::npos &&
           std::filesystem::exists(folder / "events");
  }));
  run("second");
  ASSERT_TRUE(WaitForChange(folder.path(), [&] {
    return ReadFile(folder / "events").find("finished") != std::string::npos;
  }));
  EXPECT_THAT(ReadFile(folder / "events"),
              AllOf(HasSubstr("\"job\":\"second\""), Not(HasSubstr("\"job\":\"first\""))));
  EXPECT_THAT(ReadFile(folder / "events.1"),
              AllOf(HasSubstr("\"job\":\"first\""), Not(HasSubstr("\"job\":\"second\""))));
  EXPECT_THAT(ReadFile(folder / "log"), HasSubstr("job second"));
  EXPECT_THAT(ReadFile(folder / "log.1"), HasSubstr("job first"));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.ExitCode(), 0);
}

// The systemd unit of the rendezvous relies on these messages.
TEST(RendezvousServiceTest, ItsServiceManagerHearsWhenItIsReadyReloadsAndStops) {
  const TempDir folder;
  const std::string path = folder / "notify";
  const UniqueFd manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  ASSERT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  setsockopt(manager.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const auto next = [&] {
    char text[4096];
    const ssize_t size = recv(manager.get(), text, sizeof text, 0);
    return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  };
  Program daemon(
      {DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0", "--port-file", folder / "port"},
      {{"NOTIFY_SOCKET", path}});
  EXPECT_THAT(next(), HasSubstr("READY=1"));
  // The port accepts connections as soon as READY=1 is sent.
  const int connection = ConnectTo(std::stoi("0" + ReadFile(folder / "port")));
  EXPECT_GE(connection, 0);
  close(connection);
  daemon.Signal(SIGHUP);
  EXPECT_THAT(next(), ContainsRegex("RELOADING=1.*MONOTONIC_USEC=[0-9]+"));
  EXPECT_THAT(next(), HasSubstr("READY=1"));
  daemon.Signal(SIGTERM);
  EXPECT_THAT(next(), HasSubstr("STOPPING=1"));
  EXPECT_EQ(daemon.ExitCode(), 0);
}

TEST(RendezvousListensTest, ASecondDaemonOnThePortIsToldAndTheFirstGoesOn) {
  const TempDir folder;
  Daemon first(folder.path());
  Program second({DdprunPath(), "rendezvous", "--listen", first.endpoint()});
  EXPECT_EQ(second.ExitCode(), 69);
  EXPECT_THAT(second.err(), HasSubstr("address already in use"));
  Program status({DdprunPath(), "status", "--rdzv-endpoint", first.endpoint()});
  EXPECT_EQ(status.ExitCode(), 0) << status.err();
}

TEST(OperatorsCredentialsTest, OperatorsSeeAndEndTheirOwnJobs) {
  const TempDir folder;
  const auto token = [&](const std::string& name, const std::string& text) {
    const std::string path = folder / name;
    std::ofstream(path) << text << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    return path;
  };
  const std::string ann = token("ann", "ann:0123456789abcdef");
  const std::string bob = token("bob", "bob:fedcba9876543210");
  const std::string stranger = token("stranger", "eve:aaaaaaaaaaaaaaaa");
  const Daemon daemon(folder.path(),
                      {"--token-file", token("all", "ann:0123456789abcdef\nbob:fedcba9876543210")});
  Job job(folder.path());
  job.AddNode({"--rdzv-endpoint", daemon.endpoint(), "--rdzv-id", "hers", "--token-file", ann,
               "--no-python", "/bin/sh", "-c", "touch " + (folder / "runs") + "; exec sleep 1000"});
  ASSERT_TRUE(
      WaitForChange(folder.path(), [&] { return std::filesystem::exists(folder / "runs"); }));
  const auto ddprun = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DdprunPath());
    arguments.insert(arguments.end(), {"--rdzv-endpoint", daemon.endpoint()});
    Program program(std::move(arguments));
    const int code = program.ExitCode();
    return Result{code, program.out(), program.err()};
  };
  EXPECT_EQ(ddprun({"status"}).code, 77);
  EXPECT_EQ(ddprun({"status", "--token-file", stranger}).code, 77);
  EXPECT_EQ(ddprun({"events", "--token-file", stranger}).code, 77);
  const Result his = ddprun({"status", "--token-file", bob});
  EXPECT_EQ(his.code, 0) << his.err;
  EXPECT_THAT(his.out, AllOf(HasSubstr(", 0 jobs"), Not(HasSubstr("hers"))));
  EXPECT_EQ(ddprun({"events", "--token-file", bob}).out, "");
  EXPECT_THAT(ddprun({"stop", "hers", "--token-file", bob}).err, HasSubstr("there is no job hers"));
  EXPECT_THAT(ddprun({"drain", "127.0.0.1", "--token-file", bob}).err,
              HasSubstr("there is no node 127.0.0.1 in any job"));
  EXPECT_EQ(ddprun({"stop", "hers", "--no-wait"}).code, 77);
  const Result hers = ddprun({"status", "--json", "--token-file", ann});
  EXPECT_THAT(hers.out, AllOf(HasSubstr("\"job\":\"hers\""), Not(HasSubstr("0123456789abcdef"))));
  EXPECT_THAT(ddprun({"events", "--token-file", ann}).out, HasSubstr("\"owner\":\"token:ann\""));
  EXPECT_EQ(ddprun({"stop", "hers", "--token-file", ann}).code, 0);
  EXPECT_EQ(job.node(0).ExitCode(), 143);
}

// With gRPC's own listener, a test like this ended with "Failed accept4: Too many open files", and
// nobody could reach the daemon any more.
TEST(RendezvousDescriptorsTest, TheSoftLimitIsRaisedToTheHardOne) {
  const TempDir folder;
  Program daemon({"/bin/sh", "-c",
                  "ulimit -Sn 100; ulimit -Hn 4000; exec " + DdprunPath() +
                      " rendezvous --listen 127.0.0.1:0 --port-file " + (folder / "port")});
  ASSERT_TRUE(WaitForChange(folder.path(), [&] { return !ReadFile(folder / "port").empty(); }));
  EXPECT_THAT(ReadFile("/proc/" + std::to_string(daemon.pid()) + "/limits"),
              ContainsRegex("Max open files +4000 +4000"));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.ExitCode(), 0);
}

TEST(RendezvousDescriptorsTest, MoreConnectionsThanDescriptorsDoNotEndTheListener) {
  const TempDir folder;
  Program daemon({"/bin/sh", "-c",
                  "ulimit -n 96; exec " + DdprunPath() + " rendezvous --listen 127.0.0.1:0" +
                      " --port-file " + (folder / "port")});
  ASSERT_TRUE(WaitForChange(folder.path(), [&] { return !ReadFile(folder / "port").empty(); }));
  const int port = std::stoi(ReadFile(folder / "port"));
  const std::string endpoint = "127.0.0.1:" + std::to_string(port);
  std::vector<int> connections;
  for (int i = 0; i < 300; ++i) connections.push_back(ConnectTo(port));
  EXPECT_TRUE(daemon.WaitForErr("for want of descriptors"));
  const auto descriptors = std::distance(
      std::filesystem::directory_iterator("/proc/" + std::to_string(daemon.pid()) + "/fd"),
      std::filesystem::directory_iterator());
  EXPECT_LT(descriptors, 96);
  for (const int fd : connections) {
    if (fd >= 0) close(fd);
  }
  Program job({DdprunPath(), "--rdzv-endpoint", endpoint, "--log-dir", folder / "logs",
               "--no-python", "/bin/true"});
  EXPECT_EQ(job.ExitCode(), 0) << job.err();
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.ExitCode(), 0);
}

TEST(RendezvousDescriptorsTest, AnAgentThatDoesNotFitIsToldWhy) {
  const TempDir folder;
  Program daemon({"/bin/sh", "-c",
                  "ulimit -n 64; exec " + DdprunPath() + " rendezvous --listen 127.0.0.1:0" +
                      " --port-file " + (folder / "port")});
  ASSERT_TRUE(WaitForChange(folder.path(), [&] { return !ReadFile(folder / "port").empty(); }));
  const int port = std::stoi(ReadFile(folder / "port"));
  const std::string endpoint = "127.0.0.1:" + std::to_string(port);
  // Opens as many descriptors as sessions may use (48 of 64), and a few more.
  std::vector<int> connections;
  const auto open = [&] {
    return std::distance(
        std::filesystem::directory_iterator("/proc/" + std::to_string(daemon.pid()) + "/fd"),
        std::filesystem::directory_iterator());
  };
  for (auto missing = 50 - open(); missing > 0; --missing) connections.push_back(ConnectTo(port));
  Program job({DdprunPath(), "--rdzv-endpoint", endpoint, "--rdzv-conf", "timeout=2", "--log-dir",
               folder / "logs", "--no-python", "/bin/true"});
  EXPECT_NE(job.ExitCode(), 0);
  EXPECT_THAT(job.err(), HasSubstr("too few file descriptors for more agents"));
  Program status({DdprunPath(), "status", "--json", "--rdzv-endpoint", endpoint});
  EXPECT_EQ(status.ExitCode(), 0) << status.err();
  const Json json = Json::parse(status.out(), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_GE(json["refused"].value("no_descriptors", 0), 1);
  for (const int fd : connections) close(fd);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.ExitCode(), 0);
}

// Seen red when the rendezvous of such a job had no history: "does not answer operators".
TEST(StandaloneTest, ItsStatusAndStacksAreToldAndItStops) {
  const TempDir folder;
  Job job(folder.path());
  Program& node = job.AddNode({"--standalone", "--no-python", "/bin/sleep", "1000"});
  ASSERT_TRUE(node.WaitForErr("rendezvous.sock")) << node.err();
  const std::string start = "--rdzv-endpoint unix:";
  const std::string said = node.err().substr(node.err().find(start) + start.size());
  const std::string endpoint = "unix:" + said.substr(0, said.find('\n'));
  const auto ask = [&](const std::string& command, const std::string& what) {
    Program program({DdprunPath(), command, "none", "--rdzv-endpoint", endpoint});
    EXPECT_EQ(program.ExitCode(), 0) << command << ": " << program.err();
    EXPECT_THAT(program.out() + program.err(), HasSubstr(what));
  };
  ASSERT_TRUE(node.WaitForErr("generation 0")) << node.err();
  ask("status", "Running");
  ask("stacks", "nanosleep");
  ask("stop", "");
  EXPECT_EQ(node.ExitCode(), 143) << node.err();
  EXPECT_THAT(job.Survivors(), testing::IsEmpty());
}

}  // namespace operators_test
}  // namespace ddprun
