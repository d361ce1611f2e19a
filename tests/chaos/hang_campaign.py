#!/usr/bin/python3
"""Jobs in which one rank stops moving: is it noticed in time, is the right rank named, does the job go on?

    tests/chaos/hang_campaign.py --seeds 1:200 --out FILE

A seed draws a fault, the place in the training where it happens, the rank, the program (C++ with ddp::, Python
with the module ddprun, unmodified Python with --auto-step), and one or two nodes with two workers each. All run
with --on-hang restart. Expected:

    noticed     at the limit + 2 s at the latest; it is told once the stacks are there, or 5 s later
    rank        the verdict names the rank with the fault; where collectives do not match, among others
    function    the function in which it stays is among the innermost five that the verdict shows of it
    ended       the job goes on to its end, and its parameters are those of an undisturbed job: to the last bit with
                ddp::, which keeps the order of its gradient buckets over a restart; in Python to 1e-5 of each value

Where collectives do not match, Gloo may end a worker instead: no hang, but a failure with its root cause, which names
both ranks. Of three and more ranks this needs a program that tells of its collectives, which Python programs do not:
there the cause says that a peer had another size. Such runs are not judged by `rank`, and are counted apart.
Each seed's result is one line of JSON in FILE; finished seeds are skipped. Exits 1 if something was not noticed in
time, if a job did not end well, or if ranks (99 %) or functions (95 %) are wrong too often.

Needs root, for a disk that freezes, python3-torch, and build/bin with ddprun and hang_trainer.
"""
import argparse
import array
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import slices
from campaign_world import read, run, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MISSING = 77  # the exit code that CTest takes for "skipped"
INSIDE = "DDPRUN_HANG_CAMPAIGN_INSIDE"

FAULTS = ("StopItself", "LoopForEver", "LockTwice", "SleepInLoading", "ReadFifo", "WriteFrozen", "WaitForThread",
          "SkipCollective", "MismatchedSize")
OF_COLLECTIVES = ("SkipCollective", "MismatchedSize")
PLACES = ("before_init", "first_step", "step", "checkpoint", "evaluation")
PROGRAMS = ("cpp", "module", "unmodified")
WORKERS = 2  # of a node
LIMIT = 5.0  # s, --hang-timeout
STARTUP_LIMIT = 15.0  # until the first step; loading torch on a busy machine must fit
MAY_BE_LATER = 2.0
STACKS_LIMIT = 5.0  # s that a verdict waits for stacks at most
THAW_AFTER = 5.0  # s from the verdict
JOB_LIMIT = 180.0


def draw(seed):
    rng = random.Random(seed)
    while True:
        plan = {"fault": rng.choice(FAULTS), "place": rng.choice(PLACES), "program": rng.choice(PROGRAMS),
                "nodes": rng.choice((1, 2))}
        plan["rank"] = rng.choice((0, rng.randrange(1, plan["nodes"] * WORKERS)))
        # There is no collective before init.
        if not (plan["fault"] in OF_COLLECTIVES and plan["place"] == "before_init"):
            return plan


class Disk:
    """A file system in a file, which can be frozen."""

    def __init__(self, folder, name="frozen"):
        self.place = os.path.join(folder, name)
        self.frozen = False
        image = os.path.join(folder, "disk")
        os.mkdir(self.place)
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        run("mkfs.ext4", "-q", "-F", image)
        run("mount", "-o", "loop", image, self.place)

    def freeze(self):
        run("fsfreeze", "--freeze", self.place)
        self.frozen = True

    def thaw(self):
        if self.frozen:
            run("fsfreeze", "--unfreeze", self.place)
            self.frozen = False

    def remove(self):
        self.thaw()
        run("umount", "--lazy", self.place)


class Job:
    def __init__(self, plan, folder, binaries, disturbed=True, environment=(),
                 limits=(f"{LIMIT:g}s", f"{STARTUP_LIMIT:g}s")):
        self.plan, self.folder = plan, folder
        fault = plan["fault"] if disturbed else "none"
        arguments = [folder, fault, plan["place"], str(plan["rank"])]
        if plan["program"] == "cpp":
            command = [os.path.join(binaries, "hang_trainer"), *arguments]
        else:
            command = [os.path.join(ROOT, "tests/programs/hang_trainer.py"), *arguments, plan["program"]]
        flags = ["--nnodes", str(plan["nodes"]), "--nproc-per-node", str(WORKERS), "--max-restarts", "2",
                 "--hang-timeout", limits[0], "--hang-startup-timeout", limits[1], "--on-hang", "restart"]
        if plan["program"] == "unmodified":
            flags.append("--auto-step")
        self._ddprun = os.path.join(binaries, "ddprun")
        self._environment = {
            **os.environ, "DDPRUN_STATE_HOME": os.path.join(folder, "state_home"), "GLOO_SOCKET_IFNAME": "lo",
            "PYTHON_EXEC": "/usr/bin/python3", "OMP_NUM_THREADS": "1", **dict(environment)}
        os.makedirs(self._environment["DDPRUN_STATE_HOME"], mode=0o700)
        self.daemon = None
        if plan["nodes"] == 1:
            flags.append("--standalone")
        else:
            self._port = "0"
            self.start_daemon()
            flags += ["--rdzv-endpoint", "127.0.0.1:" + self._port, "--rdzv-id", "job"]
        # SIGTSTP does not stop a process group whose only parent is in another session, so each has a group of its own.
        self.agents = [subprocess.Popen(
            [self._ddprun, *flags, "--log-dir", os.path.join(folder, f"logs{i}"), "--report", self.path(f"report{i}.json"),
             *command], stdout=open(self.path(f"out{i}"), "wb"), stderr=open(self.path(f"err{i}"), "wb"),
            env=self._environment, process_group=0) for i in range(plan["nodes"])]

    def path(self, name):
        return os.path.join(self.folder, name)

    def start_daemon(self):
        """The first time on any port, later on the same one, with what it has kept."""
        port_file = self.path("port")
        self.daemon = subprocess.Popen(
            [self._ddprun, "rendezvous", "--listen", "127.0.0.1:" + self._port, "--port-file", port_file,
             "--state-dir", self.path("state")],
            stdout=subprocess.DEVNULL, stderr=open(self.path("daemon.err"), "ab"), env=self._environment)
        wait_until(lambda: read(port_file), 30)
        self._port = read(port_file).strip()

    def ended(self):
        return all(agent.poll() is not None for agent in self.agents)

    def end(self):
        for process in [*self.agents, *([self.daemon] if self.daemon else [])]:
            if process.poll() is None:
                process.terminate()
        for process in [*self.agents, *([self.daemon] if self.daemon else [])]:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def result(self):
        with open(self.path("result"), "rb") as file:
            return file.read()


def undisturbed(plan, binaries, known={}):  # one for each program and number of ranks
    key = (plan["program"], plan["nodes"])
    if key not in known:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            job = Job(plan, folder, binaries, disturbed=False)
            try:
                wait_until(job.ended, JOB_LIMIT)
                if any(agent.poll() != 0 for agent in job.agents):
                    sys.exit(f"the undisturbed job did not end well:\n{read(job.path('err0'))}")
                known[key] = job.result()
            finally:
                job.end()
    return known[key]


def first_cause(job):
    report = json.loads(read(job.path("report0.json")) or "{}")
    causes = [*report.get("earlier_generations", []), report.get("root_cause")]
    return next((cause for cause in causes if cause), None)


def equal(program, one, other):
    """Parameters as bytes of float32."""
    if program == "cpp":
        return one == other
    pairs = list(zip(array.array("f", one), array.array("f", other), strict=True))
    return all(abs(a - b) <= 1e-5 * max(abs(a), abs(b), 1e-3) for a, b in pairs)


def judge(job, plan, told_after, expected):
    """What is wrong: {what: text}, and what was seen."""
    console = read(job.path("err0"))
    cause = first_cause(job)
    if cause is None:
        return {"noticed": "no root cause in the report"}, {}
    wrong = {}
    hung = cause["kind"] == "hung"
    seen = {"kind": cause["kind"]}
    if hung:
        age, limit = re.search(r"no rank has moved for ([\d.]+) s \(limit ([\d.]+) s\)", cause["description"]).groups()
        seen |= {"noticed": float(age), "limit": float(limit), "told": told_after}
        if float(age) > float(limit) + MAY_BE_LATER:
            wrong["noticed"] = f"after {age} s, limit {limit} s"
        if told_after is None or told_after > float(limit) + MAY_BE_LATER + STACKS_LIMIT:
            wrong["told"] = f"{told_after} s after the fault, limit {limit} s"
    mismatch = plan["fault"] == "MismatchedSize"  # every rank is in a collective: no function is expected
    if not hung and not mismatch:
        wrong["noticed"] = f"it ended otherwise: {cause['description']}"
    # The culprits are named in the lines of the verdict, up to the one that says what is done.
    verdict = console.partition("hangs: ")[2].partition("the workers are ended")[0] if hung else ""
    named = {int(rank) for rank in re.findall(r"^(?:ddprun \S+ \w )?\s*ranks? (\d+)", verdict, re.M)}
    named |= {cause["rank"]}
    if mismatch and not hung:
        named |= {int(rank) for rank in re.findall(r"\branks? (\d+)", cause["description"])}
        named |= {int(rank) for rank in re.findall(r"\branks \d+ and (\d+)", cause["description"])}
        seen["both_named"] = plan["rank"] in named and len(named) > 1
    peer_is_unknown = mismatch and not hung and plan["program"] != "cpp" and plan["nodes"] * WORKERS > 2
    if peer_is_unknown and "a peer entered a collective with different sizes" in cause["description"]:
        pass
    elif plan["rank"] != cause["rank"] and not (mismatch and plan["rank"] in named):
        wrong["rank"] = f"rank {cause['rank']} is named: {cause['description']}"
    if hung and not mismatch:
        frames = [frame["function"] or "" for frame in cause.get("frames", [])][:5]
        if not any(plan["fault"] in frame for frame in frames) and not (
                plan["fault"] == "WriteFrozen" and "disk wait" in verdict):
            wrong["function"] = f"frames {frames}"
    codes = [agent.poll() for agent in job.agents]
    if any(code != 0 for code in codes):
        wrong["ended"] = f"exit codes {codes}"
    elif not equal(plan["program"], job.result(), expected):
        wrong["ended"] = "other parameters than the undisturbed job"
    return wrong, seen


def run_seed(seed, binaries, keep):
    plan = draw(seed)
    expected = undisturbed(plan, binaries)
    folder = tempfile.mkdtemp(prefix=f"ddprun-hang-{seed}-", dir="/var/tmp")
    disk = Disk(folder)
    os.mkfifo(os.path.join(folder, "fifo"))
    if plan["fault"] == "WriteFrozen":
        disk.freeze()
    job = None
    try:
        job = Job(plan, folder, binaries)
        said = wait_until(lambda: job.ended() or "hangs: no rank has moved" in read(job.path("err0")), JOB_LIMIT)
        now = time.time()
        fault_at = read(job.path("fault")).split()
        # Ranks that still came to init after the fault have moved.
        stands_since = max(map(int, [*fault_at, *read(job.path("at_init")).split()]), default=0)
        after = round(now - stands_since / 1e9, 2) if said and fault_at and not job.ended() else None
        if disk.frozen:
            wait_until(job.ended, THAW_AFTER)
            disk.thaw()
        if not wait_until(job.ended, JOB_LIMIT):
            wrong, seen = {"ended": f"not within {JOB_LIMIT} s"}, {}
        else:
            wrong, seen = judge(job, plan, after, expected)
    finally:
        if job:
            job.end()
        disk.remove()
    record = {"seed": seed, **plan, **seen, "wrong": wrong}
    if wrong or keep:
        record["folder"] = folder
    else:
        shutil.rmtree(folder)
    return record


def show(records):
    """Prints the sums. True: all as it should be."""
    total = len(records)
    wrong = collections.Counter(what for record in records for what in record["wrong"])
    with_function = sum(record["fault"] != "MismatchedSize" for record in records)
    hung = [record for record in records if record.get("told")]
    print(f"{total} hangs: {total - wrong['noticed']} noticed within the limit + {MAY_BE_LATER:g} s, rank right in "
          f"{total - wrong['rank']}, function in {with_function - wrong['function']} of {with_function}, "
          f"{total - wrong['ended']} ended as undisturbed")
    deaths = [record["both_named"] for record in records if "both_named" in record]
    if deaths:
        print(f"{len(deaths)} mismatches ended as a death, which named both ranks in {sum(deaths)}")
    for what in ("noticed", "told"):
        late = sorted(record[what] - record["limit"] for record in hung)
        if late:
            print(f"{what}: median {late[len(late) // 2]:.2f} s after the limit, last {late[-1]:.2f} s")
    return not (wrong["noticed"] or wrong["told"] or wrong["ended"] or wrong["rank"] > 0.01 * total
                or wrong["function"] > 0.05 * with_function)


def why_impossible():
    tools = [tool for tool in ("mkfs.ext4", "fsfreeze", "mount") if not shutil.which(tool)]
    if tools:
        return f"{', '.join(tools)}: scripts/install_packages.sh --tests installs them"
    if not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        return "loop devices (/dev/loop-control)"
    probe = subprocess.run(["unshare", "--mount", "true"], text=True, capture_output=True, check=False)
    return f"CAP_SYS_ADMIN, for a disk that freezes: {probe.stderr.strip()}" if probe.returncode else ""


def campaign(description, seeds, in_ci, run_one, show_all, needed):
    """The command line of a campaign; its exit code. `seeds`: by default. `in_ci`: those of slices.py. `needed`: files
    of build/bin."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", default=seeds, help="FIRST:LAST, or ci")
    parser.add_argument("--out", default="")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parser.add_argument("--keep", action="store_true", help="the folders of runs that went well, too")
    arguments = parser.parse_args()
    if (why := why_impossible()):
        print(f"left out, it needs {why}", file=sys.stderr)
        return 1 if os.environ.get("DDPRUN_TESTS") == "all" else MISSING
    if (missing := [name for name in needed if not os.path.exists(os.path.join(arguments.bin, name))]):
        print(f"{arguments.bin} has no {', '.join(missing)}: build with -DDDPRUN_TESTS=ON", file=sys.stderr)
        return 2
    if INSIDE not in os.environ:  # mounts of its own: none outlives the campaign
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    records = [json.loads(line) for line in read(arguments.out).splitlines()] if arguments.out else []
    done = {record["seed"] for record in records}
    for seed in slices.seeds(arguments.seeds, in_ci):
        if seed in done:
            continue
        record = run_one(seed, os.path.abspath(arguments.bin), arguments.keep)
        records.append(record)
        print(json.dumps(record), flush=True)
        if arguments.out:
            with open(arguments.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
    return 0 if show_all(records) else 1


if __name__ == "__main__":
    sys.exit(campaign(__doc__, "1:200", slices.HANGS, run_seed, show, ("ddprun", "hang_trainer")))
