"""Tests the pure parts of campaign.py: the plans and the verdict."""
import os
import tempfile
import unittest

from campaign import append, read_verdicts
from campaign_plan import FAULTS, SETTLE_S, make_plan
from campaign_verdict import End, Life, Record, overlaps, parse_life, verdict

SEEDS = range(1, 301)


class PlanTest(unittest.TestCase):
    def test_a_seed_is_always_the_same_plan(self):
        for seed in SEEDS:
            self.assertEqual(make_plan(seed), make_plan(seed))
        self.assertGreater(len({make_plan(seed) for seed in SEEDS}), 290)

    def test_every_fault_is_drawn(self):
        drawn = {(fault.kind, fault.target, fault.how) for seed in SEEDS for fault in make_plan(seed).faults}
        all_of_them = {(kind, target, how) for kind, targets, hows in FAULTS for target in targets for how in hows}
        self.assertEqual(drawn, all_of_them)

    def test_two_faults_of_one_target_are_never_at_once(self):
        for seed in SEEDS:
            free = {}
            for fault in sorted(make_plan(seed).faults):
                if fault.kind == "clock":
                    continue
                self.assertGreaterEqual(fault.at, free.get(fault.target, 0), f"seed {seed}")
                free[fault.target] = round(fault.end + SETTLE_S, 2)

    def test_a_guardian_is_killed_only_where_the_others_may_go_on_at_once(self):
        for seed in SEEDS:
            plan = make_plan(seed)
            if any((fault.kind, fault.how) == ("kill", "guardian") for fault in plan.faults):
                self.assertNotEqual(plan.nnodes, "3", f"seed {seed}")

    def test_faults_are_over_within_35_seconds(self):
        self.assertLess(max(make_plan(seed).end for seed in SEEDS), 35)


def life(rank, generation, first, last, step=0, durable=(), host="node0"):
    return Life(host, generation, rank, 1000 * generation + rank, first, last, (first + 1, step), tuple(durable))


# Two generations of two ranks; times in ns.
GOOD = (
    life(0, 0, 10, 500, durable=[(100, 10), (200, 20)]),
    life(1, 0, 11, 400),
    life(0, 1, 600, 900, step=20, durable=[(700, 30)]),
    life(1, 1, 601, 900, step=20),
)
ENDS = (End("node0", -9, "agent", last=False), End("node0", 0, ""), End("daemon", 0, ""))


class VerdictTest(unittest.TestCase):
    def expect(self, start, lives=GOOD, ends=ENDS, **more):
        problems = verdict(Record(tuple(lives), tuple(ends), **more))
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith(start), problems[0])

    def test_a_good_job_passes(self):
        self.assertEqual(verdict(Record(GOOD, ENDS)), [])

    def test_two_processes_with_one_rank(self):
        self.expect("overlap: rank 0 of generation 1 on node0 (pid 2) had begun",
                    [*GOOD, GOOD[2]._replace(pid=2, first=650, last=660)])

    def test_a_process_of_an_old_generation_beside_the_next(self):
        self.expect("overlap: rank 0 of generation 1 ", [GOOD[0], GOOD[1]._replace(last=600), *GOOD[2:]])

    def test_touching_is_an_overlap_and_the_next_nanosecond_is_none(self):
        self.assertEqual(len(overlaps([life(0, 0, 10, 20), life(0, 1, 20, 30)])), 1)
        self.assertEqual(overlaps([life(0, 0, 10, 20), life(0, 1, 21, 30)]), [])

    def test_a_durable_step_that_was_lost(self):
        self.expect("lost steps: rank 1 of generation 1 on node0 (pid 1001) went on from step 10, and step 20 ",
                    [*GOOD[:3], GOOD[3]._replace(begin=(602, 10))])

    def test_a_step_that_was_durable_only_later_is_not_lost(self):
        late = GOOD[0]._replace(durable=((100, 10), (200, 20), (605, 25)), last=599)
        self.assertEqual(verdict(Record((late, *GOOD[1:]), ENDS)), [])

    def test_a_state_newer_than_the_last_durable_one_is_no_loss(self):
        self.assertEqual(verdict(Record((*GOOD[:2], *(one._replace(begin=(602, 25)) for one in GOOD[2:])), ENDS)), [])

    def test_a_generation_that_comes_back(self):
        lives = [life(0, 3, 10, 20), life(0, 2, 30, 40), life(1, 2, 31, 40)]
        self.expect("backwards: rank 0 of generation 2 on node0 (pid 2000) with 0 restarts began after rank 0 of "
                    "generation 3", lives)

    def test_restarts_that_were_forgotten(self):
        lives = [life(0, 0, 10, 20)._replace(restarts=2), life(0, 1, 30, 40)._replace(restarts=1)]
        self.expect("backwards: rank 0 of generation 1 on node0 (pid 1000) with 1 restarts began after ", lives)

    def test_ends(self):
        self.expect("wrong end: node1 ended with 69, and nobody had killed it", ends=[*ENDS, End("node1", 69, "")])
        self.expect("wrong end: node1 ended with 0, and its guardian was killed",
                    ends=[*ENDS, End("node1", 0, "guardian", last=False)])
        self.expect("wrong end: node1 ended with 70 and was not started again",
                    ends=[*ENDS, End("node1", 70, "guardian")])

    def test_what_is_left_and_what_is_late(self):
        self.expect("left: process 17 (sleep 1000)", left=("process 17 (sleep 1000)",))
        self.expect("late: not all ranks", late=("not all ranks train together after 45 s",))

    def test_what_a_worker_calls_an_error(self):
        self.expect("rank 0 of generation 0 on node0 (pid 0): no such slot",
                    [GOOD[0]._replace(errors=("no such slot",)), *GOOD[1:]])


class FilesTest(unittest.TestCase):
    def test_a_life_is_read_and_a_line_that_was_cut_off_does_not_count(self):
        text = "alive 100\nrestarts 101 4\nbegin 120 7\ndurable 130 10\nalive 140\nerror 150 no slot\nalive 16"
        self.assertEqual(parse_life("node0.g3.r5.77", text),
                         Life("node0", 3, 5, 77, 100, 150, (120, 7), ((130, 10),), ("no slot",), 4))
        self.assertIsNone(parse_life("node0.g3.r5.77", "aliv"))

    def test_a_campaign_goes_on_where_it_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            self.assertEqual(read_verdicts(path), {})
            append(path, {"seed": 3, "passed": True})
            with open(path, "a", encoding="utf-8") as file:
                file.write('{"seed": 4, "pas')
            self.assertEqual(read_verdicts(path), {3: {"seed": 3, "passed": True}})
            append(path, {"seed": 4, "passed": False})
            append(path, {"seed": 5, "passed": True})
            self.assertEqual({seed: one["passed"] for seed, one in read_verdicts(path).items()},
                             {3: True, 4: False, 5: True})


if __name__ == "__main__":
    unittest.main()
