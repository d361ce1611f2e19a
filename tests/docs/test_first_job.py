"""The first job of docs/first-job.md: it trains, a worker is killed, on one node and on two."""
import re
import subprocess
import unittest

import reader
import shown_commands

KILL = "pkill -KILL -n mnist_ddp"


def children(pid):
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.split()


class FirstJobTest(reader.ReaderTest):
    runner = shown_commands.FIRST_JOB

    def kill_a_worker(self, *nodes):
        """The shown command, among the workers of this test only."""
        guardians = [child for node in nodes for child in children(node.process.pid)]
        self.expect_end(self.type(KILL, " -P " + ",".join(guardians)))

    def test_a_killed_worker_costs_no_finished_step(self):
        node = self.type("build/bin/ddprun -c configs/mnist_local.yaml")
        self.expect(r"^\[default0\]:step \d+ ", node)
        self.kill_a_worker(node)
        self.expect(r"^\[default0\]:resumed from step \d+ .*(\n.*)*^\[default0\]:step \d+ ", node)
        self.expect_shown(node)
        said = node.said()
        finished = int(re.search(r"SIGKILL after step (\d+)", said).group(1))
        resumed = int(re.search(r"resumed from step (\d+)", said).group(1))
        self.assertGreaterEqual(resumed, finished)

    def test_two_nodes(self):
        self.environment["DDPRUN_RDZV_ENDPOINT"] = f"127.0.0.1:{self.port}"  # the job file names another port
        rendezvous = self.type("build/bin/ddprun rendezvous --listen 127.0.0.1:29400")
        self.expect("listening", rendezvous)
        nodes = [self.type("build/bin/ddprun -c configs/mnist_two_nodes.yaml") for _ in range(2)]
        self.expect(r"^\[default0\]:step \d+ ", *nodes)
        status = subprocess.run(["build/bin/ddprun", "status"], cwd=self.folder, env=self.environment,
                                capture_output=True, text=True, timeout=reader.HANG, check=False)
        self.assertIn("job mnist: Running", status.stdout, status.stderr)
        self.kill_a_worker(*nodes)
        self.expect(r"^\[default0\]:resumed from step \d+ ", *nodes)
        for node in nodes:
            self.expect("restart 1 of 3; resumes at step", node)


if __name__ == "__main__":
    unittest.main()
