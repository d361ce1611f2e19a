#!/usr/bin/python3
"""The time from a worker's death until its replacement runs, under ddprun and under torchrun.

Rank 1 of two workers is killed (SIGKILL) again and again. Its replacement writes down the time at which it began to run
(restart_probe: the first line of main). Both workers end at once on SIGTERM, so the figure contains no grace. Both
launchers are measured in one run, one after the other. Prints the median and the extremes of each.

usage: tests/bench/restart_bench.py [--bin build/bin] [--restarts 10]
Needs python3-torch for /usr/bin/torchrun.
"""
import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time


def records(path):
    """(pid, start time in ns) of every start so far, of rank 1."""
    try:
        with open(path, encoding="ascii") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []
    return [(int(pid), int(start)) for rank, pid, start in lines if rank == "1"]


def wait_for(path, count):
    """The records, once there are `count` of them."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = records(path)
        if len(found) >= count:
            return found
        time.sleep(0.0005)
    sys.exit(f"no replacement within a minute; {path} has {records(path)}")


def measure(argv, path, restarts):
    """Milliseconds from SIGKILL of rank 1 to the start of its replacement, once per restart."""
    launcher = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    times = []
    try:
        for i in range(restarts):
            victim = wait_for(path, i + 1)[i][0]
            killed = time.monotonic_ns()
            os.kill(victim, signal.SIGKILL)
            started = wait_for(path, i + 2)[i + 1][1]
            times.append((started - killed) / 1e6)
    finally:
        launcher.terminate()
        launcher.wait()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--torchrun", default="/usr/bin/torchrun")
    parser.add_argument("--restarts", type=int, default=10)
    arguments = parser.parse_args()
    if not os.path.exists(arguments.torchrun):
        sys.exit(f"{arguments.torchrun} is missing: apt-get install python3-torch")
    probe = os.path.abspath(os.path.join(arguments.bin, "restart_probe"))
    with tempfile.TemporaryDirectory() as folder:
        budget = str(arguments.restarts + 1)
        flags = ["--nproc_per_node", "2", "--max_restarts", budget]
        # With Python 3.11 this torchrun crashes unless -r and -t are given.
        torchrun = [arguments.torchrun, *flags, "--log_dir", folder, "-r", "1", "-t", "1",
                    "--no_python", "--monitor_interval", "0.1"]
        ddprun = [os.path.join(arguments.bin, "ddprun"), "--log-dir", folder, *flags]
        print(f"{'launcher':34} {'median ms':>10} {'min':>8} {'max':>8}")
        for name, argv in (("ddprun", ddprun), ("torchrun, monitor interval 0.1 s", torchrun)):
            path = os.path.join(folder, name.split(",")[0])
            times = measure([*argv, probe, path], path, arguments.restarts)
            print(f"{name:34} {statistics.median(times):10.2f} {min(times):8.2f} {max(times):8.2f}")


if __name__ == "__main__":
    main()
