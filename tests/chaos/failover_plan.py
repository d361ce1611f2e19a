"""The plan of a seed of failover_campaign.py: its faults and their times. Pure: a seed has the same plan on every
machine.

A plan names heads by their roles (leader, standby), because the roles change with each failover. The campaign looks up
which head has the role when the fault begins.
"""
import random
from typing import NamedTuple

from campaign_plan import FIRST_S, NODES, SETTLE_S, Fault

HEADS = ("head0", "head1", "head2")  # each with a member of etcd and a rendezvous
LEADER, STANDBY = "leader", "standby"  # roles of the rendezvous
ETCD_LEADER, ETCD_FOLLOWER = "etcd-leader", "etcd-follower"
WAYS = ("both", "from", "to")


def of(what):
    return tuple(f"{what} {way}" for way in WAYS)


# Each row of a table has the same probability. A row: the kind of fault, its possible targets, and how it is done.
# "from": packets from the target are lost; "to": packets to the target are lost.
RENDEZVOUS_FAULTS = (
    ("kill", (LEADER,), ("daemon",)),
    ("stop", (LEADER,), ("daemon",)),
    ("end", (LEADER,), ("daemon",)),  # SIGTERM: it hands over
    ("power", (LEADER,), ("",)),  # first its link is dead, then all its processes
    ("cut", (LEADER,), of("etcd")),  # cuts the rendezvous off from all members of etcd
    ("cut", (LEADER,), of("heads")),  # cuts the host, with its member of etcd, off from the other heads
    ("cut", (LEADER,), of("agents")),
    ("cut", (LEADER,), of("all")),
    ("kill", (STANDBY,), ("daemon",)),
    ("stop", (STANDBY,), ("daemon",)),
    ("end", (STANDBY,), ("daemon",)),
    ("power", (STANDBY,), ("",)),
    ("cut", (STANDBY,), of("heads")),  # it cannot see that the leader lives
)
ETCD_FAULTS = (
    ("kill", (ETCD_LEADER, ETCD_FOLLOWER), ("etcd",)),
    ("stop", (ETCD_LEADER, ETCD_FOLLOWER), ("etcd",)),
    ("cut", (ETCD_LEADER, ETCD_FOLLOWER), of("peers")),  # off from other members, not from clients
    ("power", (ETCD_LEADER,), ("",)),
    ("disk", (ETCD_LEADER, ETCD_FOLLOWER), ("",)),  # the disk of the member does not answer
    ("quorum", ("etcd",), ("",)),  # two of three members are stopped
    ("move", ("etcd",), ("",)),  # etcd's leader moves to the host of the rendezvous that leads
    ("compact", ("etcd",), ("",)),
)
# Only for seeds above FIRST_SEEDS: so the plans of the seeds up to FIRST_SEEDS do not change.
FULL_ETCD = (("space", ("etcd",), ("",)),)  # NOSPACE: etcd takes no write
FIRST_SEEDS = 300
NODE_FAULTS = (
    ("cut", NODES, WAYS),
    ("kill", NODES, ("worker0", "worker1")),
    ("kill", NODES, ("agent", "all")),  # all: the node loses its power
    ("stop", NODES, ("agent", "worker0")),
    ("clock", NODES + HEADS, ("-3600 s", "-2 s", "+2 s", "+3600 s")),
)
TABLES = (RENDEZVOUS_FAULTS, ETCD_FAULTS, NODE_FAULTS)
LATER_TABLES = (RENDEZVOUS_FAULTS, ETCD_FAULTS + FULL_ETCD, NODE_FAULTS)
WEIGHTS = (5, 2, 3)
MOMENTARY = ("clock", "move", "compact")
# Shorter than the time to notice a fault; than a lease; than a leader's validity; and longer.
SPANS_S = ((0.1, 0.7), (0.7, 2.5), (2.5, 6.0))


class Plan(NamedTuple):
    nnodes: str
    validities: tuple  # --leader-validity of each head, in s
    faults: tuple

    @property
    def end(self):
        return max((fault.end for fault in self.faults), default=0.0)

    def __str__(self):
        return "\n".join([f"--nnodes {self.nnodes}, --leader-validity {self.validities} s", *map(str, self.faults)])


def make_plan(seed):
    """The first fault is one of the rendezvous. Any number of faults may overlap, but only one on each node."""
    rng = random.Random(seed)
    tables = TABLES if seed <= FIRST_SEEDS else LATER_TABLES
    nnodes = rng.choice(("3", "2:3"))
    validities = rng.choice(((5, 5, 5), (5, 5, 5), (5, 6, 7), (7, 5, 6)))
    faults, busy, at = [], {}, FIRST_S
    for number in range(rng.randint(3, 5)):
        at = round(at + rng.uniform(0.1, 2.0), 2)
        table = rng.choices(tables, WEIGHTS)[0] if number else RENDEZVOUS_FAULTS
        kind, targets, hows = rng.choice(table)
        target, how = rng.choice(targets), rng.choice(hows)
        seconds = 0.0 if kind in MOMENTARY else round(rng.uniform(*rng.choice(SPANS_S)), 2)
        if target in NODES and kind != "clock":
            at = max(at, busy.get(target, 0.0))
            busy[target] = round(at + seconds + SETTLE_S, 2)
        faults.append(Fault(at, kind, target, how, seconds))
    return Plan(nnodes, validities, tuple(faults))
