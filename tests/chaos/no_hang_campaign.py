#!/usr/bin/python3
"""Jobs that stand still for a while and do not hang: is each of them left alone?

    tests/chaos/no_hang_campaign.py --seeds 1:100 --out FILE

A seed has a cell: one of the situations below, a program (as in hang_campaign.py), and one or two nodes with two
workers each. Every cell occurs before a cell occurs again. The rank is random. All jobs run with --on-hang restart. The
limits are so low that a naive rule, which looks only at the time since the last step, would end the job. Expected: no
hang is reported, the job ends with 0 and without a needless restart, and its parameters are those of an undisturbed
job. The campaign also computes the result of the naive rule for each run. The naive rule must report a hang in each
run: otherwise the run shows nothing. With --naive the result of the naive rule counts, so all jobs count as disturbed.

    slow_step        one step of 3.5 s, the limit is 5 s; the other steps take 0.05 s
    moving_step      one step of 8 s, in which all ranks enter a collective each second; the limit is 5 s
    evaluation       the first evaluation, a named phase, takes longer than 30 s, the limit of a step
    slow_start       a rank that comes to init after more than 5 s
    slow_first_step  a rank whose first step takes more than 5 s
    debugger         a debugger holds a worker
    ctrl_z           SIGTSTP on the launcher, and SIGCONT
    all_stopped      all processes of the job are stopped at once, as when a machine is suspended
    starved          other processes take all CPUs
    clock_step       the wall clock steps by an hour, forward or back
    rendezvous_away  the rendezvous is killed, and started again later
    joins_late       a rank that is killed, and comes to init late after the restart
    slow_save        a save waits for the disk of the checkpoints for more than 30 s; an earlier save took 10 s

Each seed's result is one line of JSON in FILE; finished seeds are skipped. Exits 1 if a job was disturbed. Needs what
hang_campaign.py needs, and build/bin/wall_clock_offset.so.
"""
import collections
import ctypes
import errno
import itertools
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import slices
from campaign_hosts import children, read, wait_until
from hang_campaign import campaign
from hang_job import GIVEN, JOB_LIMIT, LIMIT, Disk, Job, equal, undisturbed
from hang_plan import PROGRAMS, WITH_CHECKPOINTER, WORKERS

LONGER = LIMIT + 3.0  # longer than the limit of a step, shorter than that of a start
# A given limit applies to all phases. Only "auto" gives a phase more time when it occurs for the first time.
FLAGS_OF_PHASES = ("--hang-timeout", "auto", "--hang-startup-timeout", "60s", "--on-hang", "restart")
FIRST_TIME = 35.0
LEARNED = 10.0  # s, the length of a save; 5 times this is the limit of the next saves
NAIVE_FACTOR = 10  # the naive rule: a step that takes this many times as long as the longest step before is a hang
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17

# For each situation: what the rank does, where, and the possible programs and numbers of nodes.
SITUATIONS = {
    "slow_step": ("ReadFifo", "step", PROGRAMS, (1, 2)),
    # Python programs do not report their collectives.
    "moving_step": ("MoveSlowly", "step", ("cpp",), (1, 2)),
    "evaluation": ("ReadFifo", "first_evaluation", ("cpp", "module", "wrapper"), (1, 2)),
    "slow_start": ("ReadFifo", "before_init", PROGRAMS, (1, 2)),
    "slow_first_step": ("ReadFifo", "first_step", PROGRAMS, (1, 2)),
    "debugger": ("ReadFifo", "step", PROGRAMS, (1, 2)),
    "ctrl_z": ("ReadFifo", "step", PROGRAMS, (1,)),
    "all_stopped": ("ReadFifo", "step", PROGRAMS, (1, 2)),
    "starved": ("ComputeAWhile", "step", PROGRAMS, (1,)),
    "clock_step": ("ReadFifo", "step", PROGRAMS, (1, 2)),
    "rendezvous_away": ("ReadFifo", "step", PROGRAMS, (2,)),
    "joins_late": ("DieAndJoinLate", "step", PROGRAMS, (1, 2)),
    "slow_save": ("ReadFifo", "first_step", WITH_CHECKPOINTER, (1, 2)),
}
CELLS = tuple((situation, program, nodes) for situation, (_, _, programs, numbers) in sorted(SITUATIONS.items())
              for program in programs for nodes in numbers)


def draw(seed):
    turn, number = divmod(seed - 1, len(CELLS))
    order = list(CELLS)
    random.Random(f"cells {turn}").shuffle(order)
    situation, program, nodes = order[number]
    fault, place, _, _ = SITUATIONS[situation]
    rng = random.Random(seed)
    return {"situation": situation, "fault": fault, "place": place, "program": program, "nodes": nodes,
            "rank": rng.choice((0, rng.randrange(1, nodes * WORKERS)))}


def naive_rule(steps, began=None):
    """Why the naive rule calls a hang; "" if it does not. `steps`: when rank 0 finished its steps, in ns. `began`:
    when the job began, if its start counts."""
    longest = None
    for before, after in itertools.pairwise(sorted([began, *steps] if began else steps)):
        passed = (after - before) / 1e9
        if passed > LIMIT or (longest is not None and passed > NAIVE_FACTOR * longest):
            return f"no step for {passed:.1f} s"
        if before != began:
            longest = max(longest or 0, passed)
    return ""


def descendants(pid):
    return [pid, *(one for child in children(pid) for one in descendants(child))]


def processes(job):
    return [pid for process in (*job.agents, *([job.daemon] if job.daemon else [])) for pid in descendants(process.pid)]


def workers(job):
    """The pids of the workers, by rank."""
    found = {}
    for agent in job.agents:
        for pid in descendants(agent.pid):
            environment = dict(entry.split("=", 1) for entry in read(f"/proc/{pid}/environ").split("\0")
                               if "=" in entry)
            if "RANK" in environment and pid not in (process.pid for process in job.agents):
                found[int(environment["RANK"])] = pid
    return found


def ptrace(request, pid):
    if ctypes.CDLL(None, use_errno=True).ptrace(request, pid, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of {pid}")


def go_on(job):
    """Lets the rank continue. If the rank has ended, nobody reads the fifo; then the verdict says what happened."""
    def write():
        try:
            fifo = os.open(job.path("fifo"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return job.ended()
        os.write(fifo, b"x")
        os.close(fifo)
        return True
    wait_until(write, JOB_LIMIT)


def hold_with_debugger(pid):
    ptrace(PTRACE_SEIZE, pid)
    ptrace(PTRACE_INTERRUPT, pid)
    os.waitpid(pid, 0x40000000)  # __WALL
    time.sleep(LONGER)
    ptrace(PTRACE_DETACH, pid)


def starve(job):
    """All processes of the job get only idle CPU time, and other processes leave no idle time."""
    for pid in processes(job):
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))
            except ProcessLookupError:
                pass
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    time.sleep(LONGER)
    for process in others:
        process.kill()
        process.wait()


def save_slowly(job, disk):
    """Each save waits for the save before it. The second save waits for LEARNED, one of the next two for longer."""
    disk.freeze()
    go_on(job)
    time.sleep(LEARNED)
    steps = len(job.times("steps"))
    disk.thaw()
    wait_until(lambda: len(job.times("steps")) > steps, JOB_LIMIT, pause=0.001)
    disk.freeze()
    time.sleep(FIRST_TIME)
    disk.thaw()


def disturb(job, plan, disk, rng):
    """Makes the situation when the rank has reported that it is at its place. Then lets the rank continue."""
    situation = plan["situation"]
    if situation == "slow_step":
        time.sleep(3.5)
    elif situation == "evaluation":
        time.sleep(FIRST_TIME)
    elif situation in ("slow_start", "slow_first_step"):
        time.sleep(LONGER)
    elif situation == "debugger":
        hold_with_debugger(workers(job)[plan["rank"]])
    elif situation == "ctrl_z":
        job.agents[0].send_signal(signal.SIGTSTP)
        time.sleep(LONGER)
        job.agents[0].send_signal(signal.SIGCONT)
    elif situation == "all_stopped":
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in processes(job):
                os.kill(pid, number)
            if number == signal.SIGSTOP:
                time.sleep(LONGER)
    elif situation == "starved":
        starve(job)
        return
    elif situation == "moving_step":
        return  # the rank continues by itself
    elif situation == "clock_step":
        with open(job.path("clock"), "r+b") as file:
            file.write(struct.pack("=q", rng.choice((-1, 1)) * 3600 * 10**9))
        time.sleep(3.5)
    elif situation == "rendezvous_away":
        job.daemon.kill()
        job.daemon.wait()
        time.sleep(LONGER)
        job.start_daemon()
    elif situation == "joins_late":
        wait_until(lambda: "restart 1" in read(job.path("err0")), 30)
        time.sleep(LONGER)
    elif situation == "slow_save":
        save_slowly(job, disk)
        return
    go_on(job)


def judge(job, plan, expected):
    console = read(job.path("err0"))
    codes = [agent.poll() for agent in job.agents]
    report = json.loads(read(job.path("report0.json")) or "{}")
    restarts = 1 if plan["situation"] == "joins_late" else 0
    if "hangs: " in console:
        return "called a hang: " + console.partition("hangs: ")[2].partition("\n")[0]
    if any(code != 0 for code in codes):
        return f"exit codes {codes}"
    if report.get("restarts") != restarts:
        return f"{report.get('restarts')} restarts, expected {restarts}"
    if not equal(plan["program"], job.result(), expected):
        return "other parameters than the undisturbed job"
    return ""


def run_seed(seed, binaries, arguments):
    plan = draw(seed)
    expected = undisturbed({**plan, "fault": "none"}, binaries)
    folder = tempfile.mkdtemp(prefix=f"ddprun-no-hang-{seed}-", dir="/var/tmp")
    disk = Disk(folder, "checkpoints")
    os.mkfifo(os.path.join(folder, "fifo"))
    clock = os.path.join(folder, "clock")
    with open(clock, "wb") as file:
        file.write(bytes(8))
    environment = {}
    if plan["situation"] == "clock_step":
        environment = {"LD_PRELOAD": os.path.join(binaries, "wall_clock_offset.so"), "WALL_CLOCK_OFFSET_FILE": clock}
    job = None
    try:
        flags = FLAGS_OF_PHASES if plan["situation"] in ("evaluation", "slow_save") else GIVEN
        began = time.time_ns() if plan["situation"] in ("slow_start", "slow_first_step") else None
        job = Job(plan, folder, binaries, environment=environment, hang_flags=flags)
        if not wait_until(lambda: job.ended() or read(job.path("fault")), JOB_LIMIT) or job.ended():
            wrong = "the rank did not come to its place"
        else:
            disturb(job, plan, disk, random.Random(seed))
            wrong = judge(job, plan, expected) if wait_until(job.ended, JOB_LIMIT) else f"no end in {JOB_LIMIT} s"
        naive = naive_rule(job.times("steps"), began)
        if arguments.naive:
            wrong = naive
        elif not naive:
            wrong = wrong or "the naive rule calls no hang: this run shows nothing"
    finally:
        if job:
            job.end()
        disk.remove()
    record = {"seed": seed, **plan, "naive": naive, "wrong": wrong}
    if (wrong and not arguments.naive) or arguments.keep:
        record["folder"] = folder
    else:
        shutil.rmtree(folder)
    return record


def show(records, _):
    """Prints the sums. Returns True if no job was disturbed."""
    disturbed = collections.Counter(record["situation"] for record in records if record["wrong"])
    print(f"{len(records)} jobs that do not hang: {sum(disturbed.values())} disturbed"
          + (f": {dict(disturbed)}" if disturbed else ""))
    return not disturbed


def add_flags(parser):
    parser.add_argument("--naive", action="store_true", help="believe the naive rule: all jobs must come out disturbed")


if __name__ == "__main__":
    sys.exit(campaign(__doc__, "1:100", slices.NO_HANGS, run_seed, show,
                      ("ddprun", "hang_trainer", "wall_clock_offset.so"), add_flags))
