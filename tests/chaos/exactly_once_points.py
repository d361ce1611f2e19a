"""The deaths of exactly_once_campaign.py --points: at which point, and how many repeated steps they may cost. Starts
nothing.

A plan has many deaths in one job of two nodes with two workers each, all at one point:

  forward, backward, allreduce, optimizer   inside this part of a step (tests/programs/fault_points.cc)
  save       while a state gets its name; only ranks 0 and 2 write states
  restore    while a rank reads the state with which the next generation begins
  regroup    a second rank dies while the ranks leave their generation, or while they form the next one
  newcomer   the process that replaces a dead one dies too: when it starts, joins or restores
  two        two ranks are held at the same point of a step, and killed at once
  agent      an agent is killed, so that its node is lost with its workers, and sometimes with its disk
  mixed      all of these but `agent`, in turn

Every second death is of rank 0, or of its node. Some deaths come before the first step of their generation. Each of
them needs a generation with steps before it, so the plan has another death that ends that generation. This extra death
is marked `first`, and its verdict is recorded, too.
"""
import collections

RANKS_PER_NODE = 2
RANKS = 2 * RANKS_PER_NODE
IN_A_STEP = {"forward": 3, "backward": 3, "allreduce": 4, "optimizer": 10}  # how often it happens in each step
POINTS = (*IN_A_STEP, "save", "restore", "regroup", "newcomer", "two", "agent")
SNAPSHOT_EVERY = 2
KINDS = ("kill", "segv", "exit")

# faults: (generation, rank, point, count, kind, nth), as in the file FAULT_PLAN. `generation`: the one that the death
# ends. A node's death has the node's ranks in `ranks`; `keeps_disk` is about its disk.
Death = collections.namedtuple("Death", "point variant generation ranks faults first keeps_disk")


def node_of(rank):
    return rank // RANKS_PER_NODE


class Planner:
    def __init__(self, rng):
        self.rng = rng
        self.generation = 0
        self.deaths = []
        self.stepless = False  # the last generation made no step. A job ends after three of those in a row

    def add(self, point, variant, faults, ranks=None, first=False, keeps_disk=True):
        ranks = ranks or tuple(sorted({rank for _, rank, *_ in faults}))
        self.generation = max(generation for generation, *_ in faults)
        self.deaths.append(Death(point, variant, self.generation, ranks, faults, first, keeps_disk))
        self.generation += 1
        self.stepless = all(count == 1 and where in IN_A_STEP or where in ("start", "forming", "restore")
                            for _, _, where, count, *_ in faults)

    def in_a_step(self, rank, kind=None, point=None, earliest=1):
        point = point or self.rng.choice(tuple(IN_A_STEP))
        if self.stepless:
            earliest = max(earliest, 2)
        step = self.rng.randrange(earliest, 4 if earliest < 4 else earliest + 4)
        return (self.generation, rank, point, step, kind or self.rng.choice(KINDS),
                self.rng.randrange(1, IN_A_STEP[point] + 1))

    def first(self, rank):
        """A death in a step; the next generation is for another death. SIGKILL is no crash, so no pause follows."""
        fault = self.in_a_step(rank, "kill", earliest=2)
        self.add(fault[2], "first", [fault], first=True)
        return fault

    def other(self, rank):
        return self.rng.choice([other for other in range(RANKS) if other != rank])

    def die(self, point, number):
        rng = self.rng
        rank = 0 if number % 2 == 0 else rng.randrange(1, RANKS)
        if point in IN_A_STEP:
            self.add(point, point, [self.in_a_step(rank, point=point)])
        elif point == "save":
            rank = 0 if number % 2 == 0 else RANKS_PER_NODE
            self.add(point, point, [(self.generation, rank, "save", rng.randrange(1, 3), rng.choice(KINDS), 1)])
        elif point == "restore":
            self.first(rng.randrange(RANKS))
            self.add(point, point, [(self.generation, rank, "restore", 1, "kill", 1)])
        elif point == "regroup" and number % 4 < 2:
            one = self.in_a_step(self.other(rank), "kill", earliest=2)
            self.add(point, "leave", [one, (self.generation, rank, "leave", 1, "kill", 1)])
        elif point == "regroup":
            self.first(self.other(rank))
            self.add(point, "form", [(self.generation, rank, "forming", rng.randrange(1, 6), "kill", 1)])
        elif point == "newcomer":
            where = ("start", "forming", "restore")[number // 2 % 3]
            self.first(rank)
            count = rng.randrange(1, 6) if where == "forming" else 1
            self.add(point, where, [(self.generation, rank, where, count, "kill", 1)])
        elif point == "two":
            one = self.in_a_step(rank, "hold")
            # The first all-reduce is reached by every rank; later messages wait for the other rank.
            nth = 1 if one[2] == "allreduce" else one[5]
            faults = [(*one[:1], each, *one[2:5], nth) for each in sorted((rank, self.other(rank)))]
            self.add(point, one[2], faults)
        else:
            first = node_of(rank) * RANKS_PER_NODE
            rank = first + rng.randrange(RANKS_PER_NODE)
            # Late enough that the other node holds a snapshot, even if it has just replaced a lost one.
            fault = self.in_a_step(rank, "agent", earliest=8)
            self.add(point, fault[2], [fault], ranks=tuple(range(first, first + RANKS_PER_NODE)),
                     keeps_disk=rng.random() < 0.5)


def make_plan(rng, point, count):
    """`count` deaths at this point. Some points need another death first: the plan has these deaths too."""
    planner = Planner(rng)
    for number in range(count):
        planner.die(POINTS[number % (len(POINTS) - 1)] if point == "mixed" else point, number)
    return planner.deaths


def most_steps(deaths):
    """No job that has these deaths makes more steps before the last one."""
    most = 0
    for death in deaths:
        _, _, where, count, *_ = death.faults[0]
        if where == "save":
            most += SNAPSHOT_EVERY * (count + 2)  # the first snapshot may be late
        else:
            most += count + 1 if where in IN_A_STEP else 1
    return most


class Lives:
    """The file FAULT_LIVES: which process had which rank in which generation, and which faults happened."""

    def __init__(self, lines):
        self.pids = {}
        self.faults = collections.defaultdict(list)
        for line in lines:
            what, generation, rank, pid, *point = line.split()
            if what == "life":
                self.pids[int(generation), int(rank)] = int(pid)
            else:
                self.faults[int(generation)].append((int(rank), point[0]))


def survivors(death, lives, steps):
    """The ranks whose process must go on. A process that has not made a step yet is no survivor: it may still be one
    that is being started. `steps`: the (generation, rank) that made a step."""
    kept = []
    for rank in range(RANKS):
        pid = lives.pids.get((death.generation, rank))
        made = any(one == pid and (generation, rank) in steps
                   for (generation, of), one in lives.pids.items() if of == rank)
        if rank not in death.ranks and made:
            kept.append(rank)
    return kept


def judge(death, lives, steps, dropped):
    """The verdict of one death. `dropped`: for each (generation, rank) the number of steps that were made again."""
    problems = []
    for generation, rank, point, *_ in death.faults:
        if (rank, point) not in lives.faults[generation]:
            problems.append(f"rank {rank} did not die in generation {generation} at {point}")
    kept = survivors(death, lives, steps)
    ended = [rank for rank in kept
             if lives.pids.get((death.generation, rank)) != lives.pids.get((death.generation + 1, rank))]
    if ended:
        problems.append(f"the processes of ranks {ended} did not stay")
    repeated = max([dropped.get((death.generation, rank), 0) for rank in range(RANKS)])
    # Only a process on the node of rank 0 can make a snapshot of the last step, because the statistics of BatchNorm are
    # there (docs/fast-restarts.md). So training goes back to the last regular snapshot if no such process is left. The
    # jobs whose agents die use share_each_step.
    alone = {*range(RANKS_PER_NODE)} <= {*death.ranks} and death.point != "agent"
    allowed = SNAPSHOT_EVERY + 1 if alone else 1
    if repeated > allowed:
        problems.append(f"{repeated} steps were repeated")
    return {"point": death.point, "variant": death.variant, "generation": death.generation, "ranks": death.ranks,
            "first": death.first, "survivors": kept, "ended": ended, "repeated": repeated, "problems": problems}
