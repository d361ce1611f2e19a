"""The plans and the verdicts of exactly_once_campaign.py --points. Starts nothing."""
import random
import unittest

import exactly_once_points as points


def plan(point, count=100):
    return points.make_plan(random.Random(1), point, count)


class PlanTest(unittest.TestCase):
    def test_each_point_gets_all_its_deaths_and_rank_0_about_half(self):
        for point in points.POINTS:
            own = [death for death in plan(point) if not death.first]
            self.assertEqual({death.point for death in own}, {point})
            self.assertEqual(len(own), 100)
            self.assertTrue(50 <= sum(0 in death.ranks for death in own) < 80, point)

    def test_one_death_ends_each_generation(self):
        for point in (*points.POINTS, "mixed"):
            self.assertEqual([death.generation for death in plan(point)], list(range(len(plan(point)))))
            places = [fault[:2] for death in plan(point) for fault in death.faults]
            self.assertEqual(len(places), len(set(places)), "a rank has one fault in a generation")

    def test_a_job_does_not_end_because_it_makes_no_steps(self):
        for point in (*points.POINTS, "mixed"):
            in_a_row = 0
            for death in plan(point):
                steps = any(where in points.IN_A_STEP and count > 1 or where == "save"
                            for _, _, where, count, *_ in death.faults)
                in_a_row = 0 if steps else in_a_row + 1
                self.assertLess(in_a_row, 3, (point, death))

    def test_mixed_has_each_point_but_the_agents(self):
        self.assertEqual({death.point for death in plan("mixed", 9) if not death.first}, {*points.POINTS} - {"agent"})


class VerdictTest(unittest.TestCase):
    """Rank 1 dies in generation 0, after each rank has made a step."""

    DEATH = points.Death("forward", "forward", 0, (1,), [(0, 1, "forward", 2, "kill", 1)], False, True)
    BEFORE = ["life 0 0 10", "life 0 1 11", "life 0 2 12", "life 0 3 13", "fault 0 1 11 forward"]
    AFTER = ["life 1 0 10", "life 1 1 21", "life 1 2 12", "life 1 3 13"]
    STEPS = {(0, rank) for rank in range(4)}

    def judge(self, lines, dropped=None, death=DEATH, steps=frozenset(STEPS)):
        return points.judge(death, points.Lives(lines), steps, dropped or {})

    def test_a_death_that_costs_one_step_is_as_promised(self):
        verdict = self.judge(self.BEFORE + self.AFTER, {(0, 0): 1})
        self.assertEqual((verdict["survivors"], verdict["ended"], verdict["repeated"], verdict["problems"]),
                         ([0, 2, 3], [], 1, []))

    def test_it_sees_a_death_that_did_not_happen(self):
        self.assertEqual(self.judge(self.BEFORE[:4] + self.AFTER)["problems"],
                         ["rank 1 did not die in generation 0 at forward"])

    def test_it_sees_a_survivor_that_was_started_again(self):
        verdict = self.judge(self.BEFORE + self.AFTER[:3] + ["life 1 3 23"])
        self.assertEqual((verdict["ended"], len(verdict["problems"])), ([3], 1))

    def test_it_sees_a_second_step_that_is_made_again(self):
        self.assertEqual(self.judge(self.BEFORE + self.AFTER, {(0, 2): 2})["problems"], ["2 steps were repeated"])

    def test_without_a_process_on_the_node_of_rank_0_more_steps_are_made_again(self):
        both = self.DEATH._replace(ranks=(0, 1))
        self.assertEqual(self.judge(self.BEFORE + self.AFTER, {(0, 2): 3}, both)["problems"], [])
        self.assertEqual(len(self.judge(self.BEFORE + self.AFTER, {(0, 2): 4}, both)["problems"]), 1)

    def test_a_lost_node_costs_one_step(self):
        both = self.DEATH._replace(point="agent", ranks=(0, 1))
        self.assertEqual(len(self.judge(self.BEFORE + self.AFTER, {(0, 2): 2}, both)["problems"]), 1)

    def test_a_process_that_has_made_no_step_is_no_survivor(self):
        self.assertEqual(self.judge(self.BEFORE + self.AFTER, steps=self.STEPS - {(0, 3)})["survivors"], [0, 2])


if __name__ == "__main__":
    unittest.main()
