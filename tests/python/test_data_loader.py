"""A DataLoader with processes: the same results under both launchers, and no process outlives a killed worker."""
import os
import unittest

import launchers


class DataLoaderTest(unittest.TestCase):
    def test_a_loader_with_processes_reads_the_same_under_both(self):
        under = launchers.both(self, "data_loader.py", nproc=2, arguments=["read"])
        for launcher, result in under.items():
            self.assertEqual(result.code, 0, f"{launcher}: {result.err}")
        self.assertEqual(under["ddprun"].files, {"rank0.json": 120.0, "rank1.json": 120.0})
        self.assertEqual(under["ddprun"].files, under["torchrun"].files)

    def test_the_loaders_processes_die_with_a_killed_worker(self):
        result = launchers.run(self, "ddprun", "data_loader.py", nproc=2,
                               flags=["--stop-grace", "1s"], arguments=["stuck"])
        self.assertEqual(result.code, 128 + 9, result.err)
        pids = [path.stem for path in (result.folder / "out").glob("*.pid")]
        self.assertEqual(len(pids), 4)
        self.assertEqual([pid for pid in pids if os.path.exists(f"/proc/{pid}")], [])


if __name__ == "__main__":
    unittest.main()
