"""Tests the pure parts of failover_campaign.py: the plans, and the rules of its cuts."""
import unittest

import slices
from campaign_plan import NODES, SETTLE_S
from failover_campaign import make_plan
from failover_plan import (ETCD_FAULTS, FIRST_SEEDS, FULL_ETCD, LATER_TABLES, LEADER, MOMENTARY, NODE_FAULTS,
                           RENDEZVOUS_FAULTS, TABLES)
from failover_world import FailoverWorld

SEEDS = range(1, 501)


def rows(tables):
    return {(kind, target, how) for table in tables for kind, targets, hows in table
            for target in targets for how in hows}


class PlanTest(unittest.TestCase):
    def test_a_seed_is_always_the_same_plan(self):
        for seed in SEEDS:
            self.assertEqual(make_plan(seed), make_plan(seed))
        self.assertGreater(len({make_plan(seed) for seed in SEEDS}), 490)

    def test_every_fault_is_drawn(self):
        drawn = {(fault.kind, fault.target, fault.how) for seed in SEEDS for fault in make_plan(seed).faults}
        self.assertEqual(drawn, rows(LATER_TABLES))

    def test_the_first_seeds_have_no_full_etcd(self):
        drawn = {(fault.kind, fault.target, fault.how)
                 for seed in range(1, FIRST_SEEDS + 1) for fault in make_plan(seed).faults}
        self.assertFalse(drawn & rows([FULL_ETCD]))

    def test_each_seed_begins_with_a_fault_of_a_rendezvous(self):
        for seed in SEEDS:
            first = make_plan(seed).faults[0]
            self.assertIn((first.kind, first.target, first.how), rows([RENDEZVOUS_FAULTS]))

    def test_one_thing_of_a_node_is_broken_at_a_time(self):
        for seed in SEEDS:
            free = {}
            for fault in sorted(make_plan(seed).faults):
                if fault.target in NODES and fault.kind != "clock":
                    self.assertGreaterEqual(fault.at, free.get(fault.target, 0), f"seed {seed}")
                    free[fault.target] = round(fault.end + SETTLE_S, 2)

    def test_a_seed_is_over_within_20_seconds(self):
        self.assertLess(max(make_plan(seed).end for seed in SEEDS), 20)

    def test_every_fault_that_lasts_is_undone(self):
        for kind, _, _ in rows(LATER_TABLES):
            self.assertTrue(hasattr(FailoverWorld, "_begin_" + kind), kind)
            self.assertEqual(hasattr(FailoverWorld, "_end_" + kind), kind not in MOMENTARY, kind)


class SliceTest(unittest.TestCase):
    def test_ci_has_each_failover_and_faults_of_etcd_and_of_nodes(self):
        faults = [fault for seed in slices.FAILOVERS for fault in make_plan(seed).faults]
        of_leader = {(fault.kind, fault.how.split(" ")[0]) for fault in faults if fault.target == LEADER}
        self.assertGreaterEqual(of_leader, {("kill", "daemon"), ("power", ""), ("cut", "etcd"), ("cut", "agents")})
        for table in (ETCD_FAULTS, NODE_FAULTS):
            self.assertTrue(any((fault.kind, fault.target, fault.how) in rows([table]) for fault in faults))
        self.assertLess(sum(make_plan(seed).end for seed in slices.FAILOVERS), 15)


if __name__ == "__main__":
    unittest.main()
