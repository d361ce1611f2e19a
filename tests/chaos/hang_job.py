"""The job of hang_campaign.py and no_hang_campaign.py: the trainer, and a disk that freezes."""
import array
import os
import subprocess
import sys
import tempfile

from campaign_hosts import read, run, wait_until
from hang_plan import WORKERS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 5.0  # s, --hang-timeout
LEARNED_LIMIT = 30.0  # s, the minimum of the learned limit; no interval here is longer than a fifth of it
STARTUP_LIMIT = 15.0  # s, until the first step; enough time to load torch on a busy machine
JOB_LIMIT = 180.0
# Flags of ddprun. AUTO has no --on-hang and no limit except that of the start: the defaults.
GIVEN = ("--hang-timeout", f"{LIMIT:g}s", "--hang-startup-timeout", f"{STARTUP_LIMIT:g}s", "--on-hang", "restart")
AUTO = ("--hang-startup-timeout", f"{STARTUP_LIMIT:g}s")


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
    def __init__(self, plan, folder, binaries, disturbed=True, environment=(), hang_flags=GIVEN):
        self.plan, self.folder = plan, folder
        self._ddprun = os.path.join(binaries, "ddprun")
        self._environment = {
            **os.environ, "DDPRUN_STATE_HOME": os.path.join(folder, "state_home"), "GLOO_SOCKET_IFNAME": "lo",
            "PYTHON_EXEC": "/usr/bin/python3", "OMP_NUM_THREADS": "1", **dict(environment)}
        os.makedirs(self._environment["DDPRUN_STATE_HOME"], mode=0o700)
        fault = plan["fault"] if disturbed else "none"
        self._flags = []
        command = self._command(binaries, [folder, fault, plan["place"], str(plan["rank"])])
        flags = ["--nnodes", str(plan["nodes"]), "--nproc-per-node", str(WORKERS), "--max-restarts", "2", *hang_flags,
                 *self._flags]
        if plan["program"] == "unmodified":
            flags.append("--auto-step")
        self.daemon = None
        if plan["nodes"] == 1:
            flags.append("--standalone")
        else:
            self._port = "0"
            self.start_daemon()
            flags += ["--rdzv-endpoint", "127.0.0.1:" + self._port, "--rdzv-id", "job"]
        # SIGTSTP does not stop a process group whose only parent is in another session, so each agent has a group of
        # its own.
        self.agents = [subprocess.Popen(
            [self._ddprun, *flags, "--log-dir", os.path.join(folder, f"logs{i}"), "--report", self.path(f"report{i}.json"),
             *command], stdout=open(self.path(f"out{i}"), "wb"), stderr=open(self.path(f"err{i}"), "wb"),
            env=self._environment, process_group=0) for i in range(plan["nodes"])]

    def _command(self, binaries, arguments):
        program = self.plan["program"]
        if program == "cpp":
            return [os.path.join(binaries, "hang_trainer"), *arguments]
        python = [os.path.join(ROOT, "tests/programs/hang_trainer.py"), *arguments, program]
        if program != "wrapper":
            return python
        run(self._ddprun, "python-module", self.path("module"))
        self._environment["PYTHONPATH"] = self.path("module")
        version = subprocess.run(
            ["/usr/bin/python3", "-c", "import importlib.metadata; print(importlib.metadata.version('torch'))"],
            capture_output=True, text=True, check=True).stdout
        if int(version.split(".")[0]) >= 2:
            # Debian's torch 2.x is built without libuv (docs/store.md).
            self._flags += ["--store", "worker"]
            self._environment["USE_LIBUV"] = "0"
        # More than one command, so that the shell does not exec Python.
        return ["/bin/sh", "-c", '/usr/bin/python3 "$0" "$@"; exit $?', *python]

    def path(self, name):
        return os.path.join(self.folder, name)

    def start_daemon(self):
        """Starts the daemon: the first time on any port, later on the same port with its earlier state."""
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

    def times(self, name):
        """The times that the ranks have written to a file, in ns."""
        return sorted(map(int, read(self.path(name)).split()))

    def result(self):
        with open(self.path("result"), "rb") as file:
            return file.read()


def undisturbed(plan, binaries, known={}):  # once for each program and number of ranks
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


def equal(program, one, other):
    """Compares parameters, which are bytes of float32."""
    if program == "cpp":
        return one == other
    pairs = list(zip(array.array("f", one), array.array("f", other), strict=True))
    return all(abs(a - b) <= 1e-5 * max(abs(a), abs(b), 1e-3) for a, b in pairs)
