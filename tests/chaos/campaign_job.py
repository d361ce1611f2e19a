"""One job on hosts of its own, as the campaigns start and break it: its agents, its rendezvous, and the records of its
workers (tests/programs/campaign_worker.cc).

Names contain the pid and the seed, so that several campaigns can run at once. A guard process removes everything when
this process ends, also by Ctrl-C or SIGKILL.

One thread.
"""
import os
import secrets
import signal
import struct
import subprocess
import time

from campaign_hosts import LEFT_LIMIT_S, Guard, Network, children, environment_of, read, wait_until
from campaign_verdict import End, parse_life

WORKERS_PER_NODE = 2
WHOLE_LIMIT_S = 45  # so long after the last fault, the job must be whole again
END_LIMIT_S = 30
SERVER_END_LIMIT_S = 10


class Trouble(Exception):
    """The seed cannot continue: ddprun missed a time limit, or a process ended that must not."""


class JobWorld:
    """A job with its files in `folder`; use it in a `with`. A subclass names the processes and their hosts."""

    nodes = ("node0", "node1", "node2")  # each a host, and the agent on it
    servers = ()  # processes that serve the agents, in the order in which they start
    hosts = ()

    def __init__(self, folder, seed, bin_folder, nnodes, worker_options=(), disks=()):
        self.folder = folder
        self.job = f"campaign-{os.getpid()}-{seed}"
        self.bin = bin_folder
        self.network = Network(f"ddprun-{self.job}", self.hosts)
        self.ends = []
        self.missed = []  # faults that found nothing to break
        self._nnodes = nnodes
        self._disks = disks
        self._worker_options = list(worker_options)
        self._processes = {}  # by name
        self._harmed = {}  # by name: what was done to it
        self._awaited = set()  # names of processes that are started again when they have ended
        self._stopped = {}  # the pidfds of each fault
        self._clocks = {}

    # ---- what differs between campaigns ----

    def host_of(self, name):
        return name

    def command(self, name):
        """The command of the process `name`."""
        raise NotImplementedError

    def may_start(self, _):
        """True if a killed process of that name may be started again now."""
        return True

    def prepare(self):
        """Called before anything starts."""

    # ---- from the start to the end ----

    def __enter__(self):
        self._guard = Guard("".join([*(disk.thawing() for disk in self._disks), self.network.cleanup(),
                                     *(disk.cleanup() for disk in self._disks)]))
        try:
            for folder in ("alive", "tmp"):
                os.mkdir(self.path(folder))
            with open(self.path("token"), "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(secrets.token_hex(32))
            for disk in self._disks:
                disk.make()
            os.makedirs(self.path("checkpoints/steps"))
            self.network.make()
            for host in self.hosts:
                self.step_clock(host, 0)
            self.prepare()
            for name in (*self.servers, *self.nodes):
                self.start(name)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for pidfd in [fd for fds in self._stopped.values() for fd in fds]:
            os.close(pidfd)
        self._guard.clean_up()
        for process in self._processes.values():
            process.wait()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    @property
    def ddprun(self):
        return os.path.join(self.bin, "ddprun")

    def agent_command(self, name, endpoint):
        return [self.ddprun, "--rdzv-endpoint", endpoint, "--rdzv-id", self.job, "--token-file", self.path("token"),
                "--nnodes", self._nnodes, "--nproc-per-node", str(WORKERS_PER_NODE),
                "--max-restarts", "1000", "--stop-grace", "2s", "--store", "worker",
                "--rdzv-conf", "last_call_timeout=1",
                "--log-dir", self.path(f"logs/{name}"), "--checkpoint-dir", self.path("checkpoints/steps"),
                "--", os.path.join(self.bin, "campaign_worker"), self.path("alive"), *self._worker_options]

    def start(self, name):
        host = self.host_of(name)
        clock = ["env", "LD_PRELOAD=" + os.path.join(self.bin, "wall_clock_offset.so"),
                 "WALL_CLOCK_OFFSET_FILE=" + self.path(f"{host}.clock")]
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("DDPRUN_", "PET_", "SLURM_"))}
        with open(self.path(f"{name}.out"), "ab") as out, open(self.path(f"{name}.err"), "ab") as err:
            self._processes[name] = subprocess.Popen(
                self.network.on(host, clock + self.command(name)), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                cwd=self.folder, env={**environment, "TMPDIR": self.path("tmp")}, start_new_session=True)
        self._harmed[name] = ""

    def runs(self, name):
        return self._processes[name].poll() is None

    def find(self, name, what):
        """The pids of a process of that name, or of its "guardian" or "workerN" if it is an agent, or of "all"
        processes on its host. Empty if there are none now."""
        if not self.runs(name):
            return []
        pid = self._processes[name].pid
        if what == "all":
            return self.network.pids(self.host_of(name))
        if what != "guardian" and not what.startswith("worker"):
            return [pid]
        guardians = [child for child in children(pid) if read(f"/proc/{child}/cmdline").startswith("ddprun-guardian")]
        if what == "guardian":
            return guardians
        local_rank = what[len("worker"):]
        return [child for guardian in guardians for child in children(guardian)
                if "campaign_worker" in read(f"/proc/{child}/cmdline")
                and environment_of(child).get("LOCAL_RANK") == local_rank]

    def poll(self):
        """Restarts processes that were killed and have ended; no other process may end."""
        for name, process in list(self._processes.items()):
            if process.poll() is None:
                continue
            if name in self._awaited:
                if not self.may_start(name):
                    continue
                self._awaited.discard(name)
                self.ends.append(End(name, process.returncode, self._harmed[name], last=False))
                self.start(name)
            elif not self._harmed[name]:
                raise Trouble(f"the process {name} ended with {process.returncode} and nobody had killed it")

    def wait(self, condition, seconds, pause=0.02):
        def done():
            self.poll()
            return condition()
        return wait_until(done, seconds, pause)

    # ---- faults ----

    def stop(self, number, pids):
        self._stopped[number] = [os.pidfd_open(pid) for pid in pids]
        self._signal(self._stopped[number], signal.SIGSTOP)

    def resume(self, number):
        self._signal(self._stopped.get(number, ()), signal.SIGCONT)

    def kill(self, pids, signo=signal.SIGKILL):
        fds = [os.pidfd_open(pid) for pid in pids]
        self._signal(fds, signo)
        for fd in fds:
            os.close(fd)

    @staticmethod
    def _signal(pidfds, signo):
        for pidfd in pidfds:
            try:
                signal.pidfd_send_signal(pidfd, signo)
            except ProcessLookupError:
                pass  # the process has ended

    def step_clock(self, host, seconds):
        """Steps the wall clock of a host: its processes have mapped the file (tests/programs/wall_clock_offset.cc)."""
        if host not in self._clocks:
            self._clocks[host] = os.open(self.path(f"{host}.clock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.pwrite(self._clocks[host], struct.pack("=q", seconds * 1_000_000_000), 0)

    # ---- what the campaign sees ----

    def lives(self, since=0.0):
        """The records of all workers, or only of workers that wrote after `since` (wall clock)."""
        files = [entry for entry in os.scandir(self.path("alive")) if entry.stat().st_mtime >= since]
        lives = [parse_life(file.name, read(file.path)) for file in sorted(files, key=lambda file: file.name)]
        return tuple(life for life in lives if life)

    def _is_whole(self):
        training = {(life.generation, life.rank) for life in self.lives(time.time() - 0.3) if life.begin}
        return len(training) == len(self.nodes) * WORKERS_PER_NODE and len({g for g, _ in training}) == 1

    def wait_for_whole(self):
        """Waits until every rank of all nodes trains in one generation."""
        if not self.wait(self._is_whole, WHOLE_LIMIT_S, 0.1):
            raise Trouble(f"not all ranks train together after {WHOLE_LIMIT_S} s")

    def finish(self):
        """Lets the training end, and waits for every ddprun. Collects how they ended."""
        with open(self.path("alive.go"), "wb"):
            pass
        agents = [self._processes[node] for node in self.nodes]
        if not wait_until(lambda: all(agent.poll() is not None for agent in agents), END_LIMIT_S):
            raise Trouble(f"the training may end, and {END_LIMIT_S} s later not all agents have ended")
        self.finish_servers()
        self.ends += [End(name, self._processes[name].returncode, self._harmed[name])
                      for name in (*self.servers, *self.nodes)]

    def finish_servers(self):
        self.terminate(self.servers)

    def terminate(self, names):
        for name in names:
            self._processes[name].terminate()
        for name in names:
            if not wait_until(lambda name=name: not self.runs(name), SERVER_END_LIMIT_S):
                raise Trouble(f"the process {name} has not ended {SERVER_END_LIMIT_S} s after SIGTERM")

    def left(self):
        """The left-overs of an ended job."""
        wait_until(lambda: not self.network.pids(), LEFT_LIMIT_S)
        left = [f"process {pid} ({read(f'/proc/{pid}/cmdline').replace(chr(0), ' ').strip()})"
                for pid in self.network.pids()]
        left += [f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if self.job in name]
        # An agent that is killed together with its guardian leaves the folder of its socket. So may an agent that was
        # killed before: its guardian removes the folder after its report, which may take 9 s.
        folders = sorted(os.listdir(self.path("tmp")))
        gone = {end.who for end in self.ends if end.harmed == "all" and end.who in self.nodes}
        if len(folders) > sum(bool(end.harmed) and end.who in gone for end in self.ends):
            left += [self.path(f"tmp/{name}") for name in folders]
        return left

    def unmount(self):
        return [why for disk in self._disks if (why := disk.unmount())]

    def save_logs(self):
        """Copies the workers' log files from their disk, which this object removes at its end."""
        subprocess.run(["cp", "-r", self.path("logs"), self.path("worker-logs")], check=False, capture_output=True)
        subprocess.run(["rm", "-f", self.path("worker-logs/filler")], check=False)
        listing = subprocess.run(["ls", "-l", self.path("checkpoints/steps")], check=False, capture_output=True)
        with open(self.path("checkpoints.txt"), "wb") as file:
            file.write(listing.stdout)
