"""Two and three ranks of unmodified scripts: ddprun judges hangs by the stacks alone."""
import sys
import unittest

import launchers


class HangTest(unittest.TestCase):
    """Two or three ranks of a script that does not use ddprun: ddprun has only their stacks."""

    def test_the_rank_that_sleeps_in_its_data_loading_is_named_with_its_function(self):
        self.rank_that_sleeps_is_named()

    def test_so_it_is_where_workers_are_forked(self):
        """All workers are copies of one interpreter."""
        self.rank_that_sleeps_is_named("--preload", "torch")

    def rank_that_sleeps_is_named(self, *flags):
        result = launchers.run(self, "ddprun", "hang_in_data_loading.py", nproc=2,
                               flags=["--auto-step", "--hang-timeout", "4s", "--on-hang", "restart",
                                      "--max-restarts", "1", *flags])
        self.assertEqual(result.code, 0, result.err)
        cause, = result.report["earlier_generations"]
        self.assertEqual((cause["kind"], cause["rank"]), ("hung", 1), result.err)
        self.assertEqual(cause["pid"], result.files["hung.json"])
        self.assertIn("is in no collective", cause["reason"])
        self.assertIn("c10d::", cause["reason"])
        if sys.version_info[:2] in ((3, 11), (3, 13)):  # others: only native frames (docs/stacks.md)
            self.assertIn("read_the_next_shard",
                          [frame["function"] for frame in cause["frames"]])
            self.assertIn("read_the_next_shard hang_in_data_loading.py:", cause["reason"])

    def mismatch(self, what, *flags, **environment):
        """The root cause of a job of three ranks, in which rank 1 enters another collective."""
        result = launchers.run(self, "ddprun", "mismatch.py", nproc=3, flags=flags,
                               arguments=[what], environment=environment)
        self.assertNotEqual(result.code, 0, result.err)
        return result.report["root_cause"]

    def test_of_another_operation_both_are_named(self):
        """Break: in _ddprun_state/collectives.py, do not write to the agent's page."""
        cause = self.mismatch("operation", "--auto-step", "--hang-startup-timeout", "4s",
                              "--on-hang", "restart")
        self.assertEqual((cause["kind"], cause["rank"]), ("hung", 1))
        self.assertRegex(cause["reason"], r"rank 1 on \S+ \(pid \d+\) entered broadcast 1 \(8000 bytes\); "
                         r"rank 0 on \S+ \(pid \d+\) entered all_reduce 1 \(8000 bytes\): ")

    def test_of_another_size_both_are_named(self):
        """Break: in _ddprun_state/collectives.py, do not write to the agent's page."""
        cause = self.mismatch("size", "--auto-step")
        self.assertRegex(cause["description"], r"rank 1 on \S+ entered all_reduce 1 \(12000 bytes\); "
                         r"rank 0 on \S+ and 1 other rank entered all_reduce 1 \(8000 bytes\): "
                         "their calls do not match")

    def test_so_they_are_where_workers_are_forked(self):
        cause = self.mismatch("size", "--auto-step", "--preload", "torch")
        self.assertRegex(cause["description"], r"rank 1 on \S+ entered all_reduce 1 \(12000 bytes\); ")

    def test_where_nothing_is_recorded_the_peer_is_not_guessed(self):
        cause = self.mismatch("size")
        self.assertIn("it and a peer entered a collective with different sizes",
                      cause["description"])

    def test_with_torchs_own_checks_both_are_named(self):
        """Break: a limit below 1,000 bytes for the lines of stderr that a root cause quotes."""
        cause = self.mismatch("size", TORCH_DISTRIBUTED_DEBUG="DETAIL")
        said = "\n".join(cause["stderr_tail"])
        self.assertIn("Detected mismatch between collectives", said)
        self.assertRegex(said, "Rank 1 is running collective: .*TensorShape=.3000")
        self.assertRegex(said, "Rank [02] is running collective: .*TensorShape=.2000")


if __name__ == "__main__":
    unittest.main()
