"""A Slurm of four nodes on this host (cluster.sh), its jobs, and the processes on its nodes. A *life* of a job begins
when Slurm starts the job, and ends when the job ends or goes back to the queue."""
import gzip
import os
import re
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NODES = 4


class Wrong(Exception):
    """The test has failed: something expected did not happen."""


def check(condition, what):
    if not condition:
        raise Wrong(what)


def wait_until(condition, what, seconds=60):
    """Polls, because neither Slurm nor a process on another node announces anything."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.01)
    raise Wrong(f"not within {seconds} s: {what() if callable(what) else what}")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


class Cluster:
    """The cluster runs as long as the with-block."""

    def __init__(self, folder, bin_folder):
        self.folder = folder
        self.bin = bin_folder
        self.work = os.path.join(folder, "work")  # the current folder of every job

    def __enter__(self):
        try:
            self.control("start", str(NODES))
        except BaseException:
            self.control("stop")
            raise
        os.makedirs(self.work)
        self.environment = {**os.environ, "SLURM_CONF": os.path.join(self.folder, "slurm.conf")}
        return self

    def __exit__(self, *error):
        self.control("stop")

    def control(self, *words):
        """Runs cluster.sh: start, stop, crash, boot, cut, restore, hide, unhide."""
        subprocess.run([os.path.join(HERE, "cluster.sh"), self.folder, *words], check=True)

    def declare_down(self, node):
        """Tells Slurm that the node is down. Slurm would find this out by itself after SlurmdTimeout."""
        self.slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")

    def declare_up(self, node):
        """Tells Slurm that the node is back. The node's slurmd also reports itself and its jobs. If it has
        done so before, the node is up already, and Slurm refuses RESUME."""
        resume = ["scontrol", "update", f"NodeName={node}", "State=RESUME"]
        done = subprocess.run(resume, env=self.environment, text=True, capture_output=True,
                              check=False)
        if done.returncode != 0:
            state = self.slurm("sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip()
            check("down" not in state, f"{' '.join(resume)}: {done.stderr}; {node} is {state}")
        self.slurm("scontrol", "reconfigure")

    def path(self, name):
        return os.path.join(self.work, name)

    def ddprun(self):
        return os.path.join(self.bin, "ddprun")

    def _data(self):
        """MNIST with 500 test images, so that the pause at the end of an epoch is short."""
        folder = self.path("data")
        if not os.path.exists(folder):
            os.makedirs(folder)
            source = os.path.join(ROOT, "tests/data/mnist")
            for name, header, size in (("t10k-images-idx3-ubyte", 16, 28 * 28),
                                       ("t10k-labels-idx1-ubyte", 8, 1)):
                with gzip.open(os.path.join(source, name + ".gz")) as file:
                    content = file.read()
                content = content[:4] + (500).to_bytes(4, "big") + content[8:header + 500 * size]
                with gzip.open(os.path.join(folder, name + ".gz"), "wb") as file:
                    file.write(content)
            for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"):
                os.symlink(os.path.join(source, name), os.path.join(folder, name))
        return folder

    def mnist(self, *flags, train=2000):
        """The command of a worker: MNIST, with a step log in the job's folder."""
        return [os.path.join(self.bin, "mnist_ddp"), "--data", self._data(),
                "--limit-train", str(train), "--step-log", self.path("steps"), *flags]

    def slurm(self, *command):
        done = subprocess.run(command, cwd=self.work, env=self.environment, text=True,
                              capture_output=True, check=False)
        check(done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, script, *options):
        """Submits a batch job with this script."""
        with open(self.path("job.sh"), "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + script)
        output = self.slurm("sbatch", "--parsable", f"--nodes={NODES}", "--output=job.out",
                            "--open-mode=append", *options, "job.sh")
        return self.job(output.strip())

    def job(self, job_id):
        return Job(self, job_id)

    def pids(self, node):
        """{pid: command line} of the processes on this node, without those of the node itself."""
        init = self.init_of(node)
        if init is None:
            return {}
        space = os.stat(f"/proc/{init}/ns/pid").st_ino
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{name}/ns/pid").st_ino != space or int(name) == init:
                    continue
                command = read(f"/proc/{name}/cmdline").replace("\0", " ").strip()
                if command and not command.startswith(("slurmd ", "slurmstepd: [", "bash -c hostname")):
                    found[int(name)] = command
            except OSError:  # it has ended, or it runs on no node
                continue
        return found

    def init_of(self, node):
        words = read(os.path.join(self.folder, "pids", f"slurmd.{node}")).split()
        children = read(f"/proc/{words[0]}/task/{words[0]}/children").split() if words else []
        return int(children[0]) if children else None

    def pid(self, node, pattern):
        """The pid of the one process on this node whose name and command line match."""
        def find():
            found = [pid for pid, command in self.pids(node).items()
                     if re.search(pattern, read(f"/proc/{pid}/comm").strip() + "|" + command)]
            return found[0] if len(found) == 1 else None
        return wait_until(find, lambda: f"one process {pattern} on {node}: {self.pids(node)}", 20)

    def kill(self, node, pattern):
        os.kill(self.pid(node, pattern), signal.SIGKILL)

    def expect_nothing_left(self, nodes=range(1, NODES + 1)):
        for node in (f"n{i}" for i in nodes):
            try:
                wait_until(lambda n=node: not self.pids(n), "", 15)
            except Wrong:
                raise Wrong(f"left on {node}: {self.pids(node)}") from None

    # ---- what the workers have written ----

    def steps(self, rank=0):
        """The numbers of the steps in this rank's step log, of all generations and lives."""
        return [int(line.split()[2]) for line in read(self.path(f"steps/rank{rank}.log")).splitlines()
                if line != "started"]

    def wait_for_step(self, step, rank=0, seconds=60):
        wait_until(lambda: step in self.steps(rank), f"step {step} of rank {rank}", seconds)


class Job:
    def __init__(self, cluster, job_id):
        self.cluster = cluster
        self.id = job_id

    def show(self):
        text = self.cluster.slurm("scontrol", "show", "job", "-o", self.id)
        return dict(re.findall(r"(\S+?)=(\S*)", text))

    def wait_for(self, seconds=100, **wanted):
        """Waits until `scontrol show job` has these values."""
        def there():
            shown = self.show()
            return all(shown[name] == value for name, value in wanted.items())
        wait_until(there, lambda: f"job {self.id} has {wanted}: {self.show()}\n{self.output()}", seconds)

    def expect_end(self, state, exit_code, seconds=100):
        """`state` and `exit_code` as Slurm shows them: COMPLETED and 0:0."""
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")
        shown = wait_until(lambda: next((s for s in [self.show()] if s["JobState"] in over), None),
                           lambda: f"the end of job {self.id}:\n{self.output()}", seconds)
        check((shown["JobState"], shown["ExitCode"]) == (state, exit_code),
              f"{shown['JobState']} {shown['ExitCode']}, not {state} {exit_code}:\n{self.output()}")

    def output(self):
        return read(self.cluster.path("job.out"))

    def wait_for_output(self, pattern, seconds=60):
        return wait_until(lambda: re.search(pattern, self.output()),
                          lambda: f"{pattern} in:\n{self.output()}", seconds)

    def expect_output(self, pattern):
        check(re.search(pattern, self.output()), f"no {pattern} in:\n{self.output()}")
