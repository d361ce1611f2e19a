#!/usr/bin/python3
"""Jobs in which one rank stops moving: is it noticed in time, is the right rank named, does the job continue?

    tests/chaos/hang_campaign.py --seeds 1:200 --out FILE

A seed has a cell: a fault, its place in the training, and a program (hang_plan.py). The programs are C++ with ddp::,
Python with ddprun.Checkpointer, Python that a shell starts and that reports its steps, and unmodified Python with
--auto-step. Every cell occurs before a cell occurs again. The rank is random, and so is the number of nodes: one or
two, with two workers each. All jobs run with --on-hang restart and a limit of 5 s, except every fifth seed, which has
the defaults. Expected:

    noticed     at the limit + 2 s at the latest; reported when the stacks are there, but at most 5 s later
    rank        the verdict names the rank with the fault; if collectives do not match, it names another rank, too
    function    the verdict shows the function with the fault among the rank's innermost five functions. If the rank
                waits for another process or thread, the stacks show the function of that process or thread
    ended       the job runs to its end, and its parameters are those of an undisturbed job: to the last bit with
                ddp::, which keeps the order of its gradient buckets over a restart; in Python to 1e-5 of each value
    action      without --on-hang the workers are restarted only if hang_plan.is_restarted() says so

If collectives do not match, Gloo may end a worker: a failure, and not a hang. Then the root cause must name both ranks,
each with its operation and bytes, as the verdict must in a hang. The sums count such runs separately. Each seed's
result is one line of JSON in FILE; finished seeds are skipped. Exits 1 if a hang was not noticed in time or not dealt
with as expected, if a job did not end well, or if less than 99 % of the ranks or 95 % of the functions are right.

Needs root, for a disk that freezes, python3-torch, and build/bin with ddprun and hang_trainer.
"""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import slices
from campaign_hosts import read, wait_until
from hang_job import (
    AUTO, GIVEN, JOB_LIMIT, LEARNED_LIMIT, LIMIT, ROOT, STARTUP_LIMIT, Disk, Job, equal, undisturbed)
from hang_plan import FAULTS, OF_CHECKPOINTERS, OF_LOADERS, WORKERS, draw, is_restarted

MISSING = 77  # CTest takes this exit code for "skipped"
INSIDE = "DDPRUN_HANG_CAMPAIGN_INSIDE"

MAY_BE_LATER = 2.0
STACKS_LIMIT = 5.0  # s; a verdict waits for stacks no longer than this
OTHER_BYTES, COMMON_BYTES = 12000, 8000  # in the collective that does not match
THAW_AFTER = 5.0  # s after the verdict
# The end of the last line of a verdict: what ddprun does then.
ENDED, LEFT_ALONE, AT_WORK = "the workers are ended", "the workers are left alone", "it uses the CPU or does I/O"
# For each fault: the function of another thread or process that must be in the stacks.
ELSEWHERE = {"WaitForLoader": "SleepInLoaderProcess", "SaveFrozen": "CheckpointWriter"}


def verdict_of(console):
    """The lines of the first verdict, and the text about the action. Each is "" if there is none."""
    said = console.partition("hangs: ")[2]
    found = re.search("|".join((ENDED, LEFT_ALONE, AT_WORK)), said)
    return (said[:found.start()], found.group()) if found else (said, "")


def ranks_in(verdict):
    """The ranks that the verdict describes, in their order. Of missing ranks it describes one, after a colon."""
    return [int(rank) for rank in re.findall(
        r"(?:^|[:;] )(?:ddprun \S+ \w )?\s*rank (\d+) (?:on |\(pid)", verdict, re.M)]


def first_cause(job):
    report = json.loads(read(job.path("report0.json")) or "{}")
    causes = [*report.get("earlier_generations", []), report.get("root_cause")]
    return next((cause for cause in causes if cause), None)


def has_function(plan, job, frames, verdict):
    """True if the function of the fault is there. `frames`: the functions of the rank, as the root cause or the
    verdict shows them."""
    if plan["fault"] in ELSEWHERE:
        stacks = "".join(read(path) for path in glob.glob(job.path("logs*/*/stacks.*.txt")))
        return ELSEWHERE[plan["fault"]] in stacks
    return plan["fault"] in frames or (plan["fault"] == "WriteFrozen" and "disk wait" in verdict)


def described(rank, verdict):
    """The line with the frames of this rank; "" if there is none."""
    found = re.search(rf"^(?:ddprun \S+ \w )?  rank {rank}: .*$", verdict, re.M)
    return found.group() if found else ""


def judge_limit(limits, limit):
    """Returns what is wrong with the limit in a verdict. The time of the verdict is judged by this limit."""
    expected = (LEARNED_LIMIT if limits == "auto" else LIMIT, STARTUP_LIMIT)
    return {} if limit in expected else {"limit": f"{limit} s, expected one of {expected}"}


def judge_hang(job, plan, told_after):
    """Returns what is wrong with the verdict, and the values in it: ({what: text}, {what: value})."""
    verdict, action = verdict_of(read(job.path("err0")))
    age, limit = map(float, re.search(r"no rank has moved for ([\d.]+) s \(limit ([\d.]+) s\)", verdict).groups())
    wrong, seen = judge_limit(plan["limits"], limit), {
        "noticed": age, "limit": limit, "told": told_after, "action": action}
    if age > limit + MAY_BE_LATER:
        wrong["noticed"] = f"after {age} s, limit {limit} s"
    if told_after is None or told_after > limit + MAY_BE_LATER + STACKS_LIMIT:
        wrong["told"] = f"{told_after} s after the fault, limit {limit} s"
    if (action == LEFT_ALONE) == is_restarted(plan):
        wrong["action"] = f"{action or 'nothing is said of it'}, limits {plan['limits']}"
    cause = first_cause(job) if action != LEFT_ALONE else None
    named = {cause["rank"]} if cause else set()
    frames = " ".join(frame["function"] or "" for frame in cause.get("frames", [])[:5]) if cause else (
        described(plan["rank"], verdict))
    if plan["fault"] == "MismatchedSize":  # every rank is in a collective: no function is expected
        wrong_pair, of_pair = judge_mismatch(plan, verdict)
        return {**wrong, **wrong_pair}, {**seen, **of_pair}
    named = named or set(ranks_in(verdict)[:1])
    if not has_function(plan, job, frames, verdict):
        wrong["function"] = f"frames {frames or verdict}"
    if plan["rank"] not in named:
        wrong["rank"] = f"ranks {sorted(named)} are named: {verdict.splitlines()[1:3]}"
    return wrong, seen


def judge_mismatch(plan, text):
    """`text`: a verdict, or the description of a root cause. It must name the rank with the other size and a rank with
    the common one."""
    calls = {int(rank): int(size) for rank, size in re.findall(
        r"rank (\d+) on \S+ (?:\(pid \d+\) |and \d+ other ranks? )?entered all_reduce \d+ \((\d+) bytes\)", text)}
    is_right = calls.pop(plan["rank"], 0) == OTHER_BYTES and list(calls.values()) == [COMMON_BYTES]
    return {} if is_right else {"rank": f"not both ranks are named: {text}"}, {"both_named": is_right}


def judge_death(plan, cause):
    """Like judge_hang(), for a job in which Gloo ended a worker."""
    text = cause["description"]
    if plan["fault"] != "MismatchedSize":
        return {"noticed": f"it ended otherwise: {text}"}, {}
    wrong, seen = judge_mismatch(plan, text)
    return wrong, {**seen, "death": True}


def judge(job, plan, told_after, expected, stopped):
    """Returns what is wrong, {what: text}, and the values. `stopped`: the campaign itself had to end the job."""
    if "hangs: no rank has moved" in read(job.path("err0")):
        wrong, seen = judge_hang(job, plan, told_after)
    elif (cause := first_cause(job)):
        wrong, seen = judge_death(plan, cause)
    else:
        return {"noticed": "no root cause in the report"}, {}
    codes = [agent.poll() for agent in job.agents]
    if stopped:
        pass
    elif any(code != 0 for code in codes):
        wrong["ended"] = f"exit codes {codes}"
    elif not equal(plan["program"], job.result(), expected):
        wrong["ended"] = "other parameters than the undisturbed job"
    return wrong, seen


def await_verdict(job):
    """Waits for the verdict. Returns the time since the fault; None if the job ended before."""
    said = wait_until(lambda: job.ended() or "hangs: no rank has moved" in read(job.path("err0")), JOB_LIMIT)
    now = time.time()
    # Ranks that come to init after the fault have still moved.
    stands_since = max([*job.times("fault"), *job.times("at_init")], default=0)
    return round(now - stands_since / 1e9, 2) if said and job.times("fault") and not job.ended() else None


def left_alone(job):
    def action():
        return verdict_of(read(job.path("err0")))[1]
    wait_until(lambda: job.ended() or action(), STACKS_LIMIT)
    return action() == LEFT_ALONE


def run_seed(seed, binaries, arguments):
    plan = draw(seed)
    expected = undisturbed(plan, binaries)
    folder = tempfile.mkdtemp(prefix=f"ddprun-hang-{seed}-", dir="/var/tmp")
    disk = Disk(folder, "checkpoints" if plan["fault"] in OF_CHECKPOINTERS else "frozen")
    os.mkfifo(os.path.join(folder, "fifo"))
    if plan["fault"] == "WriteFrozen":
        disk.freeze()
    job = None
    try:
        job = Job(plan, folder, binaries, hang_flags=AUTO if plan["limits"] == "auto" else GIVEN)
        after = await_verdict(job)
        # The trainer itself freezes the disk of its checkpoints, so note it here.
        disk.frozen = disk.frozen or (plan["fault"] in OF_CHECKPOINTERS and bool(job.times("fault")))
        alone = left_alone(job)
        goes_on = disk.frozen or not alone
        if disk.frozen:
            wait_until(job.ended, THAW_AFTER)
            disk.thaw()
        elif alone:
            job.end()
        if not wait_until(job.ended, JOB_LIMIT):
            wrong, seen = {"ended": f"not within {JOB_LIMIT} s"}, {}
        else:
            wrong, seen = judge(job, plan, after, expected, stopped=not goes_on)
    finally:
        if job:
            job.end()
        disk.remove()
    record = {"seed": seed, **plan, **seen, "wrong": wrong}
    if wrong or arguments.keep:
        record["folder"] = folder
    else:
        shutil.rmtree(folder)
    return record


def show(records, _):
    """Prints the sums. Returns True if all results are as expected."""
    total = len(records)
    wrong = collections.Counter(what for record in records for what in record["wrong"])
    with_function = sum(record["fault"] != "MismatchedSize" for record in records)
    hung = [record for record in records if record.get("told")]
    print(f"{total} hangs: {total - wrong['noticed']} noticed within the limit + {MAY_BE_LATER:g} s, rank right in "
          f"{total - wrong['rank']}, function in {with_function - wrong['function']} of {with_function}, "
          f"{total - wrong['ended']} ended as undisturbed, {total - wrong['action']} were dealt with as they should")
    for how, is_death in (("verdict", False), ("death", True)):
        named = [record["both_named"] for record in records
                 if "both_named" in record and record.get("death", False) == is_death]
        if named:
            print(f"{len(named)} mismatches ended as a {how}, which named both ranks in {sum(named)}")
    for what in ("noticed", "told"):
        late = sorted(record[what] - record["limit"] for record in hung)
        if late:
            print(f"{what}: median {late[len(late) // 2]:.2f} s after the limit, last {late[-1]:.2f} s")
    return not (wrong["limit"] or wrong["noticed"] or wrong["told"] or wrong["ended"] or wrong["action"] or wrong["rank"] > 0.01 * total
                or wrong["function"] > 0.05 * with_function)


def why_impossible():
    tools = [tool for tool in ("mkfs.ext4", "fsfreeze", "mount") if not shutil.which(tool)]
    if tools:
        return f"{', '.join(tools)}: scripts/install_packages.sh --tests installs them"
    if not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        return "loop devices (/dev/loop-control)"
    probe = subprocess.run(["unshare", "--mount", "true"], text=True, capture_output=True, check=False)
    return f"CAP_SYS_ADMIN, for a disk that freezes: {probe.stderr.strip()}" if probe.returncode else ""


def campaign(description, seeds, in_ci, run_one, show_all, needed, add_flags=lambda parser: None,
             leaves_out=lambda seed, arguments: False):
    """Runs a campaign by its command line, and returns its exit code. `seeds`: the default. `in_ci`: the seeds of
    slices.py. `needed`: files in build/bin. `run_one` gets the seed, build/bin and the arguments; `show_all` gets the
    records and the arguments; `leaves_out` gets the seed and the arguments."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", default=seeds, help="FIRST:LAST, or ci")
    parser.add_argument("--out", default="")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parser.add_argument("--keep", action="store_true", help="the folders of runs that went well, too")
    add_flags(parser)
    arguments = parser.parse_args()
    if (why := why_impossible()):
        print(f"left out, it needs {why}", file=sys.stderr)
        return 1 if os.environ.get("DDPRUN_TESTS") == "all" else MISSING
    if (missing := [name for name in needed if not os.path.exists(os.path.join(arguments.bin, name))]):
        print(f"{arguments.bin} has no {', '.join(missing)}: build with -DDDPRUN_TESTS=ON", file=sys.stderr)
        return 2
    if INSIDE not in os.environ:  # mounts of its own, so that no mount outlives the campaign
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    records = [json.loads(line) for line in read(arguments.out).splitlines()] if arguments.out else []
    done = {record["seed"] for record in records}
    for seed in slices.seeds(arguments.seeds, in_ci):
        if seed in done or leaves_out(seed, arguments):
            continue
        record = run_one(seed, os.path.abspath(arguments.bin), arguments)
        records.append(record)
        print(json.dumps(record), flush=True)
        if arguments.out:
            with open(arguments.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
    return 0 if show_all(records, arguments) else 1


if __name__ == "__main__":
    sys.exit(campaign(
        __doc__, "1:200", slices.HANGS, run_seed, show, ("ddprun", "hang_trainer"),
        lambda parser: parser.add_argument("--fault", choices=FAULTS, help="only the seeds with this fault"),
        lambda seed, arguments: arguments.fault not in (None, draw(seed)["fault"])))
