"""worker/examples/python/ddp_tutorial.py under ddprun: workers are killed, and a node is lost with its
memory. At the end the weights equal those of an undisturbed training."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import torch

import fake_agent
import launchers

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "worker/examples/python/ddp_tutorial.py"
KILL = launchers.PROGRAMS / "kill_in_training.py"
EPOCHS = "3"
STEPS_OF_AN_EPOCH = 32  # of two workers, with batches of 32


class JobTest(unittest.TestCase):
    def setUp(self):
        launchers.require_torch(self)
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def command(self, name, faults, *flags, job=None):
        """The command of one agent. Its logs go to the folder `name`, and the weights to <job, or name>.pt."""
        program = [str(EXAMPLE)] if not faults else [str(KILL), ",".join(faults), str(EXAMPLE)]
        return [os.environ["DDPRUN"], "--report", str(self.folder / f"{name}.json"), "--log-dir",
                str(self.folder / name), "--max-restarts", "3", *flags, "--", *program, EPOCHS,
                "--output", str(self.folder / f"{job or name}.pt")]

    def start(self, command):
        environment = fake_agent.environment(GLOO_SOCKET_IFNAME="lo", PYTHON_EXEC=fake_agent.PYTHON)
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_job(self, name, faults, *flags):
        process = self.start(self.command(name, faults, "--nproc-per-node", "2", *flags))
        said = process.communicate(timeout=launchers.HANG)[0]
        self.assertEqual(process.returncode, 0, said)
        return json.loads((self.folder / f"{name}.json").read_text()), said

    def weights(self, name):
        return torch.load(self.folder / f"{name}.pt")

    def assert_same_weights(self, one, other):
        for name, value in self.weights(one).items():
            self.assertTrue(torch.equal(value, self.weights(other)[name]), name)


class KillTest(JobTest):
    def test_killed_workers_resume_from_memory_and_the_weights_are_the_same(self):
        """Rank 0 is killed in mid-epoch, and later the other rank, too."""
        self.run_job("whole", [])
        faults = ["0:0:10:worker", f"1:1:{STEPS_OF_AN_EPOCH + 5}:worker"]
        report, said = self.run_job("killed", faults)
        self.assertEqual(report["restarts"], 2, said)
        self.assertEqual(report["restore"]["tier"], "memory")
        self.assertGreater(report["restore"]["step"], 10)
        self.assert_same_weights("whole", "killed")

    def test_a_job_that_is_started_again_goes_on_from_its_files(self):
        """The first job ended because it had no restart left. It saved every fifth step."""
        self.run_job("whole", [])
        disk = ["--checkpoint-dir", str(self.folder / "disk"), "--nproc-per-node", "2"]
        program = self.folder / "save_often.py"
        program.write_text("import ddprun, runpy, sys\n"
                           "make = ddprun.Checkpointer.__init__\n"
                           "ddprun.Checkpointer.__init__ = lambda *a, **k: make(*a, save_every=5, **k)\n"
                           "sys.argv = sys.argv[1:]\n"
                           "runpy.run_path(sys.argv[0], run_name='__main__')\n")
        command = self.command("ended", ["0:1:12:worker"], *disk, "--max-restarts", "0")
        command.insert(command.index("--") + 1, str(program))
        ended = self.start(command)
        said = ended.communicate(timeout=launchers.HANG)[0]
        self.assertNotEqual(ended.returncode, 0, said)
        owner = (self.folder / "disk" / "owner").read_text()
        self.assertIn("state=released", owner, "whoever comes next need not wait")
        report, said = self.run_job("again", [], *disk[:2])
        self.assertEqual((report["restore"]["tier"], report["restarts"]), ("durable", 0), said)
        self.assert_same_weights("whole", "again")


class LostNodeTest(JobTest):
    def endpoint(self):
        port = self.folder / "port"
        daemon = subprocess.Popen(
            [os.environ["DDPRUN"], "rendezvous", "--listen", "127.0.0.1:0", "--port-file", str(port)],
            env=fake_agent.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        deadline = time.monotonic() + launchers.HANG
        while not (port.exists() and port.read_text().endswith("\n")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return "127.0.0.1:" + port.read_text().strip()

    def test_a_node_that_is_lost_with_its_memory_is_replaced_without_a_shared_disk(self):
        """Rank 0's agent is killed. A third node, which has no state, takes its place and gets the state of the
        other node."""
        self.run_job("whole", [])
        # The lease is long enough for a busy machine. The guardian reports a killed agent at once.
        flags = ["--rdzv-endpoint", self.endpoint(), "--rdzv-id", "job", "--nnodes", "2",
                 "--nproc-per-node", "1", "--rdzv-conf", "lease=20"]
        agents = [self.start(self.command(name, ["0:0:20:agent"], *flags, job="lost"))
                  for name in "abc"]
        said = [agent.communicate(timeout=launchers.HANG)[0] for agent in agents]
        self.assertEqual(sorted(agent.returncode for agent in agents), [-9, 0, 0], said)
        left = [name for name, agent in zip("abc", agents) if agent.returncode == 0]
        report = json.loads((self.folder / f"{left[0]}.json").read_text())
        self.assertEqual(report["restore"]["tier"], "memory", said)
        self.assert_same_weights("whole", "lost")


if __name__ == "__main__":
    unittest.main()
