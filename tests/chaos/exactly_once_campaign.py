#!/usr/bin/python3
"""Does a job that is killed repeatedly end like an undisturbed job?

MNIST (BatchNorm, dropout, Adam) trains on two nodes with two workers and a disk each. One job runs undisturbed. In
another job, a seeded plan ends workers of any rank by SIGKILL, SIGSEGV or exit code 1: while the group forms, the state
is restored, a step is made or a state is saved. Once, node 0's agent is killed and its disk is deleted, so that node 1
has to give its state to all ranks. Then

  - the final checkpoints must be equal to the last bit, except for the names of their makers,
  - the samples that each rank trained on, after dropping the steps that were rolled back, must be
    those of the undisturbed job, step by step, with each sample exactly once per epoch.

With --resize there is only one job. It loses one of its nodes in the middle of an epoch and continues with half of the
workers; later a node joins again. Each sample must still be used exactly once per epoch. The parameters are not
compared, because another number of workers makes other batches.

With --in-place the surviving workers keep their process (ddp::run_in_place), and no rank may repeat more than one step
after a kill. If both ranks of node 0 are lost, more repeated steps are allowed, because rank 0's statistics of
BatchNorm are lost with them. The point `agent` (see below) allows none, because its job has --share-each-step. Without
--in-place all workers are started again.

With --in-place --points POINT,... there is one job for each point, with --kills deaths at this point
(exactly_once_points.py lists the points; `all` is each of them except `mixed`). Each death has a verdict: did it
happen, did the processes of the survivors stay, how many steps were repeated. With --out, the verdicts are appended to
this file: one line of JSON for each death, and one for the end of the job. A campaign that is started again leaves out
the jobs whose end is in the file.

usage: tests/chaos/exactly_once_campaign.py [--seed 1] [--seeds N] [--kills 10] [--resize | --in-place]
                                            [--points POINT,...] [--out FILE] [--bin build/bin]
Prints the faults and the results; exits 1 if anything differs.
"""
import argparse
import collections
import json
import os
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import exactly_once_points as points
from campaign import append

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORKERS_PER_NODE = 2
RANKS = 2 * WORKERS_PER_NODE
SAMPLES = 1280
EPOCHS = 4
BATCH = 8
KINDS = ("kill", "segv", "exit")
LIMIT_S = 300
SECONDS_PER_DEATH = 10
MAKER = ("ddprun_job", "ddprun_epoch", "ddprun_generation", "ddprun_run", "ddprun_descends_from",
         "header_xxh3")


class Difference(Exception):
    pass


def make_plan(rng, kills):
    """One fault for each generation: (generation, rank, point, count, kind)."""
    plan = []
    node_lost = rng.randrange(1, kills - 1)
    steps_without = 0  # generations in a row without a step
    for generation in range(kills):
        rank = rng.randrange(RANKS)
        point = rng.choice(("forming", "restore", "step", "step", "save"))
        if steps_without >= 1 or (generation == 0 and point == "restore"):
            point = "step"
        if point == "save":
            rank = rng.choice((0, WORKERS_PER_NODE))  # these ranks write
        steps_without = steps_without + 1 if point in ("forming", "restore") else 0
        count = {"forming": 1, "restore": 1, "step": rng.randrange(3, 12),
                 "save": rng.randrange(1, 3)}[point]
        kind = rng.choice(KINDS)
        if generation == node_lost:
            # Late enough that node 1 has a state to give.
            rank, point, count, kind = 0, "step", rng.randrange(8, 12), "node"
        plan.append((generation, rank, point, count, kind))
    return plan


class Job:
    def __init__(self, folder, bin_folder, nnodes, plan, in_place=False, epochs=EPOCHS, shares=False):
        self.epochs = epochs
        self.options = ["--share-each-step"] if shares else []
        self.stay = [] if in_place else ["--in-place-timeout", "0"]
        self.folder = folder
        self.bin = bin_folder
        self.nnodes = nnodes
        self.agents = []
        self.disks = []  # of each agent
        os.makedirs(folder)
        os.mkfifo(self.path("fifo"))
        self.fifo = os.open(self.path("fifo"), os.O_RDWR)  # so that a read never sees its end
        with open(self.path("plan"), "w", encoding="utf-8") as file:
            for fault in plan:
                file.write(" ".join(map(str, fault)) + "\n")
        self.daemon = subprocess.Popen(
            [os.path.join(self.bin, "ddprun"), "rendezvous", "--listen", "127.0.0.1:0",
             "--port-file", self.path("port")],
            stdout=subprocess.DEVNULL, stderr=open(self.path("daemon.err"), "wb"))
        wait_for_line(self.path("port"), "")
        with open(self.path("port"), encoding="utf-8") as file:
            self.endpoint = "127.0.0.1:" + file.read().strip()

    def path(self, name):
        return os.path.join(self.folder, name)

    def add_node(self, rank=None, disk=None):
        """`disk`: the number of an earlier agent, whose disk this agent gets."""
        number = len(self.agents)
        self.disks.append(number if disk is None else disk)
        node_rank = [] if rank is None else ["--node-rank", str(rank)]
        environment = {
            **os.environ, "FAULT_PLAN": self.path("plan"), "FAULT_FIFO": self.path("fifo"),
            "FAULT_LOG": self.path("trace"), "FAULT_LIVES": self.path("lives")}
        self.agents.append(subprocess.Popen(
            [os.path.join(self.bin, "ddprun"), "--rdzv-endpoint", self.endpoint, "--rdzv-id", "job",
             "--nnodes", self.nnodes, "--nproc-per-node", str(WORKERS_PER_NODE),
             *node_rank, "--max-restarts", "1000", *self.stay,
             # A node that is lost again and again is admitted late. A node is known by its address, too.
             "--local-addr", f"127.0.{1 + number // 250}.{1 + number % 250}",
             "--rdzv-conf", "last_call_timeout=1",
             "--checkpoint-dir", self.path(f"disk{self.disks[number]}"), "--log-dir", self.path(f"logs{number}"),
             "--", "/usr/bin/env", "LD_PRELOAD=" + os.path.join(self.bin, "fault_points.so"),
             os.path.join(self.bin, "mnist_ddp"), "--data", os.path.join(ROOT, "tests/data/mnist"),
             "--limit-train", str(SAMPLES), "--epochs", str(self.epochs), "--batch-size", str(BATCH),
             "--checkpoint-every", "16", "--snapshot-every", "2", "--seed", "7",
             "--trace-samples", self.path("trace"), *self.options],
            stdout=open(self.path(f"agent{number}.out"), "wb"),
            stderr=open(self.path(f"agent{number}.err"), "wb"), env=environment))
        return self.agents[-1]

    def wait_for_node_fault(self):
        if not select.select([self.fifo], [], [], LIMIT_S)[0]:
            raise Difference("the fault that loses a node did not happen")
        os.read(self.fifo, 100)

    def agent_of(self, rank):
        """The number of the agent that had this rank in the last generation that it was in."""
        for number in range(len(self.agents)):
            with open(self.path(f"agent{number}.err"), encoding="utf-8") as file:
                ranks = re.findall(r"ranks (\d+)-(\d+) of", file.read())
            if ranks and int(ranks[-1][0]) <= rank <= int(ranks[-1][1]):
                return number
        raise Difference(f"no agent has had rank {rank}")

    def lose(self, number):
        self.agents[number].kill()
        self.agents[number].wait()
        shutil.rmtree(self.path(f"disk{self.disks[number]}"), ignore_errors=True)

    def finish(self, numbers):
        for number in numbers:
            code = self.agents[number].wait(LIMIT_S)
            if code != 0:
                raise Difference(f"agent {number} ended with {code}; see {self.folder}")

    def events(self):
        text = subprocess.run(
            [os.path.join(self.bin, "ddprun"), "events", "job", "--rdzv-endpoint", self.endpoint],
            check=True, stdout=subprocess.PIPE, text=True).stdout
        return [json.loads(line) for line in text.splitlines()]

    def end(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGINT)
                agent.wait()
        self.daemon.terminate()
        self.daemon.wait()
        os.close(self.fifo)

    def final_checkpoint(self, number):
        folder = self.path(f"disk{self.disks[number]}")
        names = [name for name in os.listdir(folder) if name.endswith(".safetensors")]
        return os.path.join(folder, max(names))

    def traces(self):
        """Returns three things. (epoch, samples) by rank and by step, without the steps that were rolled back; the
        number of steps of each (generation, rank) that were rolled back; and by (rank, step) the generation that made
        the step which counts."""
        first_step = {}  # the first step of each generation
        lines = []
        for name in sorted(os.listdir(self.path("trace"))):
            rank = int(name[len("rank"):-len(".log")])
            with open(os.path.join(self.path("trace"), name), encoding="utf-8") as file:
                for line in file:
                    generation, epoch, step, *samples = map(int, line.split())
                    lines.append((rank, generation, epoch, step, samples))
                    first_step[generation] = min(step, first_step.get(generation, step))
        kept = collections.defaultdict(dict)
        dropped = collections.Counter()
        made_in = {}
        for rank, generation, epoch, step, samples in lines:
            if any(later > generation and step >= first for later, first in first_step.items()):
                dropped[generation, rank] += 1
                continue
            if step in kept[rank]:
                raise Difference(f"rank {rank} made step {step} twice in what counts")
            kept[rank][step] = (epoch, samples)
            made_in[rank, step] = generation
        return kept, dropped, made_in

    def generations_with_steps(self):
        """The (generation, rank) that wrote a line."""
        found = set()
        for name in os.listdir(self.path("trace")):
            with open(os.path.join(self.path("trace"), name), encoding="utf-8") as file:
                found.update((int(line.split(" ", 1)[0]), int(name[len("rank"):-len(".log")])) for line in file)
        return found


def wait_for_line(path, text, count=1, at_start=False):
    """Waits until a growing file has this many lines with `text`, or with `text` at their start."""
    tail = subprocess.Popen(["tail", "-n", "+1", "-F", path], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    try:
        for line in tail.stdout:
            count -= line.startswith(text) if at_start else text in line
            if count == 0:
                return
    finally:
        tail.kill()
        tail.wait()


def wait_for_traces(job, rank):
    """Waits until all ranks of generation 0 have written the line of the last step of `rank`, which waits. A rank that
    is killed between the averaging of a step and its line has used its samples, but no trace shows it."""
    with open(os.path.join(job.path("trace"), f"rank{rank}.log"), encoding="utf-8") as file:
        step = " ".join(file.read().splitlines()[-1].split()[:3]) + " "
    for other in range(2 * WORKERS_PER_NODE):
        wait_for_line(os.path.join(job.path("trace"), f"rank{other}.log"), step, at_start=True)


def read_checkpoint(path):
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    return {k: v for k, v in metadata.items() if k not in MAKER}, header, data[8 + size:]


def compare_checkpoints(one, other):
    a, b = read_checkpoint(one), read_checkpoint(other)
    for key in sorted(set(a[0]) | set(b[0])):
        if a[0].get(key) != b[0].get(key):
            raise Difference(f"the final checkpoints differ in {key}: {a[0].get(key)!r:.200} and "
                             f"{b[0].get(key)!r:.200}")
    if a[1] != b[1] or a[2] != b[2]:
        raise Difference("the final checkpoints hold other tensors")


def check_each_sample_once(traces, epochs):
    for epoch in range(epochs):
        used = collections.Counter(
            sample for steps in traces.values() for at, samples in steps.values() if at == epoch
            for sample in samples)
        if sorted(used) != list(range(SAMPLES)) or set(used.values()) != {1}:
            missing = [i for i in range(SAMPLES) if i not in used]
            twice = [i for i, count in used.items() if count > 1]
            raise Difference(f"epoch {epoch}: missing {missing[:10]}, more than once {twice[:10]}")


def run_undisturbed(folder, bin_folder, epochs=EPOCHS):
    job = Job(folder, bin_folder, "2", [], epochs=epochs)
    try:
        job.add_node(0)
        job.add_node(1)
        job.finish([0, 1])
    finally:
        job.end()
    traces, dropped, _ = job.traces()
    check_each_sample_once(traces, epochs)
    if dropped:
        raise Difference("the undisturbed job repeated steps")
    return job, traces


def run_killed(folder, bin_folder, plan, in_place):
    job = Job(folder, bin_folder, "2", plan, in_place)
    try:
        job.add_node(0)
        job.add_node(1)
        job.wait_for_node_fault()
        job.lose(0)
        job.add_node(0)
        job.finish([1, 2])
        events = job.events()
    finally:
        job.end()
    return job, events


def run_resized(folder, bin_folder, rng):
    plan = [(0, WORKERS_PER_NODE, "step", rng.randrange(10, 30), "node"),
            (1, 0, "step", rng.randrange(5, 30), "node")]
    job = Job(folder, bin_folder, "1:2", plan)
    try:
        job.add_node()
        job.add_node()
        job.wait_for_node_fault()
        wait_for_traces(job, WORKERS_PER_NODE)
        lost = job.agent_of(WORKERS_PER_NODE)
        job.lose(lost)  # the other node continues alone
        job.wait_for_node_fault()
        job.add_node()
        # Rank 0 waits until it is killed. This ends the generation, and both nodes form the next one.
        wait_for_line(job.path("daemon.err"), "joined", 3)
        kill_waiting_worker(job)
        job.finish([1 - lost, 2])
        events = job.events()
    finally:
        job.end()
    return job, events


def kill_waiting_worker(job):
    plan = f"FAULT_PLAN={job.path('plan')}".encode()
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read().split(b"\0")
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError, PermissionError):
            continue
        if plan in environment and b"RANK=0" in environment:
            os.kill(int(name), signal.SIGKILL)


def watch(job, deaths):
    """Runs the job to its end: kills processes that are held, and replaces agents that die. Returns the number of the
    last agent of each node."""
    agents = [0, 1]
    held = []
    lost = [death for death in deaths if death.point == "agent"]
    two_held = [death for death in deaths if death.point == "two"]
    deadline = time.monotonic() + LIMIT_S + SECONDS_PER_DEATH * len(deaths)
    pidfds = {node: os.pidfd_open(job.agents[number].pid) for node, number in enumerate(agents)}
    try:
        while pidfds:
            ready = select.select([job.fifo, *pidfds.values()], [], [], max(0, deadline - time.monotonic()))[0]
            if not ready:
                raise Difference(f"the job has not ended in time; see {job.folder}")
            if job.fifo in ready:
                for line in os.read(job.fifo, 4096).decode().splitlines():
                    if line.startswith("hold"):
                        held.append(int(line.split()[1]))
            if two_held and len(held) == 2:
                for pid in held:
                    os.kill(pid, signal.SIGKILL)
                held.clear()
            for node, pidfd in list(pidfds.items()):
                if pidfd not in ready:
                    continue
                os.close(pidfds.pop(node))
                code = job.agents[agents[node]].wait()
                if code == 0:
                    continue
                if code != -signal.SIGKILL or not lost or points.node_of(lost[0].ranks[0]) != node:
                    raise Difference(f"agent {agents[node]} ended with {code}; see {job.folder}")
                if not lost[0].keeps_disk:
                    job.lose(agents[node])
                job.add_node(node, job.disks[agents[node]] if lost[0].keeps_disk else None)
                lost.pop(0)
                agents[node] = len(job.agents) - 1
                pidfds[node] = os.pidfd_open(job.agents[-1].pid)
    finally:
        for pidfd in pidfds.values():
            os.close(pidfd)
    return agents


def run_points(arguments, seed, point, folder):
    """One job with many deaths at this point. Returns the problems of its end, and the verdict of each death."""
    deaths = points.make_plan(random.Random(f"{seed} {point}"), point, arguments.kills)
    epochs = points.most_steps(deaths) // (SAMPLES // BATCH // RANKS) + 1
    undisturbed, expected = run_undisturbed(os.path.join(folder, "undisturbed"), arguments.bin, epochs)
    plan = [fault for death in deaths for fault in death.faults]
    # Otherwise the ranks that replace a lost node get older generators, and their dropout differs.
    shares = point == "agent"
    job = Job(os.path.join(folder, "killed"), arguments.bin, "2", plan, in_place=True, epochs=epochs, shares=shares)
    problems = []
    try:
        job.add_node(0)
        job.add_node(1)
        last = watch(job, deaths)
        formed, _, tiers = describe(job.events())
    finally:
        job.end()
    with open(job.path("lives"), encoding="utf-8") as file:
        lives = points.Lives(file.read().splitlines())
    traces, dropped, made_in = job.traces()
    steps = job.generations_with_steps()
    verdicts = [points.judge(death, lives, steps, dropped) for death in deaths]
    add_unwritten_lines(traces, expected, made_in)
    try:
        if traces != expected:
            raise Difference("the samples differ from the undisturbed job's")
        check_each_sample_once(traces, epochs)
        compare_checkpoints(undisturbed.final_checkpoint(0), job.final_checkpoint(last[0]))
    except Difference as error:
        problems.append(str(error))
    if len(formed) != len(deaths) + 1:
        problems.append(f"{len(formed)} generations were formed, and {len(deaths)} were to be ended")
    return problems, verdicts, tiers


def points_campaign(arguments, seed, point):
    if (seed, point, arguments.kills) in finished_jobs(arguments.out):
        return True
    folder = tempfile.mkdtemp(prefix="exactly-once-")
    os.environ["DDPRUN_STATE_HOME"] = os.path.join(folder, "state_home")
    start = time.monotonic()
    verdicts, tiers = [], {}
    try:
        problems, verdicts, tiers = run_points(arguments, seed, point, folder)
    except (Difference, subprocess.TimeoutExpired) as error:
        problems = [str(error)]
    for verdict in verdicts:
        append(arguments.out, {"seed": seed, "job": point, **verdict})
        for problem in verdict["problems"]:
            print(f"    generation {verdict['generation']}, {verdict['point']} ({verdict['variant']}) of ranks "
                  f"{verdict['ranks']}: {problem}", flush=True)
    passed = not problems and not any(verdict["problems"] for verdict in verdicts)
    own = [verdict for verdict in verdicts if not verdict["first"]]
    result = {
        "seed": seed, "job": point, "end": True, "passed": passed, "problems": problems, "kills": arguments.kills,
        "deaths": len(verdicts), "kills_passed": sum(not verdict["problems"] for verdict in own),
        "of_rank_0": sum(0 in verdict["ranks"] for verdict in own),
        "survivors": sum(len(verdict["survivors"]) for verdict in verdicts),
        "survivors_ended": sum(len(verdict["ended"]) for verdict in verdicts),
        "repeated": collections.Counter(str(verdict["repeated"]) for verdict in own),
        "restored_from": tiers, "seconds": round(time.monotonic() - start, 1)}
    append(arguments.out, result)
    print("seed {seed}, {job}: {word}; {kills_passed} of {kills} kills passed ({of_rank_0} of rank 0), {deaths} deaths, "
          "{survivors_ended} of {survivors} survivors ended, steps repeated by kills {repeated}, {seconds} s".format(
              word="passed" if passed else "FAILED", **{**result, "repeated": dict(result["repeated"])}), flush=True)
    for problem in problems:
        print(f"    {problem}", flush=True)
    if passed:
        shutil.rmtree(folder)
    else:
        print(f"    all there is: {folder}", flush=True)
    return passed


def finished_jobs(path):
    if not path or not os.path.exists(path):
        return set()
    done = set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                one = json.loads(line)
            except json.JSONDecodeError:
                continue  # the line was cut off when its campaign ended: the job runs again
            if one.get("end"):
                done.add((one["seed"], one["job"], one["kills"]))
    return done


def describe(events):
    formed = [event for event in events if event["event"] == "formed"]
    sources = [event["restore"]["rank"] for event in formed if event.get("restore", {}).get("rank")
               is not None]
    tiers = collections.Counter(event["restore"]["tier"] for event in formed
                                if event.get("restore"))
    return formed, sources, dict(tiers)


def check_steps_repeated(plan, dropped):
    node_lost = {generation for generation, _, _, _, kind in plan if kind == "node"}
    for (generation, rank), steps in dropped.items():
        if steps > 1 and generation not in node_lost:
            raise Difference(f"rank {rank} made {steps} steps of generation {generation} twice")


def add_unwritten_lines(traces, expected, made_in):
    """A rank may be killed, or asked to leave, after its gradients were averaged and before it writes its line. Other
    ranks finish that step with its samples. With --in-place no rank repeats this step, so its line is added here."""
    last = {}  # the last step of each generation that counts
    for (_, step), generation in made_in.items():
        last[generation] = max(step, last.get(generation, 0))
    for step in last.values():
        for rank in range(RANKS):
            if step not in traces[rank]:
                traces[rank][step] = expected[rank][step]


def campaign(arguments, seed, folder):
    rng = random.Random(seed)
    if arguments.resize:  # the resized job is not compared with another job
        job, events = run_resized(os.path.join(folder, "resized"), arguments.bin, rng)
        traces, dropped, _ = job.traces()
        check_each_sample_once(traces, EPOCHS)
        formed, _, tiers = describe(events)
        sizes = [event.get("workers", event.get("world_size")) for event in formed]
        print(f"seed {seed}: world sizes {sizes}, restored from {tiers}, {dropped.total()} steps rolled "
              f"back: each of {SAMPLES} samples exactly once in each of {EPOCHS} epochs", flush=True)
        return
    undisturbed, expected = run_undisturbed(os.path.join(folder, "undisturbed"), arguments.bin)
    plan = make_plan(rng, arguments.kills)
    for fault in plan:
        print("    generation {}: rank {}, {} {}, {}".format(*fault), flush=True)
    job, events = run_killed(os.path.join(folder, "killed"), arguments.bin, plan,
                             arguments.in_place)
    traces, dropped, made_in = job.traces()
    if arguments.in_place:
        add_unwritten_lines(traces, expected, made_in)
    formed, sources, tiers = describe(events)
    if traces != expected:
        raise Difference("the samples differ from the undisturbed job's")
    check_each_sample_once(traces, EPOCHS)
    compare_checkpoints(undisturbed.final_checkpoint(0), job.final_checkpoint(2))
    if len(formed) < arguments.kills + 1:
        raise Difference(f"{len(formed)} generations only: not every fault of the plan happened")
    if arguments.in_place:
        check_steps_repeated(plan, dropped)
    if WORKERS_PER_NODE not in sources:
        raise Difference("no restore was given by node 1")
    print(f"seed {seed}: {len(formed) - 1} restarts, restored from ranks {sources} {tiers}, "
          f"{dropped.total()} lines of steps rolled back: final checkpoints equal to the last bit, each "
          f"sample exactly once per epoch", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from --seed on")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--resize", action="store_true")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--points", help="with --in-place: a job of --kills deaths for each of these points, or `all`")
    parser.add_argument("--out", help="with --points: append the verdicts to this file")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    arguments = parser.parse_args()
    if arguments.points:
        wanted = points.POINTS if arguments.points == "all" else arguments.points.split(",")
        if not arguments.in_place or not {*wanted} <= {*points.POINTS, "mixed"}:
            parser.error("--points needs --in-place, and points among " + ", ".join((*points.POINTS, "mixed")))
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        sys.exit(not all([points_campaign(arguments, seed, point) for seed in seeds for point in wanted]))
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        folder = tempfile.mkdtemp(prefix="exactly-once-")
        os.environ["DDPRUN_STATE_HOME"] = os.path.join(folder, "state_home")
        try:
            campaign(arguments, seed, folder)
        except (Difference, subprocess.TimeoutExpired) as error:
            sys.exit(f"seed {seed}: {error}\nall there is: {folder}")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
