"""The kill of a worker as README.md shows it: MNIST trains on one node, and goes on."""
import re
import unittest

import reader
import shown_commands


class KillTest(reader.ReaderTest):
    runner = shown_commands.KILL

    def test_a_killed_worker_costs_no_finished_step(self):
        node = self.start("build/bin/ddprun -c configs/mnist_local.yaml")
        self.expect(r"^\[default0\]:step \d+ ", node)
        self.expect_end(self.start("pkill -KILL -n mnist_ddp" + self.among_workers_of(node)))
        self.expect(r"^\[default0\]:resumed from step \d+ .*(\n.*)*^\[default0\]:step \d+ ", node)
        self.expect_shown(node)
        said = node.said()
        finished = int(re.search(r"SIGKILL after step (\d+)", said).group(1))
        resumed = int(re.search(r"resumed from step (\d+)", said).group(1))
        self.assertGreaterEqual(resumed, finished)


if __name__ == "__main__":
    unittest.main()
