"""Checks that the slices of CI have every kind of fault, and that their waits are short. Runs no campaign."""
import pathlib
import random
import re
import unittest

import campaign_plan
import exactly_once_campaign
import hang_job
import hang_plan
import no_hang_campaign
import root_cause_campaign
import slices

CMAKE = (pathlib.Path(__file__).parent / "CMakeLists.txt").read_text()


def row_of(fault):
    """The number of the fault's row in the table of campaign_plan.py."""
    return next(number for number, (kind, targets, hows) in enumerate(campaign_plan.FAULTS)
                if fault.kind == kind and fault.target in targets and fault.how in hows)


class SlicesTest(unittest.TestCase):
    def test_random_faults_are_of_each_kind(self):
        drawn = {row_of(fault) for seed in slices.CAMPAIGN for fault in campaign_plan.make_plan(seed).faults}
        self.assertEqual(drawn, set(range(len(campaign_plan.FAULTS))))

    def test_hangs_are_of_each_kind_in_each_kind_of_program_on_one_node_and_two(self):
        plans = [hang_plan.draw(seed) for seed in slices.HANGS]
        faults = {plan["fault"] for plan in plans}
        for alike in ({"LockTwice", "SleepInLoading", "ReadFifo", "WaitForThread"}, {"WriteFrozen", "SaveFrozen"},
                      *({fault} for fault in ("StopItself", "LoopForEver", "SkipCollective", "MismatchedSize",
                                              "WaitForLoader"))):
            self.assertTrue(faults & alike, alike)
        self.assertEqual({plan["program"] for plan in plans}, set(hang_plan.PROGRAMS))
        self.assertEqual({plan["nodes"] for plan in plans}, {1, 2})
        # A hang in a later step takes 30 s with the default limits.
        self.assertEqual([plan["place"] for plan in plans if plan["limits"] == "auto"], ["first_step"])

    def test_what_does_not_hang_is_of_the_kinds_that_the_slice_names(self):
        situations = {no_hang_campaign.draw(seed)["situation"] for seed in slices.NO_HANGS}
        self.assertEqual(situations, {"debugger", "ctrl_z", "rendezvous_away", "clock_step", "moving_step"})

    def test_trainings_are_killed_in_each_way_at_each_point(self):
        kills, seed = map(int, re.search(r"--kills (\d+) --seed (\d+)", CMAKE).groups())
        plan = exactly_once_campaign.make_plan(random.Random(seed), kills)
        self.assertEqual({kind for *_, kind in plan}, {*exactly_once_campaign.KINDS, "node"})
        self.assertEqual({point for _, _, point, _, kind in plan if kind != "node"},
                         {"forming", "restore", "step", "save"})

    def test_each_root_cause_is_there(self):
        runs = int(re.search(r"--runs (\d+)", CMAKE).group(1))
        self.assertEqual(runs % len(root_cause_campaign.FAULTS), 0)

    def test_waits_that_no_machine_shortens_are_less_than_half_of_the_time(self):
        waits = sum(campaign_plan.make_plan(seed).end for seed in slices.CAMPAIGN)
        for seed in slices.HANGS:
            late = hang_plan.draw(seed)["place"] in ("before_init", "first_step")
            waits += hang_job.STARTUP_LIMIT if late else hang_job.LIMIT
        for seed in slices.NO_HANGS:
            long = no_hang_campaign.draw(seed)["situation"] in ("evaluation", "slow_save")
            waits += no_hang_campaign.FIRST_TIME if long else no_hang_campaign.LONGER
        self.assertLess(waits, 120)

    def test_seeds_are_a_range_or_those_of_ci(self):
        self.assertEqual(slices.seeds("3:5", (1,)), [3, 4, 5])
        self.assertEqual(slices.seeds("ci", (1, 7)), [1, 7])
        with self.assertRaises(ValueError):
            slices.seeds("5:3", (1,))


if __name__ == "__main__":
    unittest.main()
