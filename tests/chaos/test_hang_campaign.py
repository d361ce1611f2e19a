"""Tests the pure parts of hang_campaign.py and no_hang_campaign.py: plans, parsing of verdicts, and
no_hang_campaign.py's naive rule."""
import contextlib
import io
import unittest

import hang_campaign
import hang_plan
import no_hang_campaign

VERDICT = """ddprun 20:41:46.475 I the job hangs: no rank has moved for 5.4 s (limit 5 s) at step 11
ddprun 20:41:46.475 I rank 3 on n2 (pid 4242) is in disk wait (D) since 5.4 s; it is in read(/data/shard-0017)
ddprun 20:41:46.475 I   rank 3: WriteFrozen trainer.cc:88 → read(/data/shard-0017) in disk wait (D) since 5.4 s
ddprun 20:41:46.475 I 4 main trainer.cc:210 → Train
ddprun 20:41:46.475 I the workers are ended, and started again where a restart is left
rank 0 on n1 (pid 77) did something later
"""


class PlanTest(unittest.TestCase):
    def test_each_cell_comes_once_before_one_comes_again(self):
        for module, cell in ((hang_plan, ("fault", "place", "program")),
                             (no_hang_campaign, ("situation", "program", "nodes"))):
            count = len(module.CELLS)
            for first in (1, count + 1):
                drawn = [tuple(module.draw(seed)[name] for name in cell) for seed in range(first, first + count)]
                self.assertEqual(sorted(drawn), sorted(module.CELLS))

    def test_all_cells_come_within_the_seeds_that_are_run_by_default(self):
        self.assertLessEqual(len(hang_plan.CELLS), 200)
        self.assertLessEqual(len(no_hang_campaign.CELLS), 100)

    def test_every_fault_is_at_every_place_where_it_can_be(self):
        for fault in hang_plan.FAULTS:
            self.assertTrue(any(cell[0] == fault for cell in hang_plan.CELLS))
        self.assertIn(("SaveFrozen", "checkpoint", "module"), hang_plan.CELLS)
        self.assertNotIn(("SaveFrozen", "step", "cpp"), hang_plan.CELLS)
        self.assertNotIn(("SkipCollective", "before_init", "cpp"), hang_plan.CELLS)
        self.assertNotIn(("WaitForLoader", "step", "cpp"), hang_plan.CELLS)

    def test_a_seed_is_always_the_same_plan_and_one_in_five_is_given_no_limit(self):
        plans = [hang_plan.draw(seed) for seed in range(1, 201)]
        self.assertEqual(plans, [hang_plan.draw(seed) for seed in range(1, 201)])
        self.assertEqual(sum(plan["limits"] == "auto" for plan in plans), 40)
        for plan in plans:
            self.assertLess(plan["rank"], plan["nodes"] * hang_plan.WORKERS)

    def test_without_on_hang_only_programs_that_lose_nothing_are_restarted(self):
        def restarted(program, place, limits="auto"):
            return hang_plan.is_restarted({"program": program, "place": place, "limits": limits})
        self.assertTrue(restarted("unmodified", "step", "given"))
        self.assertTrue(restarted("cpp", "before_init"))
        self.assertTrue(restarted("module", "first_step"))
        self.assertFalse(restarted("module", "before_init"))
        self.assertFalse(restarted("wrapper", "step"))
        self.assertFalse(restarted("unmodified", "step"))


class VerdictTest(unittest.TestCase):
    def test_the_lines_of_a_verdict_end_before_what_is_done(self):
        verdict, action = hang_campaign.verdict_of("before\n" + VERDICT)
        self.assertEqual(action, hang_campaign.ENDED)
        self.assertTrue(verdict.startswith("no rank has moved for 5.4 s"))
        self.assertNotIn("later", verdict)
        self.assertEqual(hang_campaign.verdict_of("nothing")[1], "")

    def test_sentences_describe_the_ranks(self):
        self.assertEqual(hang_campaign.ranks_in(hang_campaign.verdict_of(VERDICT)[0]), [3])
        self.assertEqual(hang_campaign.ranks_in(
            "rank 2 on n1 (pid 5) entered all_reduce 3 (4 bytes); rank 0 on n1 (pid 4) entered all_reduce 3"), [2, 0])
        self.assertEqual(hang_campaign.ranks_in(
            "3 of 4 ranks are in init(); missing 1 on n1: rank 1 (pid 4242) started 15.0 s ago"), [1])


    def test_only_the_line_of_a_rank_describes_it(self):
        verdict = hang_campaign.verdict_of(VERDICT)[0]
        self.assertIn("WriteFrozen trainer.cc:88", hang_campaign.described(3, verdict))
        self.assertEqual(hang_campaign.described(4, verdict), "")

    def test_a_limit_that_nobody_has_set_is_wrong(self):
        self.assertEqual(hang_campaign.judge_limit("given", 5.0), {})
        self.assertEqual(hang_campaign.judge_limit("auto", 30.0), {})
        self.assertEqual(hang_campaign.judge_limit("auto", 15.0), {})
        self.assertIn("limit", hang_campaign.judge_limit("given", 30.0))
        self.assertIn("limit", hang_campaign.judge_limit("auto", 62.5))

    def test_a_mismatch_names_both_ranks_with_their_sizes(self):
        def wrong(text):
            plan = {"fault": "MismatchedSize", "rank": 1, "program": "module", "nodes": 2}
            return hang_campaign.judge_death(plan, {"rank": 1, "description": text})[0]
        odd = "rank 1 on n1 entered all_reduce 33 (12000 bytes)"
        self.assertEqual(wrong(f"rank 0 (pid 7) on n1: SIGABRT: {odd}; rank 0 on n1 and 2 other ranks entered "
                               "all_reduce 33 (8000 bytes): their calls do not match"), {})
        self.assertEqual(wrong("rank 1 on n1 (pid 4) entered all_reduce 3 (12000 bytes); rank 0 on n1 (pid 5) entered "
                               "all_reduce 3 (8000 bytes)"), {})
        self.assertIn("rank", wrong("rank 1 on n1: exit code 1"))
        self.assertIn("rank", wrong("rank 1 on n1: a peer entered a collective with different sizes"))
        self.assertIn("rank", wrong("ranks 0 and 1 entered a collective with different sizes"))
        self.assertIn("rank", wrong(odd))
        self.assertIn("rank", wrong("rank 2 on n1 entered all_reduce 3 (12000 bytes); rank 0 on n1 entered all_reduce 3 "
                                    "(8000 bytes)"))


class NaiveRuleTest(unittest.TestCase):
    @staticmethod
    def says(*seconds, began=None):
        nanoseconds = [int(1e9 * second) for second in seconds]
        return no_hang_campaign.naive_rule(nanoseconds, None if began is None else int(1e9 * began))

    def test_steps_that_take_about_as_long_as_those_before_are_no_hang(self):
        self.assertEqual(self.says(100, 100.1, 100.2, 100.9, 101.0), "")

    def test_a_step_longer_than_the_limit_is_one(self):
        self.assertEqual(self.says(100, 104.9), "")
        self.assertIn("5.1 s", self.says(100, 105.1))

    def test_a_step_ten_times_longer_than_those_before_is_one(self):
        self.assertIn("3.5 s", self.says(100, 100.1, 103.6))
        self.assertEqual(self.says(100, 100.4, 103.9), "")

    def test_the_start_counts_where_it_is_given(self):
        self.assertIn("8.0 s", self.says(108, 108.1, began=100))
        self.assertEqual(self.says(104, 104.1, began=100), "")

    def test_believed_it_fails_the_campaign(self):
        """With --naive, a slow step counts as a disturbed job."""
        records = [{"situation": "slow_step", "wrong": self.says(100, 100.1, 103.6)}]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertFalse(no_hang_campaign.show(records, None))
        self.assertIn("1 disturbed: {'slow_step': 1}", said.getvalue())


if __name__ == "__main__":
    unittest.main()
