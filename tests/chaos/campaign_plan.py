"""The plan of a seed of campaign.py: its faults and their times. Pure: a seed has the same plan on every machine."""
import random
from typing import NamedTuple

NODES = ("node0", "node1", "node2")
DAEMON = "daemon"
DISKS = ("checkpoints", "logs")
FIRST_S = 0.5  # after the job is whole

# Each row has the same probability. A row: the kind of fault, its possible targets, and how it is done.
FAULTS = (
    ("cut", NODES, ("both", "from", "to")),
    ("cut", (DAEMON,), ("both", "from", "to")),
    ("stop", NODES, ("agent", "guardian")),
    ("stop", NODES, ("worker0", "worker1")),
    ("stop", (DAEMON,), ("daemon",)),
    ("kill", NODES, ("agent", "all")),  # all: the node loses its power
    ("kill", NODES, ("guardian",)),
    ("kill", NODES, ("worker0", "worker1")),
    ("kill", (DAEMON,), ("daemon",)),
    ("freeze", DISKS, ("",)),
    ("fill", DISKS, ("",)),
    ("clock", NODES + (DAEMON,), ("-3600 s", "-30 s", "-2 s", "+2 s", "+30 s", "+3600 s")),
)
# Shorter than a lease (3 s), about as long, and longer. The agent gives up on a stopped guardian after 10 s.
SPANS_S = ((0.1, 1.5), (1.5, 3.5), (3.5, 6.5))
SETTLE_S = 2.0  # before anything else happens to the same target


class Fault(NamedTuple):
    at: float  # seconds after the job is whole
    kind: str
    target: str  # a host or a disk
    how: str
    seconds: float  # until the fault is undone; for a kill, until the start of the process; for a clock, 0

    @property
    def end(self):
        return self.at + self.seconds

    def __str__(self):
        how = f" {self.how}" if self.how else ""
        return f"{self.at:6.2f} s: {self.kind} {self.target}{how}, {self.seconds:.2f} s"


class Plan(NamedTuple):
    nnodes: str
    snapshots: bool  # otherwise only checkpoints on disk survive a failure
    faults: tuple

    @property
    def end(self):
        return max((fault.end for fault in self.faults), default=0.0)

    def __str__(self):
        memory = "with" if self.snapshots else "without"
        return "\n".join([f"--nnodes {self.nnodes}, {memory} snapshots", *map(str, self.faults)])


def may_leave(nnodes, node, at, busy):
    """True if the job continues when this node leaves it. A node whose guardian was killed leaves the job, which
    continues only if MIN nodes remain at that moment. (If a node is lost, the job waits for another one.)"""
    return nnodes != "3" and all(end < at for target, end in busy.items() if target != node)


def make_plan(seed):
    """Two faults may overlap, but never on the same target: docs/internals/guardian.md says what remains if
    agent and guardian of one node are killed together ("all" ends the workers, too)."""
    rng = random.Random(seed)
    nnodes = rng.choice(("3", "2:3", "1:3"))
    snapshots = rng.random() < 0.5
    faults, busy, at = [], {}, FIRST_S
    for _ in range(rng.randint(4, 7)):
        at = round(at + rng.uniform(0.1, 2.5), 2)
        kind, targets, hows = rng.choice(FAULTS)
        target = rng.choice(targets)
        seconds = 0.0 if kind == "clock" else round(rng.uniform(*rng.choice(SPANS_S)), 2)
        if kind == "kill":
            seconds = round(seconds / 2, 2)
        # A clock may step while its host has another fault.
        at = max(at, busy.get(target, 0.0) if kind != "clock" else 0.0)
        how = rng.choice(hows)
        if (kind, how) == ("kill", "guardian") and not may_leave(nnodes, target, at, busy):
            how = "agent"
        fault = Fault(at, kind, target, how, seconds)
        faults.append(fault)
        if kind != "clock":
            busy[target] = round(fault.end + SETTLE_S, 2)
    return Plan(nnodes, snapshots, tuple(faults))


def calm_plan():
    """The plan for plants: one restart."""
    return Plan("3", False, (Fault(1.5, "kill", "node1", "worker0", 0.5),))
