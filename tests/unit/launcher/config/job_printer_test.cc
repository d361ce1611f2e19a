#include "launcher/config/job_printer.h"

#include <chrono>
#include <string>

#include "gtest/gtest.h"
#include "launcher/config/yaml_config.h"
#include "nlohmann/json.hpp"
#include "tests/support/golden.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace job_printer_test {

// A job in which no field has its default. Its texts would break a careless printer.
JobConfig UnusualJob() {
  JobConfig job;
  job.nodes = {2, 5};
  job.nproc_per_node = 7;
  job.spec.join_timeout = std::chrono::milliseconds(1500);
  job.spec.last_call = std::chrono::hours(1);
  job.spec.heartbeat = std::chrono::milliseconds(900);
  job.spec.lease = std::chrono::seconds(4);
  job.spec.save_timeout = std::chrono::seconds(7);
  job.spec.master_addr = "n1";
  job.spec.master_port = 29500;
  job.spec.max_restarts = 4;
  job.spec.restart_window = std::chrono::hours(1);
  job.spec.never_restart_on = {3, 42};
  job.spec.max_membership_changes = 7;
  job.spec.quarantine = 3;
  job.spec.quarantine_window = std::chrono::hours(2);
  job.spec.hang_startup_timeout = std::chrono::minutes(3);
  job.spec.hang_quarantine = 5;
  job.spec.start_anew = true;
  job.rendezvous.endpoint = "[::1]:29401";
  job.rendezvous.backend = "etcd";
  job.rendezvous.etcd = {{"[::1]:29401"}, "/jobs", "/e/ca", "/e/cert", "/e/key", "user", "/e/pw"};
  job.rendezvous.id = "12345";
  job.rendezvous.connect_timeout = std::chrono::minutes(3);
  job.rendezvous.autostart = "true";
  job.program.virtual_local_rank = true;
  job.program.numa_binding = "core-complex";
  job.restart.warm = 9;
  job.restart.hang = {"90s", "report", "SIGQUIT"};
  job.restart.preload = {"torch", "a.b"};
  job.restart.in_place_timeout = std::chrono::milliseconds(0);
  job.stop_grace = std::chrono::milliseconds(0);
  job.role = "true";
  job.local_addr = "::1";
  job.log_dir = "/logs/a b#c";
  job.logs.redirects = Streams{true, true};
  job.logs.tee = std::map<int, Streams>{{0, {true, false}}, {10, {false, true}}};
  job.logs.local_ranks_filter = {0, 12};
  job.logs.collapse = true;
  job.logs.max_size = 1536 << 20;
  job.logs.keep_runs = 5;
  job.checkpoint_dir = "/ckpt: d";
  job.checkpoint.take_folder = true;
  job.checkpoint.state_timeout = std::chrono::milliseconds(250);
  job.program.auto_step = true;
  job.told.report = "/r\"'";
  job.command = {"python3", "-u", "x.py",          "",
                 "3",       "~",  "a: b",          "line\nline\ttab",
                 "ü",       "{}", "${local_rank}", std::string(300, 'x')};
  job.env = {{"A", ""}, {"B", "null"}, {"C", "1\n2"}};
  return job;
}

void ExpectEqual(const JobConfig& a, const JobConfig& b) {
  EXPECT_EQ(a.nodes.min, b.nodes.min);
  EXPECT_EQ(a.nodes.max, b.nodes.max);
  EXPECT_EQ(a.nproc_per_node, b.nproc_per_node);
  EXPECT_EQ(a.rendezvous.endpoint, b.rendezvous.endpoint);
  EXPECT_EQ(a.rendezvous.id, b.rendezvous.id);
  EXPECT_EQ(a.spec, b.spec);
  EXPECT_EQ(a.rendezvous.connect_timeout, b.rendezvous.connect_timeout);
  EXPECT_EQ(a.restart.warm, b.restart.warm);
  EXPECT_EQ(a.restart.in_place_timeout, b.restart.in_place_timeout);
  EXPECT_EQ(a.restart.hang.timeout, b.restart.hang.timeout);
  EXPECT_EQ(a.restart.hang.on_hang, b.restart.hang.on_hang);
  EXPECT_EQ(a.restart.hang.signal, b.restart.hang.signal);
  EXPECT_EQ(a.restart.preload, b.restart.preload);
  EXPECT_EQ(a.stop_grace, b.stop_grace);
  EXPECT_EQ(a.checkpoint.state_timeout, b.checkpoint.state_timeout);
  EXPECT_EQ(a.rendezvous.autostart, b.rendezvous.autostart);
  EXPECT_EQ(a.program.virtual_local_rank, b.program.virtual_local_rank);
  EXPECT_EQ(a.program.numa_binding, b.program.numa_binding);
  EXPECT_EQ(a.role, b.role);
  EXPECT_EQ(a.local_addr, b.local_addr);
  EXPECT_EQ(a.log_dir, b.log_dir);
  EXPECT_EQ(a.logs.redirects, b.logs.redirects);
  EXPECT_EQ(a.logs.tee, b.logs.tee);
  EXPECT_EQ(a.logs.local_ranks_filter, b.logs.local_ranks_filter);
  EXPECT_EQ(a.logs.collapse, b.logs.collapse);
  EXPECT_EQ(a.logs.max_size, b.logs.max_size);
  EXPECT_EQ(a.logs.keep_runs, b.logs.keep_runs);
  EXPECT_EQ(a.checkpoint_dir, b.checkpoint_dir);
  EXPECT_EQ(a.checkpoint.take_folder, b.checkpoint.take_folder);
  EXPECT_EQ(a.program.auto_step, b.program.auto_step);
  EXPECT_EQ(a.told.report, b.told.report);
  EXPECT_EQ(a.command, b.command);
  EXPECT_EQ(a.env, b.env);
}

TEST(ToYamlTest, LoadsToTheSameJob) {
  const JobConfig job = UnusualJob();
  const auto again = ParseJob(ToYaml(job), "printed.yaml", FakeHost());
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << ToYaml(job);
  ExpectEqual(job, *again);
}

TEST(ToYamlTest, ScriptThatRunsWithoutPythonStaysSo) {
  JobConfig job = UnusualJob();
  job.command = {"./train.py"};
  job.program.auto_step = false;
  job.restart.preload.clear();
  job.restart.warm = 0;
  const auto again = ParseJob(ToYaml(job), "printed.yaml", FakeHost());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->command, job.command);
}

TEST(ToYamlTest, ReadsAsAJobFileDoes) {
  const auto job = ParseJob("{command: [./train, --lr, 0.1], env: {A: b}}", "f", FakeHost());
  ASSERT_TRUE(job.ok()) << job.status();
  ExpectGolden("tests/data/job/printed.yaml", ToYaml(*job));
}

TEST(ToJsonTest, IsOneLineWithTheSameKeysAndValues) {
  const JobConfig job = UnusualJob();
  const std::string text = ToJson(job);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["command"], nlohmann::json(job.command));
  EXPECT_EQ(json["env"], nlohmann::json(job.env));
  EXPECT_EQ(json["nodes"], "2:5");
  EXPECT_EQ(json["nproc_per_node"], 7);
  EXPECT_EQ(json["no_python"], false);
  EXPECT_EQ(json["rendezvous"]["join_timeout"], "1500ms");
  EXPECT_EQ(json["restart"]["max_restarts"], 4);
  const auto again = ParseJob(text, "printed.json", FakeHost());
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectEqual(job, *again);
}

}  // namespace job_printer_test
}  // namespace ddprun
