"""Checks the rules of campaign.py for a job. Pure: it needs only the records.

A process counts as having its rank from its first time stamp to its last: the thread that writes the stamps lives
exactly as long as the process can run an instruction. All stamps are of one machine's CLOCK_MONOTONIC.
"""
from typing import NamedTuple

GUARDIAN_GONE = 70  # the exit code of an agent whose guardian was killed


class Life(NamedTuple):
    """The record that a worker wrote of itself (tests/programs/campaign_worker.cc). Times are in ns."""
    host: str
    generation: int
    rank: int
    pid: int
    first: int
    last: int
    begin: tuple = None  # (time, step): when and from which step it continued
    durable: tuple = ()  # (time, step), ...
    errors: tuple = ()
    restarts: int = 0  # the restarts of the job, as its agent said

    def __str__(self):
        return f"rank {self.rank} of generation {self.generation} on {self.host} (pid {self.pid})"


class End(NamedTuple):
    """The end of a process that the campaign had started."""
    who: str
    code: int  # below 0: the number of a signal
    harmed: str  # what was done to it: "", what a fault of kind "kill" says, or "asked" to end
    last: bool = True  # false: it was started again


class Record(NamedTuple):
    lives: tuple
    ends: tuple
    left: tuple = ()  # things that should not be there
    late: tuple = ()  # limits that were missed


def parse_life(name, text):
    """`name`: HOST.gGENERATION.rRANK.PID. Ignores a last line that was cut off."""
    host, generation, rank, pid = name.rsplit(".", 3)
    times, begin, durable, errors, restarts = [], None, [], [], 0
    for line in text[:text.rfind("\n") + 1].splitlines():
        kind, time, *rest = line.split(" ", 2)
        times.append(int(time))
        if kind == "begin":
            begin = (int(time), int(rest[0]))
        elif kind == "durable":
            durable.append((int(time), int(rest[0])))
        elif kind == "error":
            errors.append(rest[0])
        elif kind == "restarts":
            restarts = int(rest[0])
    if not times:
        return None
    return Life(host, int(generation[1:]), int(rank[1:]), int(pid), min(times), max(times), begin,
                tuple(durable), tuple(errors), restarts)


def overlaps(lives):
    """Finds two processes that lived at the same time and had the same rank or different generations."""
    problems = []
    ordered = sorted(lives, key=lambda life: life.first)
    for i, later in enumerate(ordered):
        for earlier in ordered[:i]:
            together = (earlier.last - later.first) / 1e6
            if together >= 0 and (earlier.rank == later.rank or earlier.generation != later.generation):
                problems.append(f"overlap: {later} had begun {together:.1f} ms before {earlier} was gone")
    return problems


def lost_steps(lives):
    """Finds processes that continued below a step that was durable before they started."""
    problems = {}
    durable = sorted(made for life in lives for made in life.durable)
    for life in lives:
        before = [step for time, step in durable if time < life.first]
        if life.begin and before and life.begin[1] < max(before):
            problems.setdefault(life.generation, f"lost steps: {life} went on from step {life.begin[1]}, "
                                                 f"and step {max(before)} was durable before it started")
    return list(problems.values())


def backwards(lives):
    """Finds a lower generation, or fewer restarts, than earlier: a leader has forgotten what another leader did."""
    problems, newest = {}, None
    for life in sorted(lives, key=lambda life: life.first):
        if newest and (life.generation < newest.generation or life.restarts < newest.restarts):
            problems.setdefault(life.generation, f"backwards: {life} with {life.restarts} restarts began after {newest} "
                                                 f"with {newest.restarts}")
        else:
            newest = life
    return list(problems.values())


def wrong_ends(ends):
    allowed = {"": (0,), "asked": (0,), "agent": (-9,), "all": (-9,), "daemon": (-9,), "guardian": (GUARDIAN_GONE,)}
    problems = []
    for end in ends:
        if end.code not in allowed[end.harmed]:
            done = f"its {end.harmed} was killed" if end.harmed else "nobody had killed it"
            problems.append(f"wrong end: {end.who} ended with {end.code}, and {done}")
        elif end.last and end.code != 0:
            problems.append(f"wrong end: {end.who} ended with {end.code} and was not started again")
    return problems


def verdict(record):
    """The errors; empty: the seed passed."""
    return [
        *overlaps(record.lives),
        *lost_steps(record.lives),
        *backwards(record.lives),
        *wrong_ends(record.ends),
        *(f"{life}: {error}" for life in record.lives for error in life.errors),
        *(f"left: {what}" for what in record.left),
        *(f"late: {what}" for what in record.late),
    ]
