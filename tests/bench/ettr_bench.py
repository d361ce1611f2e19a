#!/usr/bin/python3
"""How much of its training a job keeps while workers are killed again and again.

A job of two workers loses a random worker (SIGKILL) again and again. The gaps between the kills are drawn from an
exponential distribution with a mean of 30, 15 or 8 s. The contenders are
    C++ in place        ddprun --warm recovery_worker: the other worker stays
    C++ warm            ddprun --warm --in-place-timeout 0 recovery_worker
    C++ cold            ddprun --in-place-timeout 0 recovery_worker
    Python preloaded    ddprun --warm --preload torch,... ettr_worker.py
    Python cold         ddprun ettr_worker.py
    torchrun            python3 -m torch.distributed.run --monitor-interval 0.1 ettr_worker.py
All have the same seeds, and so the same times and ranks of the kills. A kill may come while workers start or standbys
load. If the chosen rank has no process at that moment, the other rank is killed. If neither rank has one, the kill
counts as missed. The C++ worker restores from snapshots in memory. The Python script reports nothing to its launcher,
and restores from files of torch.save.

The figure of a cell is the effective training time ratio:
    steps kept per second, from the first step to one mean gap after the last kill,
    over steps per second of an undisturbed run of the same contender.
A cell is one contender with one mean gap. A step that was rolled back and repeated counts once. Every step lasts
STEP_MS (80 ms), like a process that waits for its GPU. Otherwise the result would show the speed of the shared machine,
which changes by more than the compared differences.

The exit code is 1, with the reasons, in three cases: fewer than 15 kills hit in a cell (with fewer --kills: not all of
them), a contender is further behind torchrun than allowed_behind() says, or a figure is below LEAST.

usage: tests/bench/ettr_bench.py [--bin build/bin] [--gaps 30,15,8] [--kills 20] [--seed 1]
       [--undisturbed 30] [--results FILE] [--only NAME,...]
With --results each figure is appended to FILE at once, and figures already in FILE are not measured again: an
interrupted run continues where it stopped. A full run takes 87 minutes; --kills 4 --gaps 8 takes 6. Needs
python3-torch.
"""
import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time

import recovery_jobs

STEP_MS = 80  # about three times as long as a step computes on a slow core
MUST_HIT = 15  # kills in each cell; fewer are planned only for a short look


class Job(recovery_jobs.Job):
    """A launcher with two workers, from its start to its end."""

    def __init__(self, argv, folder):
        super().__init__(argv, folder, [str(STEP_MS)])

    def steps(self):
        """(number, time in ns) of each finished step"""
        return [(int(line[1]), int(line[2])) for line in self.lines() if line[0] == "step"]

    def wait_for_first_step(self):
        """Waits for the first step; returns when it was done, in ns."""
        return self.wait_for("step", self.steps)[0][1]

    def kill(self, rank):
        """Sends SIGKILL to the process of this rank, else of the other rank. False: neither has a process."""
        newest = {}
        for line in self.lines():
            if line[0] == "begin":
                newest[int(line[1])] = int(line[2])
        for each in (rank, 1 - rank):
            if each in newest and is_alive(newest[each]):
                os.kill(newest[each], signal.SIGKILL)
                return True
        return False

    def step_at(self, when):
        """The number of the last step that was finished at this time."""
        return [number for number, at in self.steps() if at <= when][-1]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def contenders(arguments, folder):
    """name: argv of the launcher and its worker"""
    return recovery_jobs.contenders(arguments.bin, folder, "ettr_worker.py", arguments.kills + 10)


def kill_plan(seed, gap, kills):
    """[(seconds from the first step, rank), ...]"""
    draw = random.Random(f"{seed} {gap}")
    at = 0.0
    plan = []
    for _ in range(kills):
        at += draw.expovariate(1 / gap)
        plan.append((at, draw.randrange(2)))
    return plan


def measure(argv, folder, plan, seconds):
    """(steps kept, kills that hit) of a job of this length."""
    job = Job(argv, folder)
    hits = 0
    try:
        began = job.wait_for_first_step()
        first = job.step_at(began)
        for at, rank in plan:
            time.sleep(max(0.0, began / 1e9 + at - time.monotonic()))
            job.check()
            hits += job.kill(rank)
        time.sleep(max(0.0, began / 1e9 + seconds - time.monotonic()))
        job.check()
        return job.step_at(began + int(seconds * 1e9)) - first, hits
    finally:
        job.end()


def cell(arguments, name, gap):
    """Runs one cell. gap None: without kills."""
    plan = kill_plan(arguments.seed, gap, arguments.kills) if gap else []
    seconds = plan[-1][0] + gap if gap else arguments.undisturbed
    with tempfile.TemporaryDirectory() as folder:
        kept, hits = measure(contenders(arguments, folder)[name], folder, plan, seconds)
    return {"name": name, "gap": gap, "seed": arguments.seed, "kills": len(plan),
            "missed": len(plan) - hits, "seconds": round(seconds, 1), "steps": kept}


def key(record):
    gap = record["gap"]
    return (record["name"], gap, *((record["seed"], record["kills"]) if gap else ()))


def ratios(arguments, records, names, gaps):
    """(name, gap): the figure of the cell; None: not measured."""
    found = {key(record): record for record in records}

    def ratio(name, gap):
        record = found.get((name, gap, arguments.seed, arguments.kills))
        calm = found.get((name, None))
        if record is None or calm is None:
            return None
        return (record["steps"] / record["seconds"]) / (calm["steps"] / calm["seconds"])

    return {(name, gap): ratio(name, gap) for name in names for gap in gaps}


LEAST = {("C++ in place", 15.0): 0.97, ("Python preloaded", 15.0): 0.95}  # whatever torchrun keeps


def allowed_behind(name, gap):
    """How far the figure may be below torchrun's. 0: it must be ahead."""
    if name != "Python cold" or gap == 15:
        return 0.0
    return 0.03 if gap > 15 else 0.07


def shortfalls(figures, records):
    """The missed bounds, one text each."""
    texts = []
    for (name, gap), figure in figures.items():
        least = LEAST.get((name, gap), 0.0)
        if figure is not None and figure < least:
            texts.append(f"{name}, {gap:g} s: {figure:.3f}, must be {least:.2f}")
        other = figures.get(("torchrun", gap))
        if name == "torchrun" or figure is None or other is None:
            continue
        behind, allowed = other - figure, allowed_behind(name, gap)
        if behind > allowed or (allowed == 0.0 and behind == 0.0):
            texts.append(f"{name}, {gap:g} s: {behind:.3f} behind torchrun, allowed {allowed:.2f}")
    for record in records:
        hits = record["kills"] - record["missed"]
        if record["gap"] and hits < min(MUST_HIT, record["kills"]):
            texts.append(f"{record['name']}, {record['gap']:g} s: {hits} of {record['kills']} kills "
                         f"hit, {min(MUST_HIT, record['kills'])} must")
    return texts


def show(records, figures, names, gaps):
    found = {key(record): record for record in records}
    print(f"{'':18} {'undisturbed':>14}" + "".join(f"{f'{gap:g} s':>10}" for gap in gaps))
    for name in names:
        calm = found.get((name, None))
        rate = f"{calm['steps'] / calm['seconds']:.1f} steps/s" if calm else ""
        print(f"{name:18} {rate:>14}"
              + "".join(f"{figure:10.3f}" if figure is not None else f"{'-':>10}"
                        for figure in (figures[name, gap] for gap in gaps)))
    missed = sum(record["missed"] for record in records)
    if missed:
        print(f"{missed} kills found no process of either rank")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--gaps", default="30,15,8", help="mean seconds between kills")
    parser.add_argument("--kills", type=int, default=20, help="planned in each cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--undisturbed", type=float, default=30, help="seconds")
    parser.add_argument("--results", default="")
    parser.add_argument("--only", default="", help="a name, or several with commas")
    arguments = parser.parse_args()
    recovery_jobs.set_environment()
    gaps = [float(gap) for gap in arguments.gaps.split(",")]
    names = [name for name in contenders(arguments, "")
             if not arguments.only or name in arguments.only.split(",")]
    records = []
    if arguments.results and os.path.exists(arguments.results):
        with open(arguments.results, encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
    done = {key(record) for record in records}
    for gap in [None, *gaps]:
        for name in names:
            wanted = (name, gap, *((arguments.seed, arguments.kills) if gap else ()))
            if wanted in done:
                continue
            record = cell(arguments, name, gap)
            records.append(record)
            print(json.dumps(record), flush=True)
            if arguments.results:
                with open(arguments.results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
    figures = ratios(arguments, records, names, gaps)
    show(records, figures, names, gaps)
    texts = shortfalls(figures, [record for record in records
                                 if record["name"] in names and record["gap"] in gaps
                                 and key(record)[2:] == (arguments.seed, arguments.kills)])
    print("\n".join(texts))
    return 1 if texts else 0


if __name__ == "__main__":
    sys.exit(main())
