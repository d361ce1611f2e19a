#!/usr/bin/python3
"""How long is a job without a rendezvous, when the leader is killed or its host loses power?

    tests/bench/failover_bench.py                          as root; 256 simulated agents, 30 rounds of each kind
    tests/bench/failover_bench.py --agents 4096 --channels 64 --rounds 5
    tests/bench/failover_bench.py --alone                  one rendezvous without etcd, for comparison

Each host is a network namespace. Three hosts, the *heads*, have a member of etcd and a `ddprun rendezvous --etcd` each.
Three more hosts have a real agent with two workers each. One host has the simulated agents (build/bin/failover_agents).
A round breaks the leading rendezvous:

    kill      kill -9
    power     its host's link is cut, then its processes are killed: no TCP reset gets out. etcd's leader is elsewhere
    both      like power, but etcd's leader is on the same host
    handover  SIGTERM

The benchmark measures the time until every simulated agent has an acknowledgement under the new term, and every real
agent has logged that it has heard the new leader. No worker may end: the benchmark counts the files of real workers,
and checks the messages to simulated agents. Then the host comes back, and the next round begins. Prints a table; exits
1 if a goal was missed. The table also has the CPU time of the next leader and of all simulated agents, in ms, because
here they share one machine. Real agents have hosts of their own.
"""
import argparse
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../chaos"))
# pylint: disable=wrong-import-position
from campaign import ROOT, why_impossible
from campaign_hosts import read, wait_until
from campaign_plan import NODES
from failover_campaign import lacks
from failover_plan import HEADS, Plan
from failover_world import FailoverWorld, rendezvous_of

CROWD = "crowd"  # the host of the simulated agents
LIMIT_S = 60  # for waits that usually take a second
POLL_S = 0.002
KINDS = {
    "kill": "kill -9 of the leader",
    "power": "power loss of its host, etcd's leader elsewhere",
    "both": "power loss of its host, etcd's leader on it",
    "handover": "SIGTERM to the leader",
}
# The goals for the median in ms: (up to 1,024 agents, more agents).
GOALS = {"kill": (200, 1000), "power": (1000, 2000), "both": (1500, 2000), "handover": (100, 1000)}


class Trouble(Exception):
    """The benchmark cannot go on."""


def now_ms():
    return time.monotonic_ns() / 1e6


def cpu_ms(pid):
    """The CPU time of this process so far: the kernel's clock of it (clock_getcpuclockid)."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e6


class Simulated:
    """The simulated agents, and their output."""

    def __init__(self, argv):
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self._lines = queue.SimpleQueue()
        self.seen = {"following": 0, "running": 0, "disturbed": 0}
        self.disturbances = []
        self.acknowledged = {"term": 0}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(json.loads(line))

    def _take(self):
        while not self._lines.empty():
            line = self._lines.get()
            if line["event"] == "acknowledged":
                self.acknowledged = line
            else:
                self.seen[line["event"]] += 1
                if line["event"] == "disturbed":
                    self.disturbances.append(line["what"])

    def until(self, done, what):
        def look():
            self._take()
            return done() or self._process.poll() is not None
        if not wait_until(look, LIMIT_S, POLL_S) or self._process.poll() is not None:
            raise Trouble(f"simulated agents: {what}: not within {LIMIT_S} s ({self.seen}, {self.disturbances[:3]})")

    def cpu_ms(self):
        return cpu_ms(self._process.pid)

    def close(self):
        self._process.terminate()
        self._process.wait()


class BenchWorld(FailoverWorld):
    hosts = HEADS + NODES + (CROWD,)
    disk_hosts = ()

    def __init__(self, folder, arguments):
        super().__init__(folder, 0, Plan("3", (5, 5, 5), ()), arguments.bin)
        self._arguments = arguments

    def rendezvous_options(self, head):
        return ["--tls-cert", self.path("certs", head + ".crt"), "--tls-key", self.path("certs", head + ".key")]

    def simulate(self):
        return Simulated(self.network.on(CROWD, [
            os.path.join(self.bin, "failover_agents"), "--endpoints", self.endpoints, "--job", "crowd",
            "--agents", str(self._arguments.agents), "--channels", str(self._arguments.channels),
            "--tls-ca", self.path("certs/ca.crt"), "--token-file", self.path("token")]))

    def log_sizes(self):
        return {node: os.path.getsize(self.path(node + ".err")) for node in NODES}

    def real_agents_back(self, sizes):
        """True: beyond these sizes, the log of each real agent says that it has heard the new leader."""
        return all("another rendezvous leads: term" in read(self.path(node + ".err"))[size:]
                   for node, size in sizes.items())

    def cpu_of_heads(self):
        """{head: CPU time of its rendezvous in ms}"""
        return {head: cpu_ms(pid) for head in HEADS for pid in self.find(rendezvous_of(head), "daemon")}

    def workers_restarted(self):
        return len(self.lives()) - 6

    # ---- rounds ----

    def steady(self):
        """Waits until every process runs and etcd has all members."""
        self.wait_for_all()
        if not self.wait(lambda: len(self.etcd.status()) == len(HEADS) and self.etcd.leader(), LIMIT_S, 0.1):
            raise Trouble("etcd is not whole")

    def break_leader(self, kind, leader):
        """Breaks the leader; returns when this began, in ms."""
        began = now_ms()
        if kind in ("power", "both"):
            self._begin_power(0, leader, "")
        elif kind == "kill":
            self._begin_kill(0, leader, "daemon")
        else:
            self._begin_end(0, leader, "daemon")
        return began

    def mend_leader(self, kind, leader):
        if kind in ("power", "both"):
            self._end_power(0, leader, "")
        else:
            self._end_kill(0, leader, "daemon")


def one_round(world, simulated, kind):
    """Breaks the leader once. Returns, in ms since the fault, when the first, the median and the last simulated agent
    had an acknowledgement, and when all real agents had heard the new leader. Also returns the CPU time of the next
    leader and of the simulated agents until then."""
    world.steady()
    leader = world.etcd.leader_key()["head"]
    if kind in ("power", "both"):
        member = leader if kind == "both" else next(head for head in HEADS if head != leader)
        if not world.wait(lambda: world.etcd.move_leader(member), 10, 0.2):
            raise Trouble(f"etcd's leader does not move to {member}")
        time.sleep(0.5)  # etcd has settled
    key, sizes, following = world.etcd.leader_key(), world.log_sizes(), simulated.seen["following"]
    if key["head"] != leader:
        raise Trouble(f"{leader} has lost the lead to {key['head']} before anything was done to it")
    heads_before, agents_before = world.cpu_of_heads(), simulated.cpu_ms()
    began = world.break_leader(kind, leader)
    real = []

    def done():
        if not real and world.real_agents_back(sizes):
            real.append(now_ms() - began)
        return real and simulated.acknowledged["term"] > key["term"]
    simulated.until(done, f"acknowledged after {kind}")
    agents_used, heads_after = simulated.cpu_ms() - agents_before, world.cpu_of_heads()
    used = max(after - heads_before[head] for head, after in heads_after.items() if head != leader)
    times = {what: simulated.acknowledged[what + "_ns"] / 1e6 - began for what in ("first", "median", "last")}
    world.mend_leader(kind, leader)
    simulated.until(lambda: simulated.seen["following"] > following or world.poll(), "following again")
    return {**times, "real": real[0], "all": max(real[0], times["last"]),
            "leader_cpu": used, "agents_cpu": agents_used}


def measure(arguments):
    """Returns {kind: results of its rounds}, how often workers ended, and the disturbances of simulated agents."""
    found = {kind: [] for kind in arguments.kinds}
    folder = tempfile.mkdtemp(prefix="ddprun-failover-")
    try:
        with BenchWorld(folder, arguments) as world:
            world.wait(lambda: world.etcd.leader_key(), LIMIT_S, 0.1)
            world.wait_for_whole()
            simulated = world.simulate()
            try:
                simulated.until(lambda: simulated.seen["running"] and simulated.seen["following"], "running")
                for number in range(arguments.rounds):
                    for kind in arguments.kinds:
                        found[kind].append(one_round(world, simulated, kind))
                        print(f"round {number + 1}: {kind}: "
                              + ", ".join(f"{what} {ms:.0f}" for what, ms in found[kind][-1].items()) + " ms",
                              file=sys.stderr, flush=True)
            finally:
                simulated.close()
            restarted = world.workers_restarted() + simulated.seen["disturbed"]
    finally:
        if arguments.keep:
            print(f"logs: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return found, restarted, simulated.disturbances


class AloneWorld(BenchWorld):
    """One rendezvous with a journal, without etcd."""
    servers = (rendezvous_of(HEADS[0]),)
    endpoints = property(lambda self: self.network.address(HEADS[0]) + ":29400")

    def command(self, name):
        if name in NODES:
            return super().command(name)
        return [self.ddprun, "rendezvous", "--listen", self.endpoints, "--token-file", self.path("token"),
                "--state-dir", self.path("state")]

    def lose_power(self):
        """Cuts the power of the rendezvous' host; returns when this began, in ms."""
        began = now_ms()
        self.network.unplug(HEADS[0])
        self._harmed[self.servers[0]] = "all"
        self.kill(self.network.pids(HEADS[0]))
        return began


def measure_alone(arguments):
    """Returns for each round when each worker wrote its last stamp, in ms since the power loss."""
    found = []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory(prefix="ddprun-failover-") as folder, AloneWorld(folder, arguments) as world:
            world.wait_for_whole()
            began = world.lose_power()
            wait_until(lambda: not any(world.find(node, worker) for node in NODES for worker in ("worker0", "worker1")),
                       LIMIT_S, 0.05)
            found.append([life.last / 1e6 - began for life in world.lives()])
    return found


def goal_of(kind, agents):
    return GOALS[kind][agents > 1024]


def table(found, restarted, agents):
    """The lines, and which goals were missed."""
    lines, missed = [f"{'what happens to the leader':<52} {'agents':>6} {'rounds':>6} {'median ms':>9} {'max ms':>7} "
                     f"{'first':>6} {'real':>6} {'CPU of leader':>13} {'of agents':>9} {'goal':>6}"], []
    for kind, rounds in found.items():
        whole = [one["all"] for one in rounds]
        median, goal = statistics.median(whole), goal_of(kind, agents)
        word = "PASS" if median <= goal else "FAIL"
        if word == "FAIL":
            missed.append(f"{KINDS[kind]}: {median:.0f} ms, at most {goal}")
        lines.append(f"{KINDS[kind]:<52} {agents:>6} {len(rounds):>6} {median:>9.0f} {max(whole):>7.0f} "
                     f"{statistics.median(one['first'] for one in rounds):>6.0f} "
                     f"{statistics.median(one['real'] for one in rounds):>6.0f} "
                     f"{statistics.median(one['leader_cpu'] for one in rounds):>13.0f} "
                     f"{statistics.median(one['agents_cpu'] for one in rounds):>9.0f} {goal:>6} {word}")
    lines.append(f"workers restarted: {restarted} (goal 0) {'FAIL' if restarted else 'PASS'}")
    if restarted:
        missed.append(f"{restarted} workers were restarted")
    return lines, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=256, help="simulated ones, beside three real ones")
    parser.add_argument("--channels", type=int, default=0,
                        help="of the simulated agents to each rendezvous; 0: one for each agent")
    parser.add_argument("--rounds", type=int, default=30, help="of each kind")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--alone", action="store_true", help="one rendezvous without etcd, and its host loses its power")
    parser.add_argument("--json", action="store_true", help="every round, as JSON")
    parser.add_argument("--keep", action="store_true", help="the folder with the logs")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    arguments = parser.parse_args()
    if (why := why_impossible() if arguments.alone else lacks()):
        print(f"failover_bench: needs {why}", file=sys.stderr)
        return 1
    if arguments.alone:
        found = measure_alone(arguments)
        ended = [max(ends) for ends in found]
        print(json.dumps(found) if arguments.json else
              f"one rendezvous, its host loses its power: all workers ended in {len(found)} of {len(found)} rounds, "
              f"median {statistics.median(ended):.0f} ms after it, max {max(ended):.0f} ms")
        return 0
    found, restarted, disturbances = measure(arguments)
    lines, missed = table(found, restarted, arguments.agents)
    if arguments.json:
        print(json.dumps({"agents": arguments.agents, "rounds": found, "workers_restarted": restarted,
                          "disturbances": disturbances}))
    else:
        print("\n".join(lines))
    for one in missed:
        print(f"missed: {one}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
