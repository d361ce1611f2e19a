"""Two nodes on one machine, as docs/first-job.md has them: they train, a worker is killed, and all ranks resume."""
import subprocess
import unittest

import reader
import shown_commands


class FirstJobTest(reader.ReaderTest):
    runner = shown_commands.FIRST_JOB

    def test_two_nodes(self):
        self.environment["DDPRUN_RDZV_ENDPOINT"] = f"127.0.0.1:{self.port}"  # the job file names another port
        rendezvous = self.type("build/bin/ddprun rendezvous --listen 127.0.0.1:29400")
        self.expect("listening", rendezvous)
        nodes = [self.type("build/bin/ddprun -c configs/mnist_two_nodes.yaml") for _ in range(2)]
        self.expect(r"^\[default0\]:step \d+ ", *nodes)
        status = subprocess.run(["build/bin/ddprun", "status"], cwd=self.folder, env=self.environment,
                                capture_output=True, text=True, timeout=reader.HANG, check=False)
        self.assertIn("job mnist: Running", status.stdout, status.stderr)
        self.expect_end(self.start("pkill -KILL -n mnist_ddp" + self.among_workers_of(*nodes)))
        self.expect(r"^\[default0\]:resumed from step \d+ ", *nodes)
        for node in nodes:
            self.expect("restart 1 of 3; resumes at step", node)


if __name__ == "__main__":
    unittest.main()
