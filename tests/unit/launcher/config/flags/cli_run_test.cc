// The command lines that start a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace cli_run_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(CliRunTest, ProgramAloneIsAStandaloneJob) {
  const RunCommand run = RunOf({"./train", "--epochs", "3"});
  EXPECT_THAT(run.config.command, ElementsAre("./train", "--epochs", "3"));
  EXPECT_TRUE(run.config.standalone());
  EXPECT_EQ(run.config.nproc_per_node, 1);
  EXPECT_EQ(run.config.spec.max_restarts, 0);
  EXPECT_EQ(run.config.logs.verbosity, 0);
  EXPECT_FALSE(run.dry_run);
  EXPECT_THAT(run.notes, IsEmpty());
}

TEST(CliRunTest, EveryFlagReachesItsField) {
  const RunCommand run = RunOf({"--nnodes",
                                "1:4",
                                "--nproc-per-node=3",
                                "--rdzv-endpoint",
                                "node1:29500",
                                "--rdzv-id",
                                "job7",
                                "--rdzv-backend",
                                "c10d",
                                "--rdzv-conf",
                                "join_timeout=30,last_call_timeout=2, timeout=7",
                                "--max-restarts",
                                "5",
                                "--role",
                                "trainer",
                                "--log-dir",
                                "out",
                                "--local-addr",
                                "10.0.0.7",
                                "--stop-grace",
                                "500ms",
                                "--checkpoint-dir",
                                "/ckpt",
                                "--take-folder",
                                "--report",
                                "r.json",
                                "-v",
                                "--dry-run",
                                "--json",
                                "./train"});
  const JobConfig& config = run.config;
  EXPECT_EQ(config.nodes.min, 1);
  EXPECT_EQ(config.nodes.max, 4);
  EXPECT_EQ(config.nproc_per_node, 3);
  EXPECT_EQ(config.rendezvous.endpoint, "node1:29500");
  EXPECT_EQ(config.rendezvous.id, "job7");
  EXPECT_EQ(config.spec.join_timeout, seconds(30));
  EXPECT_EQ(config.spec.last_call, seconds(2));
  EXPECT_EQ(config.rendezvous.connect_timeout, seconds(7));
  EXPECT_EQ(config.spec.max_restarts, 5);
  EXPECT_EQ(config.role, "trainer");
  EXPECT_EQ(config.log_dir, "/home/user/out");
  EXPECT_EQ(config.local_addr, "10.0.0.7");
  EXPECT_EQ(config.stop_grace, milliseconds(500));
  EXPECT_EQ(config.checkpoint_dir, "/ckpt");
  EXPECT_TRUE(config.checkpoint.take_folder);
  EXPECT_EQ(config.told.report, "/home/user/r.json");
  EXPECT_EQ(config.logs.verbosity, 1);
  EXPECT_TRUE(run.dry_run);
  EXPECT_TRUE(run.json);
}

TEST(CliRunTest, TorchrunsOwnExampleIsTaken) {
  const RunCommand run =
      RunOf({"--nnodes=2", "--nproc_per_node=8", "--rdzv_id=100", "--rdzv_backend=c10d",
             "--rdzv_endpoint=node1:29400", "train.py", "--arg1", "--nnodes=3"});
  EXPECT_EQ(run.config.nodes.max, 2);
  EXPECT_EQ(run.config.nproc_per_node, 8);
  EXPECT_EQ(run.config.rendezvous.id, "100");
  EXPECT_THAT(run.config.command, ElementsAre("python3", "-u", "train.py", "--arg1", "--nnodes=3"));
}

TEST(CliRunTest, FlagWinsOverEnvironmentOverFileOverDefault) {
  const JobFile file("{command: a, role: of_file}");
  FakeHost host;
  host.variables["PET_ROLE"] = "of_environment";
  EXPECT_EQ(RunOf({"-c", file.path(), "--role", "of_flag"}, host).config.role, "of_flag");
  EXPECT_EQ(RunOf({"-c", file.path()}, host).config.role, "of_environment");
  EXPECT_EQ(RunOf({"-c", file.path()}).config.role, "of_file");
  EXPECT_EQ(RunOf({"a"}).config.role, "default");
}

TEST(CliRunTest, CommandOnTheCommandLineWinsOverTheFile) {
  const JobFile file("{command: [a, b], nproc_per_node: 2}");
  EXPECT_THAT(RunOf({"-c", file.path()}).config.command, ElementsAre("a", "b"));
  const RunCommand run = RunOf({"-c", file.path(), "--", "c", "-v"});
  EXPECT_THAT(run.config.command, ElementsAre("c", "-v"));
  EXPECT_EQ(run.config.nproc_per_node, 2);
}

TEST(CliRunTest, FileMayLeaveTheCommandToTheCommandLine) {
  const JobFile file("nproc_per_node: 2");
  EXPECT_THAT(RunOf({"-c", file.path(), "--", "c"}).config.command, ElementsAre("c"));
  EXPECT_THAT(ErrorOf({"-c", file.path()}, kExitBadConfig),
              StartsWith(file.path() + ":1:1: command: expected the program"));
}

TEST(CliRunTest, FileCanBeNamedByTheEnvironment) {
  const JobFile file("command: a");
  FakeHost host;
  host.variables["DDPRUN_CONFIG"] = file.path();
  EXPECT_THAT(RunOf({}, host).config.command, ElementsAre("a"));
}

TEST(CliRunTest, FlagsAndEnvironmentRepairWhatTheFileLeavesOpen) {
  const JobFile file("{command: a, nodes: 2, nproc_per_node: gpu}");
  const RunCommand run =
      RunOf({"-c", file.path(), "--rdzv-endpoint", "node1", "--nproc-per-node", "2"});
  EXPECT_EQ(run.config.rendezvous.endpoint, "node1:29400");
  EXPECT_EQ(run.config.nproc_per_node, 2);
}

TEST(CliRunTest, ErrorsOfTheFileEndWithBadConfig) {
  const JobFile file("command: a\nrole: /\nzebra: 1\n");
  const std::string error = ErrorOf({"-c", file.path()}, kExitBadConfig);
  EXPECT_THAT(error, HasSubstr(file.path() + ":2:7: role: "));
  EXPECT_THAT(error, HasSubstr(file.path() + ":3:1: zebra: "));
  EXPECT_THAT(ErrorOf({"-c", "/no/such/file"}, kExitBadConfig), StartsWith("/no/such/file: "));
}

TEST(CliRunTest, StandaloneFlagSetsTheFilesEndpointAside) {
  const JobFile file("{command: a, rendezvous: {endpoint: 'node1:29400'}}");
  EXPECT_FALSE(RunOf({"-c", file.path()}).config.standalone());
  EXPECT_TRUE(RunOf({"-c", file.path(), "--standalone"}).config.standalone());
}

TEST(CliRunTest, StandaloneAndEndpointConflict) {
  EXPECT_EQ(ErrorOf({"--standalone", "--rdzv-endpoint", "a:1", "./a"}),
            "--rdzv-endpoint: conflicts with --standalone, which sets the same; give one of them");
  FakeHost host;
  host.variables = {{"PET_STANDALONE", "1"}, {"PET_RDZV_ENDPOINT", "a:1"}};
  EXPECT_THAT(ErrorOf({"./a"}, kExitUsage, host), StartsWith("PET_RDZV_ENDPOINT: conflicts with"));
  EXPECT_EQ(RunOf({"--rdzv-endpoint", "b:1", "./a"}, host).config.rendezvous.endpoint, "b:1");
}

TEST(CliRunTest, SeveralNodesNeedAnEndpoint) {
  for (const char* const nodes : {"2", "1:2"}) {
    const std::string error = ErrorOf({"--nnodes", nodes, "./a"});
    EXPECT_THAT(error, StartsWith("--nnodes: more than one node needs a rendezvous"));
    EXPECT_THAT(error, HasSubstr("--rdzv-endpoint"));
  }
  EXPECT_THAT(ErrorOf({"--nnodes", "2", "--standalone", "./a"}),
              StartsWith("--nnodes: more than one node needs a rendezvous (found 2 and "
                         "--standalone)"));
  const JobFile file("command: a\nnodes: 2");
  EXPECT_THAT(ErrorOf({"-c", file.path()}, kExitBadConfig),
              StartsWith(file.path() + ":2:8: nodes: more than one node"));
}

TEST(CliRunTest, GpuCountNeedsAGpu) {
  FakeHost host;
  EXPECT_THAT(ErrorOf({"--nproc-per-node", "gpu", "./a"}, kExitUsage, host),
              StartsWith("--nproc-per-node: gpu: this node has no GPU (no /dev/nvidia0)"));
  host.variables["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_THAT(ErrorOf({"--nproc-per-node", "gpu", "./a"}, kExitUsage, host),
              HasSubstr("CUDA_VISIBLE_DEVICES hides them all"));
  host.variables["CUDA_VISIBLE_DEVICES"] = "0,3";
  host.gpu_devices = 4;
  EXPECT_EQ(RunOf({"--nproc-per-node", "gpu", "./a"}, host).config.nproc_per_node, 2);
  EXPECT_EQ(RunOf({"--nproc-per-node", "auto", "./a"}, host).config.nproc_per_node, 2);
}

TEST(CliRunTest, ModuleRunsUnderPython) {
  EXPECT_THAT(RunOf({"-m", "pkg.train", "--lr"}).config.command,
              ElementsAre("python3", "-u", "-m", "pkg.train", "--lr"));
  EXPECT_THAT(RunOf({"--no-python", "./train.py"}).config.command, ElementsAre("./train.py"));
  EXPECT_THAT(ErrorOf({"--no-python", "-m", "pkg"}),
              StartsWith("--no-python: a module (-m) runs under Python"));
  const JobFile file("no_python: true");
  EXPECT_THAT(RunOf({"-c", file.path(), "-m", "pkg"}).config.command,
              ElementsAre("python3", "-u", "-m", "pkg"));
}

TEST(CliRunTest, ShutdownTimeoutIsStopGraceAndTakesTorchrunsSeconds) {
  EXPECT_EQ(RunOf({"--shutdown-timeout", "30", "a"}).config.stop_grace, seconds(30));
  EXPECT_EQ(RunOf({"--shutdown-timeout", "1500ms", "a"}).config.stop_grace, milliseconds(1500));
  EXPECT_THAT(ErrorOf({"--stop-grace", "30", "a"}),
              StartsWith("--stop-grace: expected a duration"));
  EXPECT_THAT(ErrorOf({"--stop-grace", "1s", "--shutdown-timeout", "2", "a"}),
              StartsWith("--shutdown-timeout: conflicts with --stop-grace"));
}

TEST(CliRunTest, TheLeaseIsAtLeastThreeHeartbeats) {
  const JobSpec spec = RunOf({"--rdzv-conf", "keep_alive_interval=2,lease=6", "a"}).config.spec;
  EXPECT_EQ(spec.heartbeat, seconds(2));
  EXPECT_EQ(spec.lease, seconds(6));
  EXPECT_EQ(RunOf({"--rdzv-conf", "lease=5", "a"}).config.spec.lease, seconds(5));
  EXPECT_EQ(ErrorOf({"--rdzv-conf", "keep_alive_interval=2", "a"}),
            "--rdzv-conf: keep_alive_interval: the lease must be at least three heartbeats, or one "
            "that is late would end a node (found a lease of 3s and a heartbeat of 2s)");
  EXPECT_THAT(ErrorOf({"--rdzv-conf", "heartbeat=1,lease=2999ms", "a"}),
              StartsWith("--rdzv-conf: lease: the lease must be"));
  const JobFile file("rendezvous: {lease: 2s}");
  EXPECT_THAT(ErrorOf({"-c", file.path(), "a"}, kExitBadConfig),
              HasSubstr(":1:21: rendezvous.lease: the lease"));
}

TEST(CliRunTest, TheEpochIsSlurmsRestartCount) {
  FakeHost host;
  EXPECT_EQ(RunOf({"a"}, host).config.rendezvous.requeue_number, 0u);
  host.variables["SLURM_RESTART_COUNT"] = "2";
  EXPECT_EQ(RunOf({"a"}, host).config.rendezvous.requeue_number, 2u);
  host.variables["SLURM_RESTART_COUNT"] = "two";
  EXPECT_THAT(ErrorOf({"a"}, kExitUsage, host),
              StartsWith("SLURM_RESTART_COUNT: expected a whole number"));
}

TEST(CliRunTest, GraceForTheDaemonAndTimeToSaveHaveFlags) {
  EXPECT_EQ(RunOf({"--daemon-grace", "1h", "a"}).config.rendezvous.daemon_grace,
            std::chrono::hours(1));
  EXPECT_EQ(RunOf({"--save-timeout", "5s", "a"}).config.spec.save_timeout, seconds(5));
  EXPECT_EQ(RunOf({"a"}).config.rendezvous.daemon_grace, std::chrono::minutes(5));
}

TEST(CliRunTest, RendezvousSettingsAreCheckedByName) {
  EXPECT_EQ(RunOf({"--rdzv-conf", "connect_timeout=500ms", "a"}).config.rendezvous.connect_timeout,
            milliseconds(500));
  EXPECT_THAT(ErrorOf({"--rdzv-conf", "join_timout=3", "a"}),
              testing::AllOf(StartsWith("--rdzv-conf: join_timout: expected one of join_timeout"),
                             HasSubstr("did you mean join_timeout?")));
  EXPECT_THAT(ErrorOf({"--rdzv-conf", "is_host=1", "a"}), HasSubstr("unknown setting"));
  EXPECT_THAT(ErrorOf({"--rdzv-conf", "join_timeout", "a"}),
              StartsWith("--rdzv-conf: join_timeout: expected a duration"));
  EXPECT_THAT(ErrorOf({"--rdzv-conf", "timeout=1,connect_timeout=2", "a"}),
              HasSubstr("conflicts with --rdzv-conf: timeout"));
}

TEST(CliRunTest, OtherBackendsAreRefusedWithTheReason) {
  EXPECT_EQ(RunOf({"--rdzv-backend", "ddprun", "a"}).config.command.size(), 1U);
  EXPECT_THAT(ErrorOf({"--rdzv-backend", "zeus", "a"}),
              StartsWith("--rdzv-backend: expected c10d or static or ddprun or etcd; each means "
                         "ddprun's own rendezvous"));
}

TEST(CliRunTest, FlagsWithoutEffectAreCheckedAndNoted) {
  const RunCommand run = RunOf({"--monitor-interval", "0.1", "--start-method", "fork", "a"});
  EXPECT_THAT(run.notes, ElementsAre(StartsWith("--monitor-interval has no effect"),
                                     StartsWith("--start-method has no effect")));
  for (const char* const value : {"soon", "-1", "nan", "inf", ""}) {
    EXPECT_THAT(ErrorOf({"--monitor-interval", value, "a"}),
                StartsWith("--monitor-interval: expected a number of seconds"));
  }
  EXPECT_THAT(ErrorOf({"--start-method", "thread", "a"}),
              StartsWith("--start-method: expected spawn or fork or forkserver (found "));
}

TEST(CliRunTest, VerboseAndQuietConflict) {
  EXPECT_EQ(RunOf({"-q", "a"}).config.logs.verbosity, -1);
  EXPECT_EQ(RunOf({"-v", "-v", "a"}).config.logs.verbosity, 1);
  EXPECT_EQ(ErrorOf({"-v", "-q", "a"}), "--quiet: conflicts with --verbose; give one of them");
}

TEST(CliRunTest, JsonIsForADryRun) {
  EXPECT_EQ(ErrorOf({"--json", "a"}), "--json: expected together with --dry-run");
}

TEST(CliRunTest, WrongValuesNameTheirFlagOrVariable) {
  EXPECT_THAT(ErrorOf({"--nproc-per-node", "0", "a"}),
              StartsWith("--nproc-per-node: expected a number of workers from 1 to 4096"));
  EXPECT_THAT(ErrorOf({"--nnodes", "4:2", "a"}),
              StartsWith("--nnodes: expected a number of nodes"));
  EXPECT_THAT(ErrorOf({"--max-restarts", "-1", "a"}), StartsWith("--max-restarts: expected"));
  EXPECT_THAT(ErrorOf({"--rdzv-endpoint", "a:65536", "a"}),
              StartsWith("--rdzv-endpoint: expected"));
  FakeHost host;
  host.variables["PET_NNODES"] = "many";
  EXPECT_THAT(ErrorOf({"a"}, kExitUsage, host), StartsWith("PET_NNODES: expected"));
  EXPECT_THAT(RunOf({"--nnodes", "1", "a"}, host).config.command, ElementsAre("a"));
}

TEST(CliRunTest, AllErrorsOfTheCommandLineAreReported) {
  const std::string error = ErrorOf({"--nnodes", "x", "--role", "/", "a"});
  EXPECT_THAT(error, testing::MatchesRegex("--nnodes: [^\n]*\n--role: [^\n]*"));
}

TEST(CliRunTest, WithoutACommandThereIsNothingToStart) {
  EXPECT_THAT(ErrorOf({"-v"}), StartsWith("COMMAND: expected the program that a worker runs"));
  EXPECT_THAT(ErrorOf({"--nnodes", "1", "--"}), StartsWith("COMMAND: expected the program"));
  EXPECT_THAT(ErrorOf({"--", ""}), StartsWith("COMMAND: expected the program"));
}

TEST(CliRunTest, WithoutAnythingThereIsAGuideUnlessAVariableNamesAFile) {
  ParseAs<GuideCommand>({});
  const JobFile file("command: a");
  FakeHost host;
  host.variables["DDPRUN_CONFIG"] = file.path();
  EXPECT_THAT(RunOf({}, host).config.command, ElementsAre("a"));
  host.variables = {{"PET_NNODES", "many"}};
  EXPECT_THAT(ErrorOf({"a"}, kExitUsage, host), StartsWith("PET_NNODES: expected"));
}

TEST(CliRunTest, SubcommandNamesAreSuchOnlyAsTheFirstWord) {
  EXPECT_THAT(RunOf({"--", "rendezvous", "x"}).config.command, ElementsAre("rendezvous", "x"));
  EXPECT_THAT(RunOf({"-v", "version"}).config.command, ElementsAre("version"));
  EXPECT_THAT(RunOf({"./a", "help"}).config.command, ElementsAre("./a", "help"));
}

TEST(CliRunTest, TakesCredentialsWithAbsolutePaths) {
  const FakeHost host;
  const auto command = Parse({"--token-file", "t", "--munge-socket", "", "./a"}, host);
  const auto& credentials = std::get<RunCommand>(command).config.rendezvous.credentials;
  EXPECT_EQ(credentials.token_file, host.CurrentDirectory() + "/t");
  EXPECT_EQ(credentials.tls_ca, "");
  EXPECT_EQ(credentials.munge_socket, "");
  EXPECT_FALSE(credentials.munge);
}

TEST(CliRunTest, WhatIsNotThereIsRefused) {
  EXPECT_THAT(ErrorOf({"--logs-specs", "1", "./a"}),
              StartsWith("--logs-specs: not supported yet by this version; "));
}

TEST(CliRunTest, WorkersAreBoundInOneOfTorchrunsWaysOrNot) {
  EXPECT_EQ(RunOf({"./a"}).config.program.numa_binding, "off");
  for (const char* const mode : {"off", "node", "socket", "exclusive", "core-complex"}) {
    EXPECT_EQ(RunOf({"--numa_binding", mode, "./a"}).config.program.numa_binding, mode);
  }
  FakeHost host;
  host.variables["PET_NUMA_BINDING"] = "socket";
  const auto command = Parse({"./a"}, host);
  EXPECT_EQ(std::get<RunCommand>(command).config.program.numa_binding, "socket");
  EXPECT_THAT(ErrorOf({"--numa-binding=core", "./a"}),
              HasSubstr("--numa-binding: expected off, node, socket, exclusive or core-complex "
                        "(found \"core\")"));
}

TEST(CliRunTest, HangsHaveALimitThatIsChosenOrGivenOrNone) {
  EXPECT_EQ(RunOf({"./a"}).config.restart.hang.timeout, "auto");
  EXPECT_EQ(RunOf({"--hang-timeout", "90s", "./a"}).config.restart.hang.timeout, "90s");
  EXPECT_EQ(RunOf({"--hang-timeout=off", "./a"}).config.restart.hang.timeout, "off");
  EXPECT_THAT(ErrorOf({"--hang-timeout=0s", "./a"}),
              HasSubstr("--hang-timeout: expected auto, off, or a duration with its unit"));
  EXPECT_EQ(RunOf({"--on-hang=report", "./a"}).config.restart.hang.on_hang, "report");
  EXPECT_EQ(RunOf({"./a"}).config.spec.hang_quarantine, 2);
  EXPECT_EQ(RunOf({"--hang-quarantine", "0", "./a"}).config.spec.hang_quarantine, 0);
  EXPECT_THAT(ErrorOf({"--on-hang=panic", "./a"}),
              HasSubstr("--on-hang: expected auto, restart or report (found \"panic\")"));
}

TEST(CliRunTest, TheStoreIsTheAgentsOrTheWorkers) {
  EXPECT_EQ(RunOf({"./a"}).config.program.store, "agent");
  EXPECT_EQ(RunOf({"--store=worker", "./a"}).config.program.store, "worker");
  EXPECT_THAT(ErrorOf({"--store=file", "./a"}),
              HasSubstr("--store: expected agent or worker (found \"file\")"));
}

TEST(CliRunTest, WarmIsOneStandbyForEachWorkerOrAsManyAsAreSaid) {
  EXPECT_EQ(RunOf({"--nproc-per-node=3", "./a"}).config.restart.warm, 0);
  EXPECT_EQ(RunOf({"--nproc-per-node=3", "--warm", "./a"}).config.restart.warm, 3);
  EXPECT_EQ(RunOf({"--nproc-per-node=3", "--warm=2", "./a"}).config.restart.warm, 2);
  EXPECT_EQ(RunOf({"--nproc-per-node=3", "--warm=auto", "./a"}).config.restart.warm, 3);
  EXPECT_EQ(RunOf({"--warm", "2"}).config.command, std::vector<std::string>{"2"})
      << "a value needs the =, or it would be the program";
  EXPECT_THAT(ErrorOf({"--warm=many", "./a"}),
              HasSubstr("--warm: expected a number of standbys from 0 to 4096, or auto (found "
                        "\"many\")"));
  FakeHost host;
  host.variables["DDPRUN_WARM"] = "1";
  EXPECT_EQ(RunOf({"--nproc-per-node=3", "./a"}, host).config.restart.warm, 1);
  const JobFile file("{command: a, nproc_per_node: 2, restart: {warm: auto}}");
  EXPECT_EQ(RunOf({"-c", file.path()}).config.restart.warm, 2);
  EXPECT_EQ(RunOf({"-c", file.path(), "--warm=5"}).config.restart.warm, 5);
}

TEST(CliRunTest, PreloadGoesWithPythonAndWarmNeedsIt) {
  const JobConfig job = RunOf({"--warm", "--preload", "torch,a.b", "train.py"}).config;
  EXPECT_THAT(job.restart.preload, testing::ElementsAre("torch", "a.b"));
  EXPECT_EQ(job.restart.warm, 1);
  RunOf({"--warm", "--preload", "torch", "-m", "pkg.train"});
  RunOf({"--warm", "--preload", "torch", "--", "/usr/bin/python3.11", "-X", "dev", "-uB", "t.py"});
  EXPECT_THAT(ErrorOf({"--warm", "train.py"}),
              HasSubstr("--warm: a Python program needs --preload"));
  EXPECT_EQ(RunOf({"--preload", "torch", "train.py"}).config.restart.warm, 0);
  EXPECT_THAT(ErrorOf({"--warm", "--preload", "torch", "./train"}),
              HasSubstr("--preload: modules are for a Python program (found the command "
                        "\"./train\")"));
  EXPECT_THAT(ErrorOf({"--warm", "--preload", "torch", "--", "python3", "-i"}),
              HasSubstr("--preload: expected a command of the form python3 [-u] SCRIPT"));
  EXPECT_THAT(ErrorOf({"--warm", "--preload", "torch;rm", "train.py"}),
              HasSubstr("--preload: expected names of Python modules, such as torch,numpy"));
}

TEST(CliRunTest, AutoStepIsForPythonProgramsThatItCanReach) {
  EXPECT_TRUE(RunOf({"--auto-step", "train.py"}).config.program.auto_step);
  EXPECT_FALSE(RunOf({"train.py"}).config.program.auto_step);
  const JobFile file("{command: [python3, t.py], python: {auto_step: true}}");
  EXPECT_TRUE(RunOf({"-c", file.path()}).config.program.auto_step);
  EXPECT_THAT(ErrorOf({"--auto-step", "./train"}),
              HasSubstr("--auto-step: expected a Python program, started without -E, -I and -S "
                        "(found the command \"./train\")"));
  EXPECT_THAT(ErrorOf({"--auto-step", "--", "python3", "-I", "t.py"}),
              HasSubstr("(found the command \"python3 -I t.py\")"));
}

}  // namespace cli_run_test
}  // namespace ddprun
