#!/usr/bin/python3
"""How long one agent takes to start and to stop very many workers, and what memory it needs.

Runs `ddprun --nproc-per-node 256 /bin/sleep 1000`. "start" is the time from exec of ddprun until the last worker runs.
"stop" is the time from SIGTERM to ddprun until ddprun has ended; then no worker may be left. The floor is a loop in the
same run that forks and executes the same program equally often.

usage: tests/bench/many_workers_bench.py [--ddprun build/bin/ddprun] [--workers 256] [--runs 3]
"""
import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time

from marked_processes import marked_processes

MARK = "MANY_WORKERS_BENCH"


def sleepers(mark):
    """Pids of the workers: processes with the mark that execute sleep."""
    return marked_processes("sleep", MARK, mark)


def peak_memory_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmHWM"].split()[0]) / 1024


def measure(ddprun, workers, mark):
    with tempfile.TemporaryDirectory() as logs:
        begin = time.perf_counter()
        agent = subprocess.Popen(
            [ddprun, "--log-dir", logs, "--nproc-per-node", str(workers), "/bin/sleep", "1000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, MARK: mark})
        while len(sleepers(mark)) < workers:
            if time.perf_counter() - begin > 60:
                raise TimeoutError("the workers did not start")
        start = time.perf_counter() - begin
        memory = peak_memory_mib(agent.pid)
        begin = time.perf_counter()
        agent.send_signal(signal.SIGTERM)
        agent.wait()
        stop = time.perf_counter() - begin
        left = sleepers(mark)
        if left:
            raise RuntimeError(f"left running: {left}")
        return start, stop, memory


def floor(workers):
    begin = time.perf_counter()
    processes = [subprocess.Popen(["/bin/sleep", "1000"]) for _ in range(workers)]
    elapsed = time.perf_counter() - begin
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
    return elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ddprun", default="build/bin/ddprun")
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    results = [measure(arguments.ddprun, arguments.workers, f"{os.getpid()}-{i}")
               for i in range(arguments.runs)]
    start, stop, memory = (statistics.median(column) for column in zip(*results))
    print(f"{arguments.workers} workers: start {start * 1000:.0f} ms, stop {stop * 1000:.0f} ms, "
          f"peak memory of the agent {memory:.1f} MiB "
          f"(floor: fork and exec alone {floor(arguments.workers) * 1000:.0f} ms)")


if __name__ == "__main__":
    main()
