#!/usr/bin/python3
"""The time from a worker's death until all ranks have finished their next training step.

One of two workers is killed (SIGKILL) again and again, under
    C++ in place        ddprun --warm recovery_worker: the other worker stays, a standby takes the place
                        of the dead one
    C++ warm            ddprun --warm --in-place-timeout 0 recovery_worker: two standbys take both places
    C++ cold            ddprun --in-place-timeout 0 recovery_worker
    Python preloaded    ddprun --warm --preload torch,... recovery_worker.py: two standbys, all forked
    Python cold         ddprun recovery_worker.py
    torchrun            python3 -m torch.distributed.run --monitor-interval 0.1 recovery_worker.py
They alternate in one run: each is started, loses a worker --kills times, and is ended. This is repeated --rounds times.
All train MNIST's net over Gloo, and restore model and optimizer. C++ restores from a snapshot in memory that
ddp::Checkpointer makes; Python restores from a file of torch.save that every rank loads. A kill comes after the first
step, and only when the standbys, if any, wait: the benchmark measures a restart with everything ready. ettr_bench.py
kills at any time, also while standbys load. The table has the median and the extremes of each, and how the median of
torchrun compares. Then it has the phases of ddprun's restarts, medians in ms. `detection` is the rest of the time: from
the kill until the agent notices the death.

usage: tests/bench/recovery_bench.py [--bin build/bin] [--rounds 3] [--kills 4] [--results FILE]
       [--only NAME]
With --results the figures are also stored in FILE, and earlier figures in FILE count too.
Needs python3-torch.
"""
import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PRELOAD = "torch,torch.distributed,torch.nn.parallel"
LIMIT = 60  # seconds: reached only when something hangs


class Job:
    """A launcher with two workers, from its start to its end."""

    def __init__(self, argv, folder, standbys):
        self.steps = os.path.join(folder, "steps")
        self.standbys, self.used = standbys
        self.waited = self.standbys if "--preload" in argv else 0  # the first workers: forked as well
        self.said = os.path.join(folder, "stderr")
        open(self.steps, "wb").close()
        with open(self.said, "wb") as err:
            self.launcher = subprocess.Popen([*argv, self.steps], stdout=subprocess.DEVNULL,
                                             stderr=err)

    def wait_for(self, what, done):
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            result = done()
            if result:
                return result
            if self.launcher.poll() is not None:
                break
            select.select([], [], [], 0.005)  # the workers write the measured times themselves
        with open(self.said, encoding="utf-8", errors="replace") as file:
            sys.exit(f"no {what}; the launcher has said:\n{file.read()[-3000:]}")

    def first_steps(self, generation):
        """(pid, time in ns) of both ranks by rank, once both have made a step."""
        with open(self.steps, encoding="ascii") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        found = {int(rank): (int(pid), int(at)) for g, rank, pid, at in lines
                 if int(g) == generation}
        return found if len(found) == 2 else None

    def standbys_wait(self, generation):
        with open(self.said, encoding="utf-8", errors="replace") as file:
            waits = sum(line.rstrip().endswith("waits") for line in file)
        return waits >= self.waited + self.standbys + self.used * generation

    def kill_one(self, generation):
        """Milliseconds from SIGKILL of rank 1 to both ranks' first step in the next generation."""
        before = self.wait_for("first step", lambda: self.first_steps(generation))
        if self.standbys:
            self.wait_for("standby", lambda: self.standbys_wait(generation))
        time.sleep(0.3)  # the workers are in the middle of their steps
        killed = time.monotonic_ns()
        os.kill(before[1][0], signal.SIGKILL)
        after = self.wait_for("first step", lambda: self.first_steps(generation + 1))
        return (max(at for _, at in after.values()) - killed) / 1e6

    def end(self):
        self.launcher.terminate()
        self.launcher.wait()


def contenders(arguments, folder):
    """name: (argv without the steps' file, (standbys, standbys that a kill uses up))"""
    binary = os.path.abspath(arguments.bin)
    budget = str(arguments.kills)
    cpp = [os.path.join(binary, "recovery_worker")]
    script = [os.path.join(HERE, "recovery_worker.py")]
    ddprun = [os.path.join(binary, "ddprun"), "-v", "--log-dir", os.path.join(folder, "logs"),
              "--nproc-per-node", "2", "--max-restarts", budget,
              "--report", os.path.join(folder, "report.json")]
    # With Python 3.11 this torchrun crashes unless -r and -t are given.
    torchrun = ["/usr/bin/python3", "-m", "torch.distributed.run", "--nproc_per_node", "2",
                "--max_restarts", budget, "--monitor_interval", "0.1", "-r", "1", "-t", "1",
                "--log_dir", folder]
    none_stays = ["--in-place-timeout", "0"]
    return {
        "C++ in place": (ddprun + ["--warm"] + cpp, (2, 1)),
        "C++ warm": (ddprun + ["--warm"] + none_stays + cpp, (2, 2)),
        "C++ cold": (ddprun + none_stays + cpp, (0, 0)),
        "Python preloaded": (ddprun + ["--warm", "--preload", PRELOAD] + script, (2, 2)),
        "Python cold": (ddprun + script, (0, 0)),
        "torchrun": (torchrun + script, (0, 0)),
    }


def measure(name, argv, standbys, folder, kills):
    """One record for each kill: name, ms, and the phases that ddprun's report has."""
    job = Job(argv, folder, standbys)
    try:
        times = [job.kill_one(generation) for generation in range(kills)]
    finally:
        job.end()
    phases = [{}] * kills
    report = os.path.join(folder, "report.json")
    if os.path.exists(report):
        with open(report, encoding="utf-8") as file:
            phases = [entry["phases_ms"] for entry in json.load(file)["restart_times"]]
    return [{"name": name, "ms": ms, "phases": seen} for ms, seen in zip(times, phases)]


def show(records, names):
    print(f"{'':18} {'kills':>5} {'median ms':>10} {'min':>8} {'max':>8} {'torchrun is slower by':>22}")
    by_name = {name: [r for r in records if r["name"] == name] for name in names}
    reference = statistics.median([r["ms"] for r in by_name.get("torchrun", [])] or [0])
    for name, found in by_name.items():
        if not found:
            continue
        times = [record["ms"] for record in found]
        median = statistics.median(times)
        print(f"{name:18} {len(times):5} {median:10.1f} {min(times):8.1f} {max(times):8.1f} "
              f"{reference / median:21.1f}×")
    for name, found in by_name.items():
        found = [record for record in found if record["phases"]]
        if not found:
            continue
        parts = [f"{phase} {statistics.median(r['phases'].get(phase, 0) for r in found):.1f}"
                 for phase in found[0]["phases"]]
        if "load" in found[0]["phases"]:  # else the agent does not see the first step
            rest = statistics.median(r["ms"] - sum(r["phases"].values()) for r in found)
            parts.insert(0, f"detection {rest:.1f}")
        print(f"{name}: {', '.join(parts)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--results", default="")
    parser.add_argument("--only", default="", help="a name, or several with commas")
    arguments = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["PYTHON_EXEC"] = "/usr/bin/python3"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    records = []
    if arguments.results and os.path.exists(arguments.results):
        with open(arguments.results, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    names = list(contenders(arguments, ""))
    for _ in range(arguments.rounds):
        for name in names:
            if arguments.only and name not in arguments.only.split(","):
                continue
            with tempfile.TemporaryDirectory() as folder:
                argv, standbys = contenders(arguments, folder)[name]
                fresh = measure(name, argv, standbys, folder, arguments.kills)
            records += fresh
            if arguments.results:
                with open(arguments.results, "a", encoding="utf-8") as file:
                    file.writelines(json.dumps(record) + "\n" for record in fresh)
    show(records, names)


if __name__ == "__main__":
    main()
