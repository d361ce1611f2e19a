#include "launcher/config/yaml_config.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/job_keys.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace yaml_config_test {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;

absl::StatusOr<JobConfig> Parse(const std::string& text, const FakeHost& host = {}) {
  return ParseJob(text, "job.yaml", host);
}

std::string ErrorOf(const std::string& text, const FakeHost& host = {}) {
  const auto config = Parse(text, host);
  EXPECT_FALSE(config.ok()) << "loaded: " << text;
  return std::string(config.status().message());
}

TEST(YamlConfigTest, CommandAloneIsAJobWithTorchrunsDefaults) {
  const auto config = Parse("command: [./train, --epochs, 3]");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->command, ElementsAre("./train", "--epochs", "3"));
  EXPECT_EQ(config->nodes.min, 1);
  EXPECT_EQ(config->nodes.max, 1);
  EXPECT_EQ(config->nproc_per_node, 1);
  EXPECT_TRUE(config->standalone());
  EXPECT_EQ(config->rendezvous.id, "none");
  EXPECT_EQ(config->spec.max_restarts, 0);
  EXPECT_EQ(config->role, "default");
  EXPECT_EQ(config->log_dir, "/home/user/logs");
  EXPECT_EQ(config->checkpoint_dir, "");
  EXPECT_EQ(config->told.report, "");
  EXPECT_EQ(config->stop_grace, seconds(10));
}

TEST(YamlConfigTest, EveryKeyReachesItsField) {
  const auto config = Parse(R"(
command: './train --name "a b"'
nodes: "1:4"
nproc_per_node: 2
role: trainer
local_addr: 10.0.0.7
log_dir: out/../logs2
checkpoint_dir: /data/ckpt
report: report.json
stop_grace: 500ms
rendezvous:
  endpoint: node1:29500
  id: 12345
  join_timeout: 20min
  last_call: 0
  connect_timeout: 5s
restart: {max_restarts: 3}
env: {A: b, EMPTY: "", NUMBER: 1, BOOLEAN: yes}
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->command, ElementsAre("./train", "--name", "a b"));
  EXPECT_EQ(config->nodes.min, 1);
  EXPECT_EQ(config->nodes.max, 4);
  EXPECT_EQ(config->nproc_per_node, 2);
  EXPECT_EQ(config->role, "trainer");
  EXPECT_EQ(config->local_addr, "10.0.0.7");
  EXPECT_EQ(config->log_dir, "/home/user/logs2");
  EXPECT_EQ(config->checkpoint_dir, "/data/ckpt");
  EXPECT_EQ(config->told.report, "/home/user/report.json");
  EXPECT_EQ(config->stop_grace, milliseconds(500));
  EXPECT_EQ(config->rendezvous.endpoint, "node1:29500");
  EXPECT_EQ(config->rendezvous.id, "12345");
  EXPECT_EQ(config->spec.join_timeout, minutes(20));
  EXPECT_EQ(config->spec.last_call, milliseconds(0));
  EXPECT_EQ(config->rendezvous.connect_timeout, seconds(5));
  EXPECT_EQ(config->spec.max_restarts, 3);
  EXPECT_THAT(config->env, ElementsAre(Pair("A", "b"), Pair("BOOLEAN", "yes"), Pair("EMPTY", ""),
                                       Pair("NUMBER", "1")));
}

TEST(YamlConfigTest, StandbysAndTheirModules) {
  const auto config =
      Parse("{command: train.py, nproc_per_node: 4, restart: {warm: auto, preload: [torch, a.b]}}");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->restart.warm, 4);
  EXPECT_THAT(config->restart.preload, ElementsAre("torch", "a.b"));
  EXPECT_THAT(ErrorOf("command: a\nrestart:\n  warm: -1"),
              HasSubstr("job.yaml:3:9: restart.warm: expected a number of standbys from 0 to 4096, "
                        "or auto"));
  EXPECT_THAT(ErrorOf("command: a.py\nrestart:\n  warm: 1\n  preload: [torch, a b]"),
              HasSubstr("job.yaml:4:20: restart.preload[1]: expected the name of a Python module"));
  EXPECT_THAT(ErrorOf("command: a.py\nrestart:\n  warm: 1"),
              HasSubstr("job.yaml:3:9: restart.warm: a Python program needs --preload"));
}

TEST(YamlConfigTest, PythonScriptGetsItsInterpreterUnlessRefused) {
  EXPECT_THAT(Parse("command: [train.py]")->command, ElementsAre("python3", "-u", "train.py"));
  EXPECT_THAT(Parse("{command: [train.py], no_python: true}")->command, ElementsAre("train.py"));
  FakeHost host;
  host.variables["PYTHON_EXEC"] = "/venv/bin/python";
  EXPECT_THAT(Parse("command: [train.py]", host)->command,
              ElementsAre("/venv/bin/python", "-u", "train.py"));
}

TEST(YamlConfigTest, ProcessCountFollowsTheNode) {
  FakeHost host;
  host.cpus = 6;
  EXPECT_EQ(Parse("{command: a, nproc_per_node: auto}", host)->nproc_per_node, 6);
  host.gpu_devices = 4;
  EXPECT_EQ(Parse("{command: a, nproc_per_node: auto}", host)->nproc_per_node, 4);
  EXPECT_EQ(Parse("{command: a, nproc_per_node: gpu}", host)->nproc_per_node, 4);
  EXPECT_EQ(Parse("{command: a, nproc_per_node: cpu}", host)->nproc_per_node, 6);
}

TEST(YamlConfigTest, TheDevicesInTheJobsEnvCount) {
  FakeHost host;
  host.gpu_devices = 4;
  host.variables["CUDA_VISIBLE_DEVICES"] = "0,1,2";
  const std::string devices = ", env: {CUDA_VISIBLE_DEVICES: \"0,3\"}}";
  EXPECT_EQ(Parse("{command: a, nproc_per_node: gpu" + devices, host)->nproc_per_node, 2);
  EXPECT_EQ(Parse("{command: a, nproc_per_node: auto" + devices, host)->nproc_per_node, 2);
}

// CUDA shows each process only one instance, whatever LOCAL_RANK is.
TEST(YamlConfigTest, InstancesOfAGpuNeedAListAndAVirtualLocalRank) {
  FakeHost host;
  host.variables["CUDA_VISIBLE_DEVICES"] = "MIG-a,MIG-b";
  host.instances = 2;
  const std::string with = "{command: a, nproc_per_node: gpu, virtual_local_rank: true}";
  EXPECT_EQ(Parse(with, host)->nproc_per_node, 2);
  EXPECT_THAT(ErrorOf("{command: a, nproc_per_node: gpu}", host),
              HasSubstr("nproc_per_node: gpu: this node has 2 instances of divided GPUs (MIG)"));
  host.variables.clear();
  host.instances = 2;
  EXPECT_THAT(ErrorOf(with, host), HasSubstr("list them in CUDA_VISIBLE_DEVICES"));
  host.instances = 1;
  EXPECT_EQ(Parse("{command: a, nproc_per_node: gpu}", host)->nproc_per_node, 1);
}

// Before version 0.9 yaml-cpp found endless documents here.
TEST(YamlConfigTest, ADirectiveWithoutADocumentIsAnErrorAndEnds) {
  const std::string error = ErrorOf("%a b\n,");
  EXPECT_THAT(error, StartsWith("job.yaml:2:1: expected "));
  EXPECT_THAT(error, testing::AnyOf(HasSubstr("one document in a job file"),
                                    HasSubstr("plain value cannot start with")));
}

struct ErrorCase {
  const char* text;
  const char* prefix;    // file, line, column and key
  const char* contains;  // a part of the rest
};

void PrintTo(const ErrorCase& error, std::ostream* out) {
  *out << testing::PrintToString(error.text);
}

class YamlErrorTest : public testing::TestWithParam<ErrorCase> {};

TEST_P(YamlErrorTest, SaysWhereAndWhatWasExpected) {
  const std::string error = ErrorOf(GetParam().text);
  EXPECT_THAT(error, StartsWith(GetParam().prefix));
  EXPECT_THAT(error, HasSubstr(GetParam().contains));
  EXPECT_THAT(error, testing::Not(HasSubstr("\n"))) << "one mistake, one line";
}

constexpr ErrorCase kErrorCases[] = {
    // Names.
    {"command: a\nnproc: 2", "job.yaml:2:1: nproc: ", "did you mean nproc_per_node?"},
    {"command: a\nnnodes: 2", "job.yaml:2:1: nnodes: ", "did you mean nodes?"},
    {"command: a\nmax_restarts: 2",
     "job.yaml:2:1: max_restarts: ", "did you mean restart.max_restarts?"},
    {"command: a\nrestart:\n  max_restart: 1",
     "job.yaml:3:3: restart.max_restart: ", "did you mean max_restarts?"},
    {"command: a\nzebra: 1", "job.yaml:2:1: zebra: ", "expected one of command, no_python, nodes"},
    {"command: a\nrendezvous.endpoint: b:1", "job.yaml:2:1: rendezvous.endpoint: ", "unknown key"},
    {"command: a\nrole: b\nrole: c", "job.yaml:3:1: role: ", "once (found it on line 2 too)"},
    {"command: a\nrendezvous: {id: a, id: b}", "job.yaml:2:21: rendezvous.id: ", "once"},
    {"command: a\nrestart: {}\nrestart: {}", "job.yaml:3:1: restart: ", "once"},
    {"command: a\n[b, c]: 1", "job.yaml:2:1: key: ", "expected a name as key (found a list)"},
    {"command: a\n<<: {role: b}", "job.yaml:2:1: <<: ", "unknown key"},
    // Types.
    {"command: a\nrendezvous: node1:29400",
     "job.yaml:2:13: rendezvous: ", "expected a map (found \"node1:29400\")"},
    {"command: a\nrestart: [1]", "job.yaml:2:10: restart: ", "expected a map (found a list)"},
    {"command: a\nrestart:\n  max_restarts: many", "job.yaml:3:17: restart.max_restarts: ",
     "expected a whole number from 0 to 1000000 (found \"many\")"},
    {"command: a\nrestart: {max_restarts: \"3\"}",
     "job.yaml:2:25: restart.max_restarts: ", "(found the string \"3\")"},
    {"command: a\nrestart: {max_restarts: 1.5}",
     "job.yaml:2:25: restart.max_restarts: ", "(found \"1.5\")"},
    {"command: a\nno_python: yes", "job.yaml:2:12: no_python: ", "expected true or false"},
    {"command: a\nno_python: \"true\"", "job.yaml:2:12: no_python: ", "expected true or false"},
    {"command: a\nrole: [a]", "job.yaml:2:7: role: ", "(found a list)"},
    {"command: a\nlog_dir: {a: b}", "job.yaml:2:10: log_dir: ", "expected a path (found a map)"},
    {"command: a\nlog_dir: ~", "job.yaml:2:10: log_dir: ", "expected a path (found nothing)"},
    {"command: a\nenv: [A=b]", "job.yaml:2:6: env: ", "a map of variable names"},
    // Ranges and forms.
    {"command: a\nnproc_per_node: 0", "job.yaml:2:17: nproc_per_node: ",
     "expected a number of workers from 1 to 4096, or auto, gpu or cpu (found \"0\")"},
    {"command: a\nnproc_per_node: -2", "job.yaml:2:17: nproc_per_node: ", "(found \"-2\")"},
    {"command: a\nnproc_per_node: tpu", "job.yaml:2:17: nproc_per_node: ", "(found \"tpu\")"},
    {"command: a\nnodes: 0", "job.yaml:2:8: nodes: ", "from 1 to 65536 (found \"0\")"},
    {"command: a\nnodes: \"4:2\"", "job.yaml:2:8: nodes: ", "MIN not above MAX"},
    {"command: a\nnodes: \"0:2\"", "job.yaml:2:8: nodes: ", "from 1 to 65536"},
    {"command: a\nrestart: {max_restarts: -1}",
     "job.yaml:2:25: restart.max_restarts: ", "from 0 to 1000000 (found \"-1\")"},
    {"command: a\nstop_grace: 10", "job.yaml:2:13: stop_grace: ",
     "expected a duration with its unit, such as 500ms, 10s, 5min or 2h"},
    {"command: a\nstop_grace: -1s", "job.yaml:2:13: stop_grace: ", "a duration with its unit"},
    {"command: a\nstop_grace: 9000h", "job.yaml:2:13: stop_grace: ", "from 0s to 8784h"},
    {"command: a\nrendezvous: {join_timeout: 0}",
     "job.yaml:2:28: rendezvous.join_timeout: ", "from 1ms to 8784h (found \"0\")"},
    {"command: a\nrendezvous: {endpoint: \"node1:65536\"}",
     "job.yaml:2:24: rendezvous.endpoint: ", "the port from 1 to 65535"},
    {"command: a\nrendezvous: {endpoint: \"node1:0\"}",
     "job.yaml:2:24: rendezvous.endpoint: ", "the port from 1 to 65535"},
    {"command: a\nrendezvous: {id: a/b}", "job.yaml:2:18: rendezvous.id: ", "letters, digits"},
    {"command: a\nrole: \"\"", "job.yaml:2:7: role: ", "1 to 128 letters"},
    {"command: a\nlocal_addr: node1:80", "job.yaml:2:13: local_addr: ", "an IP address"},
    {"command: a\nlog_dir: \"a\\0b\"", "job.yaml:2:10: log_dir: ", "a path"},
    // The command.
    {"role: a", "job.yaml:1:1: command: ", "expected the program that a worker runs"},
    {"role: a\ncommand: []", "job.yaml:2:10: command: ", "(found an empty list)"},
    {"role: a\ncommand: \"\"", "job.yaml:2:10: command: ", "a list of strings, or one string"},
    {"role: a\ncommand:", "job.yaml:2:1: command: ", "(found nothing)"},
    {"role: a\ncommand: {run: a}", "job.yaml:2:10: command: ", "(found a map)"},
    {"role: a\ncommand: a 'b", "job.yaml:2:10: command: ", "with closed quotes"},
    {"role: a\ncommand: [a, [b]]", "job.yaml:2:14: command[1]: ", "an argument (found a list)"},
    {"role: a\ncommand: [a, ~]", "job.yaml:2:14: command[1]: ", "an argument (found nothing)"},
    {"role: a\ncommand: [\"\"]", "job.yaml:2:11: command[0]: ", "(found an empty string)"},
    {"role: a\ncommand: [a, \"b\\0\"]", "job.yaml:2:14: command[1]: ", "an argument"},
    // Variables.
    {"command: a\nenv: {A-B: c}", "job.yaml:2:7: env.A-B: ", "the name of a variable"},
    {"command: a\nenv: {1A: c}", "job.yaml:2:7: env.1A: ", "the name of a variable"},
    {"command: a\nenv: {A: [b]}", "job.yaml:2:10: env.A: ", "(found a list)"},
    {"command: a\nenv: {A: ~}", "job.yaml:2:10: env.A: ", "(found nothing)"},
    {"command: a\nenv: {A: b, A: c}", "job.yaml:2:13: env.A: ", "once"},
    {"command: a\nenv: {RANK: 0}", "job.yaml:2:7: env.RANK: ", "for each worker"},
    {"command: a\nenv: {DDPRUN_CHECKPOINT_DIR: x}",
     "job.yaml:2:7: env.DDPRUN_CHECKPOINT_DIR: ", "use the key checkpoint_dir"},
    // Settings that do not fit together.
    {"command: a\nnodes: 2", "job.yaml:2:8: nodes: ", "--rdzv-endpoint"},
    {"command: a\nnodes: \"1:2\"", "job.yaml:2:8: nodes: ", "rendezvous.endpoint"},
    {"command: a\nnproc_per_node: gpu", "job.yaml:2:17: nproc_per_node: ", "has no GPU"},
    // The file as a whole.
    {"", "job.yaml:1:1: ", "found an empty file"},
    {"# only a comment\n", "job.yaml:1:1: ", "found an empty file"},
    {"---\n...\n", "job.yaml:1:1: ", "found an empty file"},
    {"- command", "job.yaml:1:1: ", "expected a map with keys such as command"},
    {"./train --epochs 3", "job.yaml:1:1: ", "expected a map with keys such as command"},
    {"command: a\n---\ncommand: b",
     "job.yaml:3:1: ", "one document in a job file (found a second one)"},
    {"command: a\n\"b\\nc\": 1", "job.yaml:2:1: b\\nc: ", "unknown key"},
    {"command: \"\\\n\\\x0E\"", "job.yaml:2:", "unknown escape character: \\016"},
    {"command: [a, b\nrole: c", "job.yaml:2:5: ", "expected YAML ("},
    {"command: a\n\trole: b", "job.yaml:2:1: ", "expected YAML ("},
    {"command: a\nrole: *nobody", "job.yaml:2:7: ", "expected YAML ("},
};

INSTANTIATE_TEST_SUITE_P(All, YamlErrorTest, testing::ValuesIn(kErrorCases));

TEST(YamlConfigTest, ReportsAllErrorsInTheOrderOfTheFile) {
  EXPECT_THAT(ErrorOf("nproc_per_node: 0\nrestart:\n  max_restarts: x\n  zebra: 1\nrole: /\n"),
              testing::MatchesRegex("job.yaml:1:17: nproc_per_node: [^\n]*\n"
                                    "job.yaml:3:17: restart.max_restarts: [^\n]*\n"
                                    "job.yaml:4:3: restart.zebra: [^\n]*\n"
                                    "job.yaml:5:7: role: [^\n]*"));
}

TEST(YamlConfigTest, EveryScalarKeyRefusesAListAndAMap) {
  for (const JobKey& key : JobKeys()) {
    if (key.type == KeyType::kCommand || key.type == KeyType::kEnvironment) continue;
    for (const std::string value : {"[1]", "{a: 1}", "~"}) {
      const bool list = key.type == KeyType::kNumbers || key.type == KeyType::kModules ||
                        key.type == KeyType::kOptions;
      if (list && value == "[1]") continue;
      const std::string entry = std::string(key.name) + ": " + value;
      const std::string text =
          key.section.empty() ? entry : std::string(key.section) + ": {" + entry + "}";
      EXPECT_THAT(ErrorOf("command: a\n" + text), HasSubstr(": " + key.Path() + ": expected "));
    }
  }
}

TEST(YamlConfigTest, ExitCodesAreAListOrTextWithCommas) {
  for (const std::string codes : {"[3, 42]", "\"3, 42\""}) {
    const auto config = Parse("{command: a, restart: {never_on: " + codes + "}}");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_THAT(config->spec.never_restart_on, testing::ElementsAre(3, 42));
  }
  EXPECT_THAT(ErrorOf("command: a\nrestart: {never_on: [3, 256, x]}"),
              testing::AllOf(HasSubstr("restart.never_on[1]: expected a whole number from 1 to 255 "
                                       "(found \"256\")"),
                             HasSubstr("restart.never_on[2]: expected a whole number")));
}

TEST(YamlConfigTest, AWindowForRestartsIsADuration) {
  const auto config = Parse("{command: a, restart: {window: 2h}}");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->spec.restart_window, std::chrono::hours(2));
}

TEST(YamlConfigTest, AnchorsCanBeUsed) {
  const auto config = Parse("role: &name trainer\nrendezvous: {id: *name}\ncommand: a");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rendezvous.id, "trainer");
}

TEST(YamlConfigTest, EndpointWithoutPortGetsTorchrunsPort) {
  EXPECT_EQ(Parse("{command: a, rendezvous: {endpoint: node1}}")->rendezvous.endpoint,
            "node1:29400");
}

TEST(LoadJobFileTest, SaysWhyAFileCannotBeRead) {
  const std::string folder = testing::TempDir();
  const auto missing = LoadJobFile(folder + "/no-such-job.yaml", FakeHost());
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("no-such-job.yaml: expected a job file that can be read (No such file"));
  const auto directory = LoadJobFile(folder, FakeHost());
  EXPECT_THAT(std::string(directory.status().message()), HasSubstr("(Is a directory)"));
  const auto endless = LoadJobFile("/dev/zero", FakeHost());
  EXPECT_THAT(std::string(endless.status().message()), HasSubstr("(File too large)"));
}

TEST(LoadJobFileTest, NamesTheFileAsItWasGiven) {
  const std::string path = testing::TempDir() + "/yaml_config_test_named.yaml";
  std::ofstream(path) << "command: a\nrole: /\n";
  const auto config = LoadJobFile(path, FakeHost());
  std::filesystem::remove(path);
  EXPECT_THAT(std::string(config.status().message()), StartsWith(path + ":2:7: role: "));
}

}  // namespace yaml_config_test
}  // namespace ddprun
