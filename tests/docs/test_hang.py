"""The hang that README.md shows: the script of tests/bench/hang_bench.py. Its limit is shorter here than the 30 s of
`auto`; otherwise the command is the benchmark's."""
import unittest

import reader
import shown_commands


class HangTest(reader.ReaderTest):
    runner = shown_commands.HANG

    def test_the_rank_and_its_frame_are_named(self):
        command = "ddprun --nproc-per-node 2 --auto-step --hang-timeout 3s tests/bench/hang_bench_worker.py asleep"
        node = self.start(command)
        self.expect("the stacks of all threads are in", node)
        self.expect_shown(node)


if __name__ == "__main__":
    unittest.main()
