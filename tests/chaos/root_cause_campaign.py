#!/usr/bin/python3
"""Does ddprun name the right root cause? Random faults in jobs of two and three agents.

Each run starts one rendezvous and two or three agents with two workers each, and waits until the job makes steps. Then
it makes one fault at a random moment on a random rank. The fault ends the job. The run compares the fault with the root
cause in every surviving agent's report. The agents' wall clocks are shifted by up to five seconds.

    fault     exit1   the worker is made to exit with code 1
              abort   SIGABRT to the worker
              kill    SIGKILL to the worker
              agent   SIGKILL to the agent

    workers   mnist   mnist_ddp on Gloo: it reports to its agent that a collective failed
              python  a PyTorch script that reports nothing (needs python3-torch)

usage: tests/chaos/root_cause_campaign.py [--runs 200] [--seed 1] [--workers mnist] [--bin build/bin]
Prints the result of each kind of fault; exits 1 if a root cause was wrong.
"""
import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

FAULTS = ("exit1", "abort", "kill", "agent")
WORKERS_PER_NODE = 2
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def wait_until(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.002)
    raise TimeoutError(what)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


class Run:
    """One job in a folder of its own, and one fault."""

    def __init__(self, arguments, rng, fault, folder):
        self.arguments = arguments
        self.rng = rng
        self.fault = fault
        self.folder = folder
        self.nodes = rng.choice((2, 3))
        self.victim = rng.randrange(self.nodes * WORKERS_PER_NODE)
        self.step = rng.randint(1, 12)  # the number of steps of the victim before the fault
        self.steps = os.path.join(folder, "steps")
        self.agents = []
        self.mark = f"campaign-{os.getpid()}-{folder}"

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self):
        if self.arguments.workers == "python":
            return ["/usr/bin/python3", os.path.join(ROOT, "tests/programs/python_worker.py"),
                    self.steps]
        return [os.path.join(self.arguments.bin, "mnist_ddp"), "--data",
                os.path.join(ROOT, "tests/data/mnist"), "--limit-train", "2000", "--epochs", "50",
                "--batch-size", "8", "--step-log", self.steps]

    def start(self):
        env = {**os.environ, "CAMPAIGN_MARK": self.mark,
               "DDPRUN_STATE_HOME": self.path("state_home")}
        ddprun = os.path.join(self.arguments.bin, "ddprun")
        port_file = self.path("port")
        self.daemon = subprocess.Popen(
            [ddprun, "rendezvous", "--listen", "127.0.0.1:0", "--port-file", port_file],
            stdout=subprocess.DEVNULL, stderr=open(self.path("daemon.err"), "wb"), env=env)
        wait_until(lambda: read(port_file), "the rendezvous does not listen")
        endpoint = "127.0.0.1:" + read(port_file).strip()
        for i in range(self.nodes):
            clock = {"LD_PRELOAD": os.path.join(self.arguments.bin, "wall_clock_offset.so"),
                     "WALL_CLOCK_OFFSET_MS": str(self.rng.randint(-5000, 5000))}
            self.agents.append(subprocess.Popen(
                [ddprun, "--rdzv-endpoint", endpoint, "--rdzv-id", "job",
                 "--nnodes", str(self.nodes), "--nproc-per-node", str(WORKERS_PER_NODE),
                 "--rdzv-conf", "join_timeout=1", "--log-dir", self.path(f"logs{i}"), "--report",
                 self.path(f"report{i}.json"), "--"] + self.command(),
                stdout=subprocess.DEVNULL, stderr=open(self.path(f"agent{i}.err"), "wb"),
                env={**env, **clock}))
            joined = f"joined with {WORKERS_PER_NODE} workers"
            wait_until(lambda n=i: read(self.path("daemon.err")).count(joined) > n, "no join")

    def worker_pid(self):
        """The victim's pid: the process with its rank that leads a process group."""
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
                if (f"CAMPAIGN_MARK={self.mark}".encode() in environment
                        and f"RANK={self.victim}".encode() in environment
                        and os.getpgid(int(name)) == int(name)):
                    return int(name)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return 0

    def make_fault(self):
        log = os.path.join(self.steps, f"rank{self.victim}.log")
        wait_until(lambda: read(log).count("\n") >= self.step, f"{log}: no step {self.step}")
        time.sleep(self.rng.uniform(0, 0.03))  # a random moment within a step
        if self.fault == "agent":
            os.kill(self.agents[self.victim // WORKERS_PER_NODE].pid, signal.SIGKILL)
            return
        pid = wait_until(self.worker_pid, "no such worker")
        if self.fault == "exit1":
            subprocess.run([os.path.join(self.arguments.bin, "force_exit"), str(pid), "1"],
                           check=True)
        else:
            os.kill(pid, signal.SIGABRT if self.fault == "abort" else signal.SIGKILL)

    def verdict(self):
        """None if every report is right; otherwise what is wrong."""
        victims_node = self.victim // WORKERS_PER_NODE
        for i, agent in enumerate(self.agents):
            agent.wait(timeout=60)
            if self.fault == "agent" and i == victims_node:
                continue
            text = read(self.path(f"report{i}.json"))
            if not text:
                return f"agent {i} wrote no report"
            cause = json.loads(text)["root_cause"]
            if cause is None:
                return f"agent {i} names no root cause: {text}"
            if self.fault == "agent":
                right = (cause["kind"], cause["node_rank"]) == ("node_lost", victims_node)
            else:
                how = {"exit1": (1, None), "abort": (None, "SIGABRT"), "kill": (None, "SIGKILL")}
                right = (cause["kind"] == "worker_failed" and cause["rank"] == self.victim
                         and (cause["exit_code"], cause["signal"]) == how[self.fault])
            if not right:
                return (f"{self.fault} of rank {self.victim} (node {victims_node}), but agent {i} "
                        f"says: {cause['description']}")
        return None

    def end(self):
        for process in self.agents + [self.daemon]:
            if process.poll() is None:
                process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", choices=("mnist", "python"), default="mnist")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    arguments = parser.parse_args()
    right = collections.Counter()
    total = collections.Counter()
    for i in range(arguments.runs):
        seed = arguments.seed * 1_000_003 + i
        rng = random.Random(seed)
        fault = FAULTS[i % len(FAULTS)]
        with tempfile.TemporaryDirectory(prefix="ddprun-campaign-",
                                         ignore_cleanup_errors=True) as folder:
            run = Run(arguments, rng, fault, folder)
            try:
                run.start()
                run.make_fault()
                problem = run.verdict()
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                problem = f"{fault}: {error}"
            finally:
                run.end()
        total[fault] += 1
        right[fault] += problem is None
        if problem:
            print(f"run {i} (seed {seed}): {problem}", flush=True)
    print(f"{arguments.workers} workers, seed {arguments.seed}")
    for fault in FAULTS:
        print(f"  {fault:6} {right[fault]:4} of {total[fault]:4} right")
    sys.exit(0 if right == total else 1)


if __name__ == "__main__":
    main()
