"""Commands of README.md that start the reader's own program."""
import unittest

import reader
import shown_commands


class CommandsTest(reader.ReaderTest):
    runner = shown_commands.ANY_PROGRAM

    def expect_workers(self, count, said, more):
        for rank in range(count):
            self.assertIn(f"[default{rank}]:worker {rank} of {count}{more}", said)

    def test_one_node(self):
        for flags, count, command, more in (
                ("--nproc-per-node 4 --max-restarts 3", 4, "train.py --epochs 10", " --epochs 10 None"),
                ("--nproc-per-node 8 --max-restarts 3 --warm --checkpoint-dir /ckpt", 8, "./train",
                 f" {self.folder}/ckpt")):
            with self.subTest(command=command, flags=flags):
                said = self.expect_end(self.type(f"build/bin/ddprun {flags} {command}"))
                self.expect_workers(count, said, more)

    def test_two_machines(self):
        self.expect_end(self.start("(umask 077; openssl rand -hex 32 > token)"))
        rendezvous = self.start(f"ddprun rendezvous --listen 0.0.0.0:{self.port} --token-file token")
        nodes = [self.type("build/bin/ddprun --nnodes 2 --rdzv-endpoint head:29400 --token-file token --rdzv-id exp7 "
                           "./train") for _ in range(2)]
        said = "".join(self.expect_end(node) for node in nodes)
        for rank in range(2):
            self.assertIn(f":worker {rank} of 2 None", said)
        self.assertIsNone(rendezvous.process.poll(), "one rendezvous serves all jobs")


if __name__ == "__main__":
    unittest.main()
