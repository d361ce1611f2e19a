#!/usr/bin/python3
"""Random faults for a real job of 3 nodes with 2 workers and a daemon: no durable step is lost, and no rank runs twice
at once.

    tests/chaos/campaign.py --seeds 1:120 --out FILE

Each host is a network namespace; the nodes share two disks (file systems in files), one for checkpoints and one for
logs. A seed is a plan, drawn completely before anything starts: cuts in one and both directions; SIGSTOP and SIGKILL of
agents, guardians, workers and the daemon, which keeps a journal; SIGKILL of whole nodes; disks that freeze or are full;
wall clocks that step. After all faults the job must run on all nodes again, and end. Then the campaign checks these
rules. It uses the time stamps that the workers wrote outside of these disks (tests/programs/campaign_worker.cc):

    no two processes had one rank at once, and none of an old generation lived beside one of the next;
    neither the generation nor the count of restarts ever went down;
    no generation continued from a step below one that had been durable on disk;
    every ddprun that nobody killed ended with 0;
    nothing is left: processes, mounts, namespaces, /dev/shm, the folder for temporary files.

Each verdict is appended to FILE as a line of JSON. Seeds with a verdict are not run again, so an interrupted campaign
continues where it stopped. A failed seed prints its plan and keeps its folder. --plant breaks one of these rules on
purpose, in a job with one killed worker, and exits with 0 if the verdict finds this error and no unrelated one.

Needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN), iproute2, nftables, loop devices, and build/bin with ddprun,
campaign_worker and wall_clock_offset.so.
"""
import argparse
import glob
import heapq
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import slices
from campaign_hosts import environment_of, what_is_there
from campaign_job import Trouble
from campaign_plan import calm_plan, make_plan
from campaign_verdict import Record, verdict
from campaign_world import World

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MISSING = 77  # CTest takes this exit code for "skipped"
# For each plant: the error that the verdict must find, and errors that may follow from it. (A twin has the environment
# in which its original was started, perhaps as a standby, so its restart count may be older.)
PLANTS = {"overlap": ("overlap: ", "backwards: "), "lost-step": ("lost steps: ",),
          "left-process": ("left: process ",)}


def why_impossible():
    """What this machine lacks, or ""."""
    tools = [tool for tool in ("ip", "nft", "fsfreeze", "mkfs.ext4") if not shutil.which(tool)]
    if tools:
        return f"{', '.join(tools)}: scripts/install_packages.sh --tests installs them"
    if not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        return "loop devices (/dev/loop-control)"
    probe = subprocess.run(["unshare", "--net", "--mount", "--uts", "ip", "link", "set", "lo", "up"], text=True,
                           capture_output=True, check=False)
    return f"CAP_SYS_ADMIN and CAP_NET_ADMIN: {probe.stderr.strip()}" if probe.returncode else ""


def carry_out(world, plan):
    """Begins and ends each fault at its time."""
    queue = [(fault.at, number, True) for number, fault in enumerate(plan.faults)]
    queue += [(fault.end, number, False) for number, fault in enumerate(plan.faults)]
    heapq.heapify(queue)
    start = time.monotonic()
    while queue:
        at, number, begins = heapq.heappop(queue)
        world.wait(lambda at=at: time.monotonic() - start >= at, at + 1)
        (world.begin if begins else world.end)(number, plan.faults[number])


def break_on_purpose(world, plant):
    if plant == "overlap":  # a second process with the same rank, as long as the first process lives
        (pid,) = world.wait(lambda: world.find("node2", "worker1"), 5)
        twin = [os.path.join(world.bin, "campaign_worker"), world.path("alive"), "twin"]
        process = subprocess.Popen(twin, env=environment_of(pid))
        world.wait(lambda: any(life.pid == process.pid for life in world.lives()), 5)
        process.kill()
        process.wait()
    elif plant == "left-process":
        subprocess.Popen(world.network.on("node1", ["sleep", "1000"]), start_new_session=True)


def run_job(world, plan, plant):
    """Runs the job. Returns its record, with the missed limits and the left-overs."""
    late, left = [], []
    try:
        world.wait_for_whole()
        carry_out(world, plan)
        world.wait_for_whole()
        break_on_purpose(world, plant)
        world.finish()
        left = world.left()
        if not left:
            left = world.unmount()
    except Trouble as trouble:
        late = [str(trouble)]
    return Record(world.lives(), tuple(world.ends), tuple(left), tuple(late))


def run_in(folder, seed, plan, arguments):
    """The errors, the record, the faults that found nothing to break, and further counts."""
    options = ["forgets"] if arguments.plant == "lost-step" else []
    with World(folder, seed, plan, arguments.bin, options) as world:
        record = run_job(world, plan, arguments.plant)
        problems = verdict(record)
        if problems:
            world.save_logs()
    problems += [f"left: {what}" for what in what_is_there(world.network.prefix, folder)]
    return problems, record, world.missed, {}


def run_seed(seed, plan, arguments, run_it=run_in):
    """The verdict on one seed, as a dictionary. `run_it`: as run_in."""
    folder = tempfile.mkdtemp(prefix=f"ddprun-campaign-{seed}-")
    start = time.monotonic()
    keep = False
    try:
        problems, record, missed, counted = run_it(folder, seed, plan, arguments)
        keep = arguments.keep or bool(problems) and not arguments.plant
    finally:
        for image in glob.glob(folder + "/*.image"):
            os.unlink(image)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return {
        "seed": seed, "passed": not problems, "problems": problems,
        "faults": len(plan.faults) - len(missed), "missed": len(missed),
        "generations": len({life.generation for life in record.lives}), "workers": len(record.lives),
        "durable": sum(len(life.durable) for life in record.lives), **counted,
        "seconds": round(time.monotonic() - start, 1), "folder": folder if keep else None,
    }


def read_verdicts(path):
    """The verdicts in a file, by seed."""
    verdicts = {}
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    one = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the line was cut off when its campaign ended: the seed runs again
                verdicts[one["seed"]] = one
    return verdicts


def append(path, result):
    if not path:
        return
    with open(path, "a+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        after_one_cut_off = file.read() not in (b"", b"\n")
        file.write(b"\n" * after_one_cut_off + json.dumps(result).encode() + b"\n")


def campaign(arguments, plan_of=make_plan, run_it=run_in):
    verdicts = read_verdicts(arguments.out)
    for seed in arguments.seeds:
        if seed in verdicts:
            continue
        plan = plan_of(seed)
        result = verdicts[seed] = run_seed(seed, plan, arguments, run_it)
        append(arguments.out, result)
        print("seed {seed}: {word}; {faults} faults, {generations} generations, {workers} workers, {durable} durable "
              "steps, {seconds} s".format(word="passed" if result["passed"] else "FAILED", **result), flush=True)
        if not result["passed"]:
            print("\n".join([*result["problems"], str(plan), f"logs: {result['folder']}"]), flush=True)
    here = [verdicts[seed] for seed in arguments.seeds]
    failed = [one["seed"] for one in here if not one["passed"]]
    print(f"{len(here)} seeds, {sum(one['faults'] for one in here)} faults: {len(here) - len(failed)} passed"
          + (f", failed: {failed}" if failed else ""))
    return 1 if failed else 0


def plant(arguments):
    """Returns 0 if the verdict finds the planted fault, and nothing else."""
    problems = run_seed(arguments.plant, calm_plan(), arguments)["problems"]
    print("\n".join(problems) or "nothing was seen")
    expected = PLANTS[arguments.plant]
    seen = (any(problem.startswith(expected[0]) for problem in problems)
            and all(problem.startswith(expected) for problem in problems))
    return 0 if seen else 1


def add_common_options(parser):
    parser.add_argument("--out", metavar="FILE", help="where the verdicts stand")
    parser.add_argument("--keep", action="store_true", help="the folders of the seeds that passed, too")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))


def left_out(why):
    """The exit code if this machine cannot run it."""
    print(f"left out, it needs {why}", file=sys.stderr)
    return 1 if os.environ.get("DDPRUN_TESTS") == "all" else MISSING


def seeds(text):
    return slices.seeds(text, slices.CAMPAIGN)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seeds", type=seeds, metavar="A:B",
                      help="from A to B, B included; ci: those of CI")
    what.add_argument("--plan", type=int, metavar="SEED", help="print what a seed does")
    what.add_argument("--plant", choices=PLANTS, help="show that the verdict sees this")
    add_common_options(parser)
    arguments = parser.parse_args()
    if arguments.plan is not None:
        print(make_plan(arguments.plan))
        return 0
    if (why := why_impossible()):
        return left_out(why)
    return plant(arguments) if arguments.plant else campaign(arguments)


if __name__ == "__main__":
    sys.exit(main())
