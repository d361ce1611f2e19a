"""Objects of different sizes, gathered on every rank: the same under both launchers."""
import unittest

import launchers


class GatherTest(unittest.TestCase):
    def test_all_gather_object_gives_every_rank_the_same_under_both(self):
        under = launchers.both(self, "gather_objects.py", nproc=2)
        for launcher, result in under.items():
            self.assertEqual(result.code, 0, f"{launcher}: {result.err}")
        self.assertEqual(set(under["ddprun"].files), {"rank0.json", "rank1.json"})
        self.assertEqual(under["ddprun"].files, under["torchrun"].files)


if __name__ == "__main__":
    unittest.main()
