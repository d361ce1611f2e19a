"""Tests how ettr_bench.py computes its figures. Starts no process."""
import argparse
import unittest

import ettr_bench


def record(name, gap, steps, missed=0, kills=17):
    return {"name": name, "gap": gap, "seed": 1, "kills": kills if gap else 0, "missed": missed,
            "seconds": 100.0, "steps": steps}


class EttrBenchTest(unittest.TestCase):
    def shortfalls(self, *records):
        names = ["C++ in place", "C++ cold", "Python preloaded", "Python cold", "torchrun"]
        arguments = argparse.Namespace(seed=1, kills=17)
        calm = [record(name, None, 1000) for name in names]
        figures = ettr_bench.ratios(arguments, [*calm, *records], names, [30.0, 15.0, 8.0])
        return ettr_bench.shortfalls(figures, records)

    def test_all_but_python_cold_must_be_ahead(self):
        self.assertEqual(self.shortfalls(
            record("torchrun", 8.0, 800), record("C++ cold", 8.0, 801),
            record("Python preloaded", 8.0, 801), record("Python cold", 8.0, 731)), [])
        self.assertEqual(self.shortfalls(
            record("torchrun", 8.0, 800), record("C++ cold", 8.0, 800),
            record("Python preloaded", 8.0, 799), record("Python cold", 8.0, 729)),
            ["C++ cold, 8 s: 0.000 behind torchrun, allowed 0.00",
             "Python preloaded, 8 s: 0.001 behind torchrun, allowed 0.00",
             "Python cold, 8 s: 0.071 behind torchrun, allowed 0.07"])

    def test_python_cold_may_be_further_behind_only_where_kills_are_frequent(self):
        self.assertEqual(self.shortfalls(record("torchrun", 30.0, 800),
                                         record("Python cold", 30.0, 769)),
                         ["Python cold, 30 s: 0.031 behind torchrun, allowed 0.03"])

    def test_at_15_s_python_cold_must_be_ahead_and_two_have_a_least_figure(self):
        self.assertEqual(self.shortfalls(
            record("torchrun", 15.0, 940), record("Python cold", 15.0, 941),
            record("Python preloaded", 15.0, 950), record("C++ in place", 15.0, 970)), [])
        self.assertEqual(self.shortfalls(
            record("torchrun", 15.0, 940), record("Python cold", 15.0, 939),
            record("Python preloaded", 15.0, 949), record("C++ in place", 15.0, 969)),
            ["C++ in place, 15 s: 0.969, must be 0.97",
             "Python preloaded, 15 s: 0.949, must be 0.95",
             "Python cold, 15 s: 0.001 behind torchrun, allowed 0.00"])

    def test_a_cell_in_which_too_few_kills_hit_does_not_count(self):
        self.assertEqual(self.shortfalls(record("torchrun", 8.0, 800, missed=2)), [])
        self.assertEqual(self.shortfalls(record("torchrun", 8.0, 800, missed=3)),
                         ["torchrun, 8 s: 14 of 17 kills hit, 15 must"])
        self.assertEqual(self.shortfalls(record("torchrun", 8.0, 800, missed=1, kills=4)),
                         ["torchrun, 8 s: 3 of 4 kills hit, 4 must"])

    def test_what_was_not_measured_is_no_shortfall(self):
        self.assertEqual(self.shortfalls(record("Python cold", 8.0, 1)), [])

    def test_the_plan_is_one_for_all_and_longer_plans_begin_alike(self):
        plan = ettr_bench.kill_plan(1, 8.0, 17)
        self.assertEqual(plan[:15], ettr_bench.kill_plan(1, 8.0, 15))
        self.assertEqual(sorted(plan), plan)
        self.assertEqual({rank for _, rank in plan}, {0, 1})


if __name__ == "__main__":
    unittest.main()
