import sys
import unittest

import launchers


class HangTest(unittest.TestCase):
    """Two ranks of a script that knows nothing of ddprun: what their stacks alone tell."""

    def test_the_rank_that_sleeps_in_its_data_loading_is_named_with_its_function(self):
        result = launchers.run(self, "ddprun", "scripts/hang_in_data_loading.py", nproc=2,
                               flags=["--auto-step", "--hang-timeout", "4s", "--on-hang", "restart",
                                      "--max-restarts", "1"])
        self.assertEqual(result.code, 0, result.err)
        cause, = result.report["earlier_generations"]
        self.assertEqual((cause["kind"], cause["rank"]), ("hung", 1), result.err)
        self.assertEqual(cause["pid"], result.files["hung.json"])
        self.assertIn("is in no collective", cause["reason"])
        self.assertIn("c10d::", cause["reason"])
        if sys.version_info[:2] in ((3, 11), (3, 13)):  # docs/hangs.md: of others native frames
            self.assertIn("read_the_next_shard",
                          [frame["function"] for frame in cause["frames"]])
            self.assertIn("read_the_next_shard hang_in_data_loading.py:", cause["reason"])


if __name__ == "__main__":
    unittest.main()
