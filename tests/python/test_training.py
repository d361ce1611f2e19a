"""A killed worker resumes from its script's own checkpoint, with the same numbers under both launchers."""
import unittest

import launchers


class TrainingTest(unittest.TestCase):
    def test_a_killed_worker_resumes_from_the_checkpoint_with_the_same_numbers_under_both(self):
        under = launchers.both(self, "train_ddp.py", nproc=2,
                               flags=["--max_restarts", "2"])
        for launcher, result in under.items():
            self.assertEqual(result.code, 0, f"{launcher}: {result.err}")
            for rank in (0, 1):
                left = result.files[f"rank{rank}.json"]
                self.assertEqual(left["attempt"], 1, launcher)
                self.assertEqual(left["begin"], 4, launcher)
                self.assertEqual(len(left["losses"]), 8, launcher)
        self.assertEqual(under["ddprun"].files, under["torchrun"].files)
        self.assertEqual(under["ddprun"].report["restarts"], 1)


if __name__ == "__main__":
    unittest.main()
