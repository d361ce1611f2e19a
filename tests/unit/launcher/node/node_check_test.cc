#include "launcher/node/node_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "launcher/config/host.h"
#include "launcher/node/node_facts.h"
#include "launcher/os/local_address.h"
#include "tests/support/temp_dir.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace node_check_test {

using Level = Finding::Level;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

JobConfig TwoNodes() {
  JobConfig config;
  config.nodes = {2, 2};
  config.rendezvous.endpoint = "n1:29400";
  config.command = {"./train"};
  return config;
}

NodeFacts GoodNode() {
  NodeFacts facts;
  facts.host = "n1";
  facts.address = "10.0.0.1";
  facts.ports = {29400};
  facts.unix_seconds = 1'800'000'000;
  facts.open_files = 1 << 20;
  facts.shared_memory_bytes = std::uint64_t{8} << 30;
  return facts;
}

Finding Of(const std::string& name, const JobConfig& config, const NodeFacts& facts) {
  for (const Finding& finding : JudgeNode(config, facts)) {
    if (finding.name == name) return finding;
  }
  return {};
}

TEST(NodeCheckTest, AGoodNodeMayRun) {
  const auto findings = JudgeNode(TwoNodes(), GoodNode());
  EXPECT_TRUE(MayRun(findings));
  EXPECT_EQ(FindingsToText(findings),
            "ok       address      10.0.0.1 of n1\n"
            "ok       rendezvous   n1:29400\n"
            "ok       ports        free: 29400\n"
            "ok       clock        synchronized\n"
            "ok       files        at most 1048576 open files\n"
            "ok       memlock      unlimited\n"
            "ok       shm          8192 MiB are free in /dev/shm\n"
            "ok       gpus         none\n"
            "ok       command      ./train\n"
            "ok       folders      can be written\n"
            "ok       credentials  none\n");
}

struct Case {
  const char* finding;
  Level level;
  const char* text;
  std::function<void(JobConfig&, NodeFacts&)> change;
};

TEST(NodeCheckTest, WhatIsWrongIsNamedWithWhatToDo) {
  const Case cases[] = {
      {"address", Level::kFailure, "no route",
       [](auto&, auto& f) { f.address = absl::UnavailableError("no route to n1"); }},
      {"address", Level::kFailure, "give --local-addr",
       [](auto&, auto& f) { f.address = "127.0.1.1"; }},
      {"address", Level::kOk, "127.0.0.1",
       [](auto& c, auto& f) {
         c.nodes = {1, 1};
         f.address = "127.0.0.1";
       }},
      {"rendezvous", Level::kFailure, "n1:29400: cannot resolve",
       [](auto&, auto& f) { f.endpoint = absl::NotFoundError("cannot resolve host n1"); }},
      {"ports", Level::kFailure, "taken by another program: 29400",
       [](auto&, auto& f) { f.taken_ports = {29400}; }},
      {"ports", Level::kOk, "the next one is used",
       [](auto&, auto& f) {
         f.ports = {1, 2};
         f.taken_ports = {1};
       }},
      {"ports", Level::kOk, "no port is fixed", [](auto&, auto& f) { f.ports.clear(); }},
      {"ports", Level::kOk, "a rendezvous is at 29400",
       [](auto&, auto& f) { f.rendezvous_port = 29400; }},
      {"address", Level::kWarning, "which other nodes cannot reach",
       [](auto& c, auto& f) {
         c = JobConfig();
         f.address = absl::FailedPreconditionError(
             "n1 has only 127.0.1.1, which other nodes "
             "cannot reach");
       }},
      {"command", Level::kWarning, "cannot import torch",
       [](auto&, auto& f) { f.program.warning = "/usr/bin/python3 cannot import torch"; }},
      {"clock", Level::kFailure, "in the past", [](auto&, auto& f) { f.unix_seconds = 0; }},
      {"clock", Level::kWarning, "synchronized",
       [](auto&, auto& f) { f.clock_synchronized = false; }},
      {"files", Level::kFailure, "ulimit -Hn", [](auto&, auto& f) { f.open_files = 255; }},
      {"files", Level::kWarning, "ulimit -Hn", [](auto&, auto& f) { f.open_files = 1024; }},
      {"memlock", Level::kOk, "64 KiB", [](auto&, auto& f) { f.locked_bytes = 65536; }},
      {"memlock", Level::kWarning, "ulimit -l unlimited",
       [](auto&, auto& f) {
         f.gpus = 1;
         f.driver = "1.2";
         f.locked_bytes = 65536;
       }},
      {"shm", Level::kWarning, "--shm-size",
       [](auto&, auto& f) { f.shared_memory_bytes = 64 << 20; }},
      {"shm", Level::kFailure, "0 MiB", [](auto&, auto& f) { f.shared_memory_bytes = 0; }},
      {"gpus", Level::kFailure, "Slurm gives 4", [](auto&, auto& f) { f.gpus_given = 4; }},
      {"gpus", Level::kFailure, "driver is not loaded", [](auto&, auto& f) { f.gpus = 2; }},
      {"gpus", Level::kOk, "2, driver 550.54",
       [](auto& c, auto& f) {
         f.gpus = c.nproc_per_node = 2;
         f.driver = "550.54";
       }},
      {"gpus", Level::kWarning, "for 3 workers",
       [](auto& c, auto& f) {
         c.nproc_per_node = 3;
         f.gpus = 2;
         f.driver = "550.54";
       }},
      {"command", Level::kFailure, "no such file",
       [](auto&, auto& f) { f.program.executable = absl::NotFoundError("./train: no such file"); }},
      {"command", Level::kFailure, "libnccl.so.2, and the loader does not find it",
       [](auto&, auto& f) { f.program.missing = {"libnccl.so.2"}; }},
      {"command", Level::kOk, "./train with libtorch_cpu.so.2.6",
       [](auto&, auto& f) { f.program.libraries = {"libtorch_cpu.so.2.6"}; }},
      {"command", Level::kOk, "none", [](auto& c, auto&) { c.command.clear(); }},
      {"folders", Level::kFailure, "/ckpt: Permission denied",
       [](auto&, auto& f) { f.unwritable = {"/ckpt: Permission denied"}; }},
      {"credentials", Level::kFailure, "expired on",
       [](auto&, auto& f) { f.credentials = absl::FailedPreconditionError("it expired on ..."); }},
      {"credentials", Level::kWarning, "expires on",
       [](auto&, auto& f) { f.credentials_warning = "it expires on ..."; }},
      {"credentials", Level::kOk, "MUNGE",
       [](auto& c, auto&) { c.rendezvous.credentials.munge = true; }},
  };
  for (const Case& test : cases) {
    JobConfig config = TwoNodes();
    NodeFacts facts = GoodNode();
    test.change(config, facts);
    const Finding found = Of(test.finding, config, facts);
    EXPECT_THAT(found.text, HasSubstr(test.text)) << test.finding;
    EXPECT_EQ(found.level, test.level) << found.text;
    EXPECT_EQ(MayRun(JudgeNode(config, facts)), test.level != Level::kFailure) << found.text;
  }
}

TEST(NodeCheckTest, JsonHasEveryCheck) {
  NodeFacts facts = GoodNode();
  facts.unix_seconds = 0;
  facts.clock_synchronized = false;
  const auto json = nlohmann::json::parse(FindingsToJson("n1", JudgeNode(TwoNodes(), facts)));
  EXPECT_EQ(json["host"], "n1");
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["checks"].size(), 11);
  EXPECT_EQ(json["checks"][3]["name"], "clock");
  EXPECT_EQ(json["checks"][3]["result"], "failure");
}

// ---- facts of the real node ----

TEST(NodeFactsTest, ThisNodeIsSeenAsItIs) {
  const TempDir folder;
  JobConfig config;
  config.command = {"/bin/true"};
  config.log_dir = folder / "logs/not/there/yet";
  config.checkpoint_dir = "/proc/none";
  const NodeFacts facts = LookAtNode(config, PosixHost());
  EXPECT_EQ(facts.address.value(), "127.0.0.1");
  EXPECT_TRUE(facts.program.executable.ok());
  EXPECT_THAT(facts.program.missing, IsEmpty());
  EXPECT_GT(facts.open_files, 0);
  EXPECT_GT(facts.unix_seconds, 1'700'000'000);
  ASSERT_EQ(facts.unwritable.size(), 1);
  EXPECT_THAT(facts.unwritable.front(), HasSubstr("/proc/none: "));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(NodeFactsTest, APortThatIsTakenIsSeen) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const int port = ntohs(address.sin_port);
  JobConfig config;
  config.rendezvous.endpoint = absl::StrCat("127.0.0.1:", port);
  config.rendezvous.autostart = "true";
  config.insecure = true;  // needs no token
  NodeFacts facts = LookAtNode(config, PosixHost());
  EXPECT_THAT(facts.taken_ports, testing::ElementsAre(port));
  config.rendezvous.endpoint = "192.0.2.1:29400";  // not an address of this host
  facts = LookAtNode(config, PosixHost());
  EXPECT_THAT(facts.ports, IsEmpty());
}

TEST(NodeFactsTest, WithoutAJobItIsTheAddressForOthersThatMatters) {
  const NodeFacts facts = LookAtNode(JobConfig(), PosixHost());
  if (facts.address.ok()) {
    EXPECT_FALSE(IsLoopback(*facts.address)) << *facts.address;
  } else {
    EXPECT_FALSE(facts.address.status().message().empty());
  }
}

TEST(NodeFactsTest, AScriptThatIsNotThereIsNamed) {
  JobConfig config;
  config.command = {"python3", "-u", "/no/such/train.py"};
  EXPECT_EQ(LookAtNode(config, PosixHost()).program.executable.message(),
            "/no/such/train.py: No such file or directory");
}

TEST(NodeFactsTest, AProgramThatIsNotThereIsNamed) {
  JobConfig config;
  config.command = {"/no/such/train"};
  EXPECT_EQ(LookAtNode(config, PosixHost()).program.executable.message(),
            "/no/such/train: no such file");
  config.command = {"/etc/passwd"};
  EXPECT_EQ(LookAtNode(config, PosixHost()).program.executable.message(),
            "/etc/passwd: permission denied: not executable (chmod +x /etc/passwd)");
}

TEST(NodeFactsTest, TheLoaderTellsWhatAProgramNeedsAndTheProgramDoesNotRun) {
  EXPECT_THAT(LoaderLines("/bin/sleep"), Contains(HasSubstr("libc.so.6 => ")));
  EXPECT_THAT(LoaderLines("/etc/passwd"), IsEmpty());
  EXPECT_THAT(LoaderLines("/no/such/file"), IsEmpty());
}

TEST(NodeFactsTest, CredentialsThatCannotBeReadAreNamed) {
  JobConfig config;
  config.rendezvous.credentials.token_file = "/no/such/token";
  const NodeFacts facts = LookAtNode(config, PosixHost());
  EXPECT_THAT(std::string(facts.credentials.message()), HasSubstr("/no/such/token"));
}

}  // namespace node_check_test
}  // namespace ddprun
