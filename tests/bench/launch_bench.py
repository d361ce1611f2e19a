#!/usr/bin/python3
"""How long a launcher takes to start and end a job of two workers that do nothing.

It measures the whole process, from exec to exit, of
    ddprun   --nproc-per-node 2 /bin/true
    torchrun --nproc-per-node 2 --no-python /bin/true   with --monitor-interval 0.1 and its default
They alternate in one run; torchrun with its default runs only three times. Prints the median and the extremes of each,
and the ratio. Peak memory is that of the launcher's own process.

Then it measures in the same way how long --workers Python workers take to start: from exec of
    ddprun --preload torch launch_worker.py, ddprun launch_worker.py, torchrun launch_worker.py
until the last worker has imported torch and made a process group. Last, it shows the memory of one standby of
ddprun --warm --preload torch: its private memory, and its private memory with its share of shared memory (Pss).

usage: tests/bench/launch_bench.py [--ddprun build/bin/ddprun] [--runs 10] [--starts 5] [--workers 8]
       tests/bench/launch_bench.py --before OTHER_DDPRUN [--ddprun ...] [--runs 200]
Needs python3-torch for /usr/bin/torchrun. With --before it only compares the launch with the launch of another build,
for example of the commit before a change. The builds alternate. Prints the medians and the lowest tenths, and their
ratios.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch_worker.py")


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


def measure_launches(arguments, logs):
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


def compare_launches(arguments, logs):
    """The builds alternate. Which one is first alternates too: the second one finds warmer caches."""
    argv = {name: [program, "--log-dir", logs, "--nproc-per-node", "2", "/bin/true"]
            for name, program in (("before", arguments.before), ("now", arguments.ddprun))}
    times = {name: [] for name in argv}
    for i in range(arguments.runs):
        for name in sorted(argv, reverse=i % 2 == 1):
            times[name].append(run(argv[name])[0])
    print(f"{'launch':10} {'median ms':>10} {'lowest tenth':>13} {'min':>8} {'max':>8}")
    medians, tenths = {}, {}
    for name in argv:
        ordered = sorted(times[name])
        medians[name] = statistics.median(ordered)
        tenths[name] = ordered[len(ordered) // 10]
        print(f"{name:10} {medians[name]:10.2f} {tenths[name]:13.2f} {ordered[0]:8.2f} {ordered[-1]:8.2f}")
    print(f"now / before: {medians['now'] / medians['before']:.3f} of the medians, "
          f"{tenths['now'] / tenths['before']:.3f} of the lowest tenths")


def start(argv, folder, workers):
    """Milliseconds from exec until every worker has made the process group."""
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    began = time.monotonic_ns()
    run([*argv, WORKER, folder])
    times = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="ascii") as file:
            times.append(int(file.read()))
    if len(times) != workers:
        sys.exit(f"{' '.join(argv)}: {len(times)} of {workers} workers have started")
    return (max(times) - began) / 1e6


def measure_starts(arguments, logs):
    with tempfile.TemporaryDirectory() as folder:
        count = str(arguments.workers)
        ddprun = [arguments.ddprun, "--log-dir", logs, "--nproc-per-node", count]
        contenders = {
            "ddprun --preload torch": ddprun + ["--preload", "torch"],
            "ddprun": ddprun,
            "torchrun, monitor interval 0.1 s": [
                arguments.torchrun, "--nproc_per_node", count, "--log_dir", logs, "-r", "1", "-t",
                "1", "--monitor_interval", "0.1"],
        }
        results = {name: [] for name in contenders}
        for _ in range(arguments.starts):
            for name, argv in contenders.items():
                results[name].append(start(argv, folder, arguments.workers))
    floor = statistics.median(results["ddprun --preload torch"])
    title = f"start of {count} Python workers"
    print(f"\n{title:34} {'median ms':>10} {'min':>8} {'max':>8} {'':6} {'× preload':>9}")
    for name, times in results.items():
        median = statistics.median(times)
        print(f"{name:34} {median:10.1f} {min(times):8.1f} {max(times):8.1f} {'':6} "
              f"{median / floor:9.1f}")


def memory_of(pid):
    """MiB: the process's private memory, and its Pss."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        found = dict(re.findall(r"^(\w+):\s+(\d+) kB", file.read(), re.M))
    own = int(found["Private_Clean"]) + int(found["Private_Dirty"])
    return own / 1024, int(found["Pss"]) / 1024


def show_standby_memory(arguments, logs):
    """Prints the memory of the last standby that is forked beside two workers."""
    argv = [arguments.ddprun, "-v", "--log-dir", logs, "--nproc-per-node", "2", "--warm", "--preload",
            "torch", WORKER, "--stay"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as job:
        waits = []
        while len(waits) < 4:  # two became the workers
            line = job.stderr.readline()
            if not line:
                sys.exit("ddprun has ended without standbys")
            waits += re.findall(r"standby \d+ \(pid (\d+)\) waits", line)
        time.sleep(1)  # a standby takes memory ahead once it has waited for a while
        own, pss = memory_of(waits[-1])
        job.terminate()
        job.communicate()
    print(f"\na standby with torch: {own:.1f} MiB of its own, {pss:.1f} MiB with its share (Pss)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ddprun", default="build/bin/ddprun")
    parser.add_argument("--torchrun", default="/usr/bin/torchrun")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--before", help="another build's ddprun, to compare the launch with")
    arguments = parser.parse_args()
    if arguments.before is None and not os.path.exists(arguments.torchrun):
        sys.exit(f"{arguments.torchrun} is missing: apt-get install python3-torch")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["PYTHON_EXEC"] = "/usr/bin/python3"  # this Python has torch
    with tempfile.TemporaryDirectory() as logs:
        if arguments.before is not None:
            compare_launches(arguments, logs)
            return
        measure_launches(arguments, logs)
        measure_starts(arguments, logs)
        show_standby_memory(arguments, logs)


if __name__ == "__main__":
    main()
