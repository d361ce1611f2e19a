#!/usr/bin/python3
"""How long a launcher takes to start and end a job of two workers that do nothing.

Whole process, from exec to exit, of
    ddprun   --nproc-per-node 2 /bin/true
    torchrun --nproc-per-node 2 --no-python /bin/true   with --monitor-interval 0.1 and its default
in one run, alternating; the median and the extremes of each, and the ratio. Peak memory is that of
the launcher's own process.

usage: tests/bench/launch_bench.py [--ddprun build/bin/ddprun] [--runs 10]
Needs python3-torch for /usr/bin/torchrun.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time


def run(argv):
    """Wall time in ms and peak memory in MiB of one process; ends the program when it fails."""
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        os.execvp(argv[0], argv)
    _, status, usage = os.wait4(pid, 0)
    elapsed = (time.perf_counter() - start) * 1000
    if status != 0:
        sys.exit(f"{' '.join(argv)} ended with status {status}")
    return elapsed, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ddprun", default="build/bin/ddprun")
    parser.add_argument("--torchrun", default="/usr/bin/torchrun")
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    if not os.path.exists(arguments.torchrun):
        sys.exit(f"{arguments.torchrun} is missing: apt-get install python3-torch")
    with tempfile.TemporaryDirectory() as logs:
        # With Python 3.11 this torchrun crashes unless -r and -t are given.
        torchrun = [arguments.torchrun, "--nproc_per_node", "2", "--log_dir", logs, "-r", "1", "-t",
                    "1", "--no_python"]
        contenders = {
            "ddprun": [arguments.ddprun, "--log-dir", logs, "--nproc-per-node", "2", "/bin/true"],
            "torchrun, monitor interval 0.1 s": torchrun + ["--monitor_interval", "0.1", "/bin/true"],
            "torchrun, default interval 5 s": torchrun + ["/bin/true"],
        }
        results = {name: [] for name in contenders}
        for i in range(arguments.runs):
            for name, argv in contenders.items():
                if "default" in name and i >= 3:
                    continue  # 6 s each, and always the same
                results[name].append(run(argv))
    floor = statistics.median(elapsed for elapsed, _ in results["ddprun"])
    print(f"{'launcher':34} {'median ms':>10} {'min':>8} {'max':>8} {'MiB':>6} {'× ddprun':>9}")
    for name, measured in results.items():
        times = [elapsed for elapsed, _ in measured]
        memory = max(mib for _, mib in measured)
        median = statistics.median(times)
        print(f"{name:34} {median:10.1f} {min(times):8.1f} {max(times):8.1f} {memory:6.1f} "
              f"{median / floor:9.1f}")


if __name__ == "__main__":
    main()
