#!/usr/bin/python3
"""The cost of taking the stacks of a node: for `ddprun stacks`, and for the processes that it stops meanwhile.

Sleeping workers: a job of 256 C++ programs with 5 threads each, under a rendezvous. `ddprun stacks` takes the stacks of
all of them: in turns by their pids, and by the name of the job (through rendezvous and agent). Only by pid does it
report how long it held each process.

Computing workers: two ranks train a perceptron of 3 M parameters with Python's DistributedDataParallel
over Gloo, one thread each, and write down when each step is done. `ddprun stacks` runs again and again with their pids.
A step counts as "during" if it overlaps a run of `ddprun stacks`. So the unwinding counts, too, although the processes
have been released by then.

usage: tests/bench/stacks_bench.py [--bin build/bin] [--workers 256] [--runs 5] [--dumps 50]
           [--only sleeping|computing]
Needs python3-torch for the computing workers. Exit code 1 if a bound is broken.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from marked_processes import marked_processes

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.join(HERE, "stacks_bench_worker.py")
LIMIT = 120  # seconds: reached only when something hangs
THREADS = 5
MARK = "STACKS_BENCH"
WARM_UP = 20  # steps


class Job:
    """ddprun and its workers, from the start until end()."""

    def __init__(self, argv, folder):
        self.log = os.path.join(folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log)

    def wait_for(self, what, look):
        """Polls `look` until it returns something, and returns that; exits at a timeout or if ddprun ends."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline and self.process.poll() is None:
            found = look()
            if found:
                return found
            time.sleep(0.5)  # polling takes CPU from workers that start
        self.end()
        with open(self.log, encoding="utf-8", errors="replace") as log:
            sys.exit(f"no {what}; ddprun has said:\n{log.read()[-3000:]}")

    def end(self):
        self.process.terminate()
        self.process.wait()


def threads_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        return 0


def sleepers(mark, count):
    """The pids of the workers; None until all of them run with all of their threads."""
    found = marked_processes("stack_probe", MARK, mark)
    return found if len(found) == count and all(threads_of(p) == THREADS for p in found) else None


def take(argv, ranks):
    """(begin, end, answer) of one `ddprun stacks`; ends the program if ranks are missing."""
    begin = time.monotonic()
    result = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=False)
    end = time.monotonic()
    if result.returncode != 0:
        sys.exit(f"ddprun stacks: exit code {result.returncode}\n{result.stderr[-2000:]}")
    answer = json.loads(result.stdout)
    seen = sum(frame["count"] for frame in answer["main"])
    if seen != ranks:
        sys.exit(f"ddprun stacks has the main threads of {seen} processes instead of {ranks}")
    return begin, end, answer


def by_pid(ddprun, pids):
    return [ddprun, "stacks", "--timeout", "60s", *(f"--pid={pid}" for pid in pids)]


def held_ms(answer):
    return [entry["us"] / 1000 for entry in answer["held"]]


def quantile(values, share):
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


class Bounds:
    def __init__(self):
        self.met = True

    def check(self, what, value, most, unit):
        good = value <= most
        self.met = self.met and good
        print(f"    {what:44} {value:8.2f} {unit:2}  <= {most:g}  {'PASS' if good else 'FAIL'}")


def print_held(held):
    print(f"    {'a process is held, ms':44} median {statistics.median(held):.2f}, "
          f"p99 {quantile(held, 0.99):.2f}, max {max(held):.2f} of {len(held)}")


def sleeping(arguments, ddprun, bounds):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DDPRUN_STATE_HOME"] = os.path.join(folder, "state")
        port = os.path.join(folder, "port")
        rendezvous = subprocess.Popen(
            [ddprun, "rendezvous", "--listen", "127.0.0.1:0", "--port-file", port],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            rendezvous.stdout.readline()  # it listens
            with open(port, encoding="ascii") as file:
                endpoint = f"127.0.0.1:{file.read().strip()}"
            os.environ[MARK] = mark = str(os.getpid())
            job = Job([ddprun, "--log-dir", folder, "--nproc-per-node", str(arguments.workers),
                       "--nnodes", "1", "--rdzv-endpoint", endpoint, "--rdzv-id", "bench",
                       "--rdzv-conf", "lease=60", "--",  # a busy machine starts workers slowly
                       os.path.join(os.path.abspath(arguments.bin), "stack_probe"), "threads",
                       str(THREADS - 1)], folder)
            pid_times, job_times, held = [], [], []
            try:
                pids = job.wait_for("workers", lambda: sleepers(mark, arguments.workers))
                for _ in range(arguments.runs):
                    begin, end, answer = take(by_pid(ddprun, pids), arguments.workers)
                    pid_times.append(end - begin)
                    held += held_ms(answer)
                    begin, end, _ = take([ddprun, "stacks", "bench", "--rdzv-endpoint", endpoint],
                                         arguments.workers)
                    job_times.append(end - begin)
            finally:
                job.end()
        finally:
            rendezvous.terminate()
            rendezvous.wait()
    print(f"{arguments.workers} sleeping workers of {THREADS} threads, {arguments.runs} times")
    print_held(held)
    print(f"    {'all, by pid, median':44} {statistics.median(pid_times):8.2f} s")
    print(f"    {'all, by job, median':44} {statistics.median(job_times):8.2f} s")
    bounds.check("all, by pid, slowest", max(pid_times), 3, "s")
    bounds.check("all, by job, slowest", max(job_times), 3, "s")
    bounds.check("a process is held, p99", quantile(held, 0.99), 5, "ms")


def content(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return None


def steps_of(path):
    """(begin, end) of each step after the warm-up."""
    with open(path, "rb") as file:
        whole = file.read()
    ends = [at for at, in struct.iter_unpack("d", whole[:len(whole) // 8 * 8])]
    return list(zip(ends, ends[1:]))[WARM_UP:]


def computing(arguments, ddprun, bounds):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    windows, held = [], []
    with tempfile.TemporaryDirectory() as folder:
        job = Job([ddprun, "--log-dir", folder, "--nproc-per-node", "2", "--", "/usr/bin/python3",
                   WORKER, folder], folder)
        try:
            pids = [int(job.wait_for("training", lambda: content(f"{folder}/{rank}.pid")))
                    for rank in range(2)]
            for _ in range(arguments.dumps):
                time.sleep(0.7)  # steps without a dump, to compare with
                begin, end, answer = take(by_pid(ddprun, pids), 2)
                windows.append((begin, end))
                held += held_ms(answer)
        finally:
            job.end()
        steps = [step for rank in range(2) for step in steps_of(os.path.join(folder, f"{rank}.steps"))]
    quiet, during = [], []
    for begin, end in steps:
        inside = any(begin < to and end > start for start, to in windows)
        (during if inside else quiet).append((end - begin) * 1000)
    usual = statistics.median(quiet)
    print(f"2 computing ranks, {arguments.dumps} times `ddprun stacks`, each "
          f"{statistics.median(to - start for start, to in windows) * 1000:.0f} ms")
    print_held(held)
    for what, times in ("step outside a dump, ms", quiet), ("step during a dump, ms", during):
        print(f"    {what:44} median {statistics.median(times):.1f}, p90 {quantile(times, 0.9):.1f}, "
              f"max {max(times):.1f} of {len(times)}")
    bounds.check("a process is held, p99", quantile(held, 0.99), 10, "ms")
    bounds.check("step during a dump / outside, medians", statistics.median(during) / usual, 1.3, "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dumps", type=int, default=50)
    parser.add_argument("--only", choices=["sleeping", "computing"])
    arguments = parser.parse_args()
    ddprun = os.path.abspath(os.path.join(arguments.bin, "ddprun"))
    bounds = Bounds()
    for name, measure in ("sleeping", sleeping), ("computing", computing):
        if arguments.only in (None, name):
            measure(arguments, ddprun, bounds)
            sys.stdout.flush()
    sys.exit(0 if bounds.met else 1)


if __name__ == "__main__":
    main()
