#!/usr/bin/python3
"""The time from a worker's death until all ranks have finished their next training step.

A job of two workers loses its last rank (SIGKILL) again and again. The contenders are
    C++ in place        ddprun --warm recovery_worker: the other worker stays, a standby takes the place
                        of the dead one
    C++ warm            ddprun --warm --in-place-timeout 0 recovery_worker: two standbys take both places
    C++ cold            ddprun --in-place-timeout 0 recovery_worker
    Python preloaded    ddprun --warm --preload torch,... recovery_worker.py: two standbys, all forked
    Python cold         ddprun recovery_worker.py
    torchrun            python3 -m torch.distributed.run --monitor-interval 0.1 recovery_worker.py
They alternate in one run: each is started, loses a worker --kills times, and is ended. This is repeated --rounds times.
All train MNIST's net over Gloo, and restore model and optimizer. C++ restores from a snapshot in memory that
ddp::Checkpointer makes. Python restores from a file of torch.save that every rank loads. A kill comes after the first
step of all ranks, and only when all standbys of the contender wait: the benchmark measures a restart with everything
ready. While standbys load, the workers sleep after each step, so that the standbys are ready soon. The workers stop
sleeping 0.3 s before the kill. ettr_bench.py kills at any time, also while standbys load. A last contender,
    C++ newcomer        ddprun --warm --nnodes 1:2 recovery_worker, on two simulated nodes with a worker each
has no kills: a second node joins the running job, --kills times in each round. Its figure is how long the training
stands still: from the first node's last step without the newcomer to the first step that both have finished.

The table has the median and the extremes of each, how much longer torchrun's median is, the slowest kill as a multiple
of the median, and the most steps that one kill made the job repeat. Below each row are the medians of the phases of
ddprun's restarts, in ms. `detection` is the rest of the time: from the kill until the agent notices the death.
Then each goal is printed, with what was measured. The exit code is 1 if a goal is missed.

With --ranks 8, or another number than 2, only `C++ in place` and `C++ warm` run. With --memory each worker takes this
much memory (MB).

usage: tests/bench/recovery_bench.py [--bin build/bin] [--rounds 4] [--kills 5] [--ranks 2]
       [--memory 0] [--only NAME,...] [--results FILE]
With --results the figures are also stored in FILE, and earlier figures in FILE count too. Needs python3-torch.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import recovery_jobs

NEWCOMER = "C++ newcomer"
MANY_RANKS = ("C++ in place", "C++ warm")  # what runs with another --ranks than 2
PAUSE = 0.3  # seconds of undisturbed steps before a kill


class Job(recovery_jobs.Job):
    """A launcher with its workers. `argv` decides how many standbys a restart waits for, and uses up."""

    def __init__(self, argv, folder, ranks):
        super().__init__(argv, folder)
        self.ranks = ranks
        warm = "--warm" in argv
        stays = warm and "--in-place-timeout" not in argv and "--preload" not in argv
        self.standbys = ranks if warm else 0
        self.used = 1 if stays else self.standbys  # by each kill
        self.forked = self.standbys if "--preload" in argv else 0  # the first workers: forked as well

    def steps(self):
        """{generation: {rank: [(number, time in ns, pid), ...]}} of all finished steps"""
        found = {}
        for line in self.lines():
            if line[0] == "step":
                number, at, generation, rank, pid = map(int, line[1:])
                found.setdefault(generation, {}).setdefault(rank, []).append((number, at, pid))
        return found

    def generation_of(self, ranks, after=-1):
        """Waits until `ranks` ranks have finished a step in one generation after `after`. Returns its number."""
        def newest():
            found = self.steps()
            complete = [generation for generation, by_rank in found.items()
                        if len(by_rank) == ranks and generation > after]
            return [max(complete)] if complete else None  # a list: generation 0 is a result too
        return self.wait_for("first step", newest)[0]

    def standbys_wait(self, kills):
        waits = sum(line.endswith("waits") for line in self.output().splitlines())
        return waits >= self.forked + self.standbys + self.used * kills

    def be_slow(self, slow):
        """Whether the workers sleep after each step."""
        if slow:
            open(self.path + ".slow", "wb").close()
        elif os.path.exists(self.path + ".slow"):
            os.remove(self.path + ".slow")

    def kill_one(self, kills):
        """Kills the last rank; `kills` were before. Returns (ms to the next step of all ranks, steps repeated)."""
        generation = self.generation_of(self.ranks)
        if self.standbys:
            self.be_slow(True)
            self.wait_for("standby", lambda: self.standbys_wait(kills))
            self.be_slow(False)
        time.sleep(PAUSE)
        victim = self.steps()[generation][self.ranks - 1][-1][2]
        killed = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        after = self.generation_of(self.ranks, generation)
        return (first_step_end(self.steps()[after]) - killed) / 1e6, repeated(self.steps(), generation, after)


def first_step_end(by_rank):
    """When the last rank had finished its first step, in ns."""
    return max(steps[0][1] for steps in by_rank.values())


def repeated(steps, before, after):
    """How many steps are finished in the generation `after` although a rank had finished them before."""
    last = max(each[-1][0] for each in steps[before].values())
    first = min(each[0][0] for each in steps[after].values())
    return max(0, last - first + 1)


def contenders(arguments, folder):
    """name: argv of the launcher and its worker"""
    flags = ["-v", "--report", os.path.join(folder, "report.json")]
    found = recovery_jobs.contenders(arguments.bin, folder, "recovery_worker.py", arguments.kills,
                                     arguments.ranks, flags)
    if arguments.ranks != 2:
        return {name: found[name] for name in MANY_RANKS}
    return {**found, NEWCOMER: None}


def kill_again_and_again(arguments, name, folder):
    """One record for each kill: name, ms, steps repeated, and the phases that ddprun's report has."""
    job = Job(contenders(arguments, folder)[name], folder, arguments.ranks)
    try:
        figures = [job.kill_one(kills) for kills in range(arguments.kills)]
    finally:
        job.end()
    phases = [{}] * arguments.kills
    report = os.path.join(folder, "report.json")
    if os.path.exists(report):
        with open(report, encoding="utf-8") as file:
            phases = [entry["phases_ms"] for entry in json.load(file)["restart_times"]]
    return [{"name": name, "ranks": arguments.ranks, "ms": ms, "repeated": steps, "phases": seen}
            for (ms, steps), seen in zip(figures, phases)]


def join_again_and_again(arguments, folder):
    """One record for each newcomer."""
    binary = os.path.abspath(arguments.bin)
    port_file = os.path.join(folder, "port")
    with open(os.path.join(folder, "rendezvous"), "wb") as said:
        rendezvous = subprocess.Popen(
            [os.path.join(binary, "ddprun"), "rendezvous", "--listen", "127.0.0.1:0", "--port-file",
             port_file], stdout=said, stderr=said)
    try:
        while not (os.path.exists(port_file) and os.path.getsize(port_file)):
            time.sleep(0.01)
        with open(port_file, encoding="ascii") as file:
            port = int(file.read())

        def node(number):
            return [os.path.join(binary, "ddprun"), "-v", "--log-dir", os.path.join(folder, f"logs{number}"),
                    "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "bench", "--nnodes", "1:2",
                    "--rdzv-conf", "last_call_timeout=100ms", "--local-addr", f"127.0.1.{number}",
                    "--nproc-per-node", "1", "--warm", os.path.join(binary, "recovery_worker")]

        job = Job(node(1), folder, 1)
        try:
            return [take_in(job, node(2), folder) for _ in range(arguments.kills)]
        finally:
            job.end()
    finally:
        rendezvous.terminate()
        rendezvous.wait()


def take_in(job, argv, folder):
    """Starts a second node, waits until it trains, and ends it. Returns the record."""
    alone = job.generation_of(1)
    time.sleep(PAUSE)
    with open(os.path.join(folder, "newcomer"), "wb") as said:
        newcomer = subprocess.Popen([*argv, job.path], stdout=subprocess.DEVNULL, stderr=said)
    try:
        together = job.generation_of(2, alone)
        steps = job.steps()
        last = max(at for each in steps[alone].values() for _, at, _ in each)
        time.sleep(PAUSE)
    finally:
        newcomer.terminate()
        newcomer.wait()
    job.generation_of(1, together)
    return {"name": NEWCOMER, "ranks": 2, "ms": (first_step_end(steps[together]) - last) / 1e6,
            "repeated": repeated(steps, alone, together), "phases": {}}


def measure(arguments, name):
    with tempfile.TemporaryDirectory() as folder:
        if name == NEWCOMER:
            return join_again_and_again(arguments, folder)
        return kill_again_and_again(arguments, name, folder)


class Figures:
    """What the records of a contender come to."""

    def __init__(self, records):
        times = [record["ms"] for record in records]
        self.kills = len(times)
        self.median, self.least, self.most = statistics.median(times), min(times), max(times)
        self.spread = self.most / self.median
        self.repeated = max(record["repeated"] for record in records)
        self.phases = phases_of([record for record in records if record["phases"]])


def phases_of(records):
    """{phase: median in ms}; empty if ddprun reported none."""
    if not records:
        return {}
    names = list(records[0]["phases"])
    found = {name: statistics.median(r["phases"].get(name, 0) for r in records) for name in names}
    if "load" in found:  # else the agent does not see the first step
        rest = statistics.median(r["ms"] - sum(r["phases"].values()) for r in records)
        found = {"detection": rest, **found}
    return found


def show(figures):
    print(f"{'':18} {'kills':>5} {'median ms':>10} {'min':>8} {'max':>8} {'torchrun is slower by':>22} "
          f"{'max/median':>11} {'steps repeated':>15}")
    reference = figures.get("torchrun")
    for name, found in figures.items():
        ratio = f"{reference.median / found.median:.1f}x" if reference and name != NEWCOMER else ""
        print(f"{name:18} {found.kills:5} {found.median:10.1f} {found.least:8.1f} {found.most:8.1f} {ratio:>22} "
              f"{found.spread:11.2f} {found.repeated:15}")
        if found.phases:
            print("    " + ", ".join(f"{phase} {ms:.1f}" for phase, ms in found.phases.items()))


def goals(figures, ranks):
    """(what, measured, "<=" or ">=", bound) of each goal whose contenders were measured."""
    def times(slow, fast):
        return figures[slow].median / figures[fast].median

    def judged(what, names, measured, sign, bound):
        return [(what, measured(), sign, bound)] if all(name in figures for name in names) else []

    place, warm, cold, torchrun = "C++ in place", "C++ warm", "Python cold", "torchrun"
    if ranks != 2:
        return judged(f"{ranks} ranks: C++ warm / C++ in place", (place, warm), lambda: times(warm, place), ">=", 3)
    return [
        *judged("torchrun / C++ in place", (place, torchrun), lambda: times(torchrun, place), ">=", 30),
        *judged("C++ in place / C++ warm", (place, warm), lambda: times(place, warm), "<=", 0.7),
        *judged("C++ in place, steps repeated", (place,), lambda: figures[place].repeated, "<=", 1),
        *judged("torchrun / Python preloaded", ("Python preloaded", torchrun),
                lambda: times(torchrun, "Python preloaded"), ">=", 14),
        *judged("torchrun / Python cold", (cold, torchrun), lambda: times(torchrun, cold), ">=", 1.15),
        *judged("Python cold, slowest kill / median", (cold,), lambda: figures[cold].spread, "<=", 1.5),
        *judged("C++ newcomer, training stands still, ms", (NEWCOMER,), lambda: figures[NEWCOMER].median, "<=", 60),
    ]


def judge(found):
    """Prints each goal. True if none is missed."""
    kept = True
    for what, measured, sign, bound in found:
        good = measured <= bound if sign == "<=" else measured >= bound
        kept = kept and good
        print(f"    {what:40} {measured:7.2f}  {sign} {bound:<5} {'kept' if good else 'MISSED'}")
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--kills", type=int, default=5, help="of each contender in each round")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--memory", type=int, default=0, metavar="MB", help="that each worker takes")
    parser.add_argument("--results", default="")
    parser.add_argument("--only", default="", help="a name, or several with commas")
    arguments = parser.parse_args()
    recovery_jobs.set_environment()
    os.environ["RECOVERY_MEMORY_MB"] = str(arguments.memory)
    records = []
    if arguments.results and os.path.exists(arguments.results):
        with open(arguments.results, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    names = [name for name in contenders(arguments, "")
             if not arguments.only or name in arguments.only.split(",")]
    for _ in range(arguments.rounds):
        for name in names:
            fresh = measure(arguments, name)
            records += fresh
            if arguments.results:
                with open(arguments.results, "a", encoding="utf-8") as file:
                    file.writelines(json.dumps(record) + "\n" for record in fresh)
    records = [record for record in records if record["ranks"] == arguments.ranks]
    figures = {name: Figures([r for r in records if r["name"] == name]) for name in names}
    show(figures)
    return 0 if judge(goals(figures, arguments.ranks)) else 1


if __name__ == "__main__":
    sys.exit(main())
