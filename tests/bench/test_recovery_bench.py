"""Tests how recovery_bench.py computes its figures and judges its goals. Starts no process."""
import contextlib
import io
import unittest

import recovery_bench


def records(name, *times, repeated=0, phases=None):
    return [{"name": name, "ms": ms, "repeated": repeated, "phases": phases or {}} for ms in times]


def missed(ranks, **medians):
    """The goals that are missed if each contender needs always the same time."""
    figures = {name.replace("_", " ").replace("Cpp", "C++"): recovery_bench.Figures(records(name, ms))
               for name, ms in medians.items()}
    return [what for what, measured, sign, bound in recovery_bench.goals(figures, ranks)
            if not (measured <= bound if sign == "<=" else measured >= bound)]


class RecoveryBenchTest(unittest.TestCase):
    def test_a_step_that_any_rank_had_finished_is_repeated(self):
        steps = {0: {0: [(1, 10, 5), (2, 20, 5)], 1: [(1, 10, 6)]}}
        for first, expected in ((3, 0), (2, 1), (1, 2)):
            steps[1] = {rank: [(first, 90, 7)] for rank in (0, 1)}
            self.assertEqual(recovery_bench.repeated(steps, 0, 1), expected)

    def test_the_recovery_ends_with_the_first_step_of_the_slowest_rank(self):
        self.assertEqual(recovery_bench.first_step_end({0: [(3, 50, 5), (4, 99, 5)], 1: [(3, 60, 7)]}), 60)

    def test_detection_is_what_the_phases_leave(self):
        found = recovery_bench.Figures(records("C++ warm", 50, 60, phases={"stop": 10, "load": 20}))
        self.assertEqual(found.phases, {"detection": 25, "stop": 10, "load": 20})
        self.assertEqual((found.median, found.spread), (55, 60 / 55))

    def test_without_load_there_is_no_detection(self):
        found = recovery_bench.Figures(records("Python cold", 50, phases={"stop": 10}))
        self.assertEqual(found.phases, {"stop": 10})

    def test_each_goal_can_be_kept_and_missed(self):
        self.assertEqual(missed(2, torchrun=900, Cpp_in_place=30, Cpp_warm=43, Python_preloaded=64, Python_cold=782,
                                Cpp_newcomer=60), [])
        self.assertEqual(missed(2, torchrun=900, Cpp_in_place=31, Cpp_warm=44, Python_preloaded=65, Python_cold=783,
                                Cpp_newcomer=61),
                         ["torchrun / C++ in place", "C++ in place / C++ warm", "torchrun / Python preloaded",
                          "torchrun / Python cold", "C++ newcomer, training stands still, ms"])
        self.assertEqual(missed(8, Cpp_in_place=30, Cpp_warm=90), [])
        self.assertEqual(missed(8, Cpp_in_place=30, Cpp_warm=89), ["8 ranks: C++ warm / C++ in place"])

    def test_repeated_steps_and_a_slow_kill_are_missed_goals(self):
        figures = {"C++ in place": recovery_bench.Figures(records("", 30, repeated=2)),
                   "Python cold": recovery_bench.Figures(records("", 100, 100, 151))}
        found = recovery_bench.goals(figures, 2)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertFalse(recovery_bench.judge(found))
        self.assertEqual(said.getvalue().count("MISSED"), 2)

    def test_what_was_not_measured_is_no_goal(self):
        self.assertEqual(missed(2, torchrun=900), [])
        self.assertTrue(recovery_bench.judge([]))


if __name__ == "__main__":
    unittest.main()
