"""What campaign.py starts and breaks: hosts that are network namespaces, disks that are files, one job.

Namespaces and folders carry the pid and the seed in their names, so that several campaigns may run at once. Whatever
happens to this process, Ctrl-C and SIGKILL included, the guard thaws the disks and removes everything.

One thread.
"""
import errno
import glob
import os
import re
import secrets
import shlex
import signal
import struct
import subprocess
import time

from campaign_plan import DAEMON, DISKS, NODES, WORKERS_PER_NODE
from campaign_verdict import End, parse_life

HOSTS = (DAEMON,) + NODES
PORT = 29400
DISK_BYTES = 64 << 20
WHOLE_LIMIT_S = 45  # the job is whole again so long after the last fault
END_LIMIT_S = 30
LEFT_LIMIT_S = 3  # what a guardian takes down may take 2 s


class Trouble(Exception):
    """The seed cannot go on: the product did not do what it has to within its bound."""


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def wait_until(condition, seconds, pause=0.02):
    """What `condition` gives once that is true; at last whatever it is."""
    deadline = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < deadline:
        time.sleep(pause)
    return result


class Guard:
    """Runs `script`, a cleanup, when it is asked to or when this process has gone. In a session of its own."""

    def __init__(self, script):
        theirs, self._pipe = os.pipe()
        self._process = subprocess.Popen(["sh", "-c", "read -r nothing; exec 2>/dev/null\n" + script], stdin=theirs,
                                         stdout=subprocess.DEVNULL, start_new_session=True)
        os.close(theirs)

    def clean_up(self):
        os.close(self._pipe)
        self._process.wait()


class Network:
    """Each host a namespace, behind a router (one more) that drops what a cut says."""

    def __init__(self, prefix):
        self.prefix = prefix
        self._cuts = set()

    def namespace(self, host):
        return f"{self.prefix}-{host}"

    def names(self):
        return [self.namespace(host) for host in (*HOSTS, "net")]

    @staticmethod
    def address(host):
        return f"10.77.{HOSTS.index(host)}.2"

    def cleanup(self):
        return "".join(f"for pid in $(ip netns pids {name}); do kill -9 $pid; done; ip netns del {name}\n"
                       for name in self.names())

    def make(self):
        net = self.namespace("net")
        lines = ["set -e", f"ip netns add {net}"]
        for i, host in enumerate(HOSTS):
            name = self.namespace(host)
            lines += [
                f"ip netns add {name}",
                f"ip -n {net} link add {host} type veth peer name eth0 netns {name}",
                f"ip -n {net} addr add 10.77.{i}.1/24 dev {host}",
                f"ip -n {net} link set {host} up",
                f"ip -n {name} link set lo up",
                f"ip -n {name} addr add 10.77.{i}.2/24 dev eth0",
                f"ip -n {name} link set eth0 up",
                f"ip -n {name} route add default via 10.77.{i}.1",
            ]
        lines += [
            f"ip netns exec {net} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'",
            f"ip netns exec {net} nft 'table ip cut {{ chain forward {{ type filter hook forward "
            "priority 0; }; }'",
        ]
        run("sh", "-c", "\n".join(lines))

    def on(self, host, argv):
        """`argv` as a command that runs there, on a host of that name. It is exec'ed: the pid is its own."""
        return ["ip", "netns", "exec", self.namespace(host), "unshare", "--uts", "sh", "-c",
                'echo "$0" > /proc/sys/kernel/hostname && exec "$@"', host, *argv]

    def pids(self):
        """Of all hosts."""
        return [int(pid) for name in self.names() for pid in run("ip", "netns", "pids", name).split()]

    def cut(self, host, direction):
        self._cuts.add((host, direction))
        self._apply()

    def heal(self, host, direction):
        self._cuts.discard((host, direction))
        self._apply()

    def _apply(self):
        rules = ["flush chain ip cut forward"]
        for host, direction in sorted(self._cuts):
            rules += [f"add rule ip cut forward {match} {host} drop"
                      for match, without in (("iifname", "to"), ("oifname", "from"))
                      if direction != without]
        run("ip", "netns", "exec", self.namespace("net"), "nft", "; ".join(rules))


class Disk:
    """A file system in a file."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name)
        self._image = self.path + ".image"

    def thawing(self):
        return f"fsfreeze -u {shlex.quote(self.path)}\n"

    def cleanup(self):
        path = shlex.quote(self.path)
        return f"umount {path} || umount -l {path}\n"

    def make(self):
        os.mkdir(self.path)
        with open(self._image, "wb") as file:
            file.truncate(DISK_BYTES)
        run("mkfs.ext4", "-q", "-m", "0", self._image)
        run("mount", "-o", "loop", self._image, self.path)

    def freeze(self):
        run("fsfreeze", "-f", self.path)

    def thaw(self):
        run("fsfreeze", "-u", self.path)

    def fill(self):
        with open(self.path + "/filler", "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                os.fsync(file.fileno())  # what was reserved and is not needed comes back

    def make_room(self):
        os.unlink(self.path + "/filler")

    def unmount(self):
        """What holds it, or ""."""
        done = wait_until(lambda: subprocess.run(["umount", self.path], check=False,
                                                 capture_output=True).returncode == 0, LEFT_LIMIT_S)
        return "" if done else f"something holds {self.path}"


def children(pid):
    """Of all its threads: each has its own."""
    return [int(child) for path in glob.glob(f"/proc/{pid}/task/*/children")
            for child in read(path).split()]


def environment_of(pid):
    return dict(entry.split("=", 1) for entry in read(f"/proc/{pid}/environ").split("\0") if "=" in entry)


class World:
    """One job, its hosts and disks, in `folder`. Use it in a `with`."""

    def __init__(self, folder, seed, plan, bin_folder, worker_options=()):
        self.folder = folder
        self.job = f"campaign-{os.getpid()}-{seed}"
        self.bin = bin_folder
        self.plan = plan
        self.network = Network(f"ddprun-{self.job}")
        self.disks = {name: Disk(folder, name) for name in DISKS}
        self.ends = []
        self.missed = []  # faults that found nothing to break
        self._worker_options = [*(["snapshots"] if plan.snapshots else []), *worker_options]
        self._processes = {}  # of each host: its ddprun
        self._harmed = {}
        self._awaited = set()  # hosts whose ddprun is started again when it has ended
        self._stopped = {}  # of each fault: pidfds
        self._clocks = {}

    def __enter__(self):
        disks = self.disks.values()
        self._guard = Guard("".join([*(disk.thawing() for disk in disks), self.network.cleanup(),
                                     *(disk.cleanup() for disk in disks)]))
        try:
            for folder in ("alive", "tmp"):
                os.mkdir(self.path(folder))
            with open(self.path("token"), "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(secrets.token_hex(32))
            for disk in disks:
                disk.make()
            os.mkdir(self.path("checkpoints/steps"))
            self.network.make()
            for host in HOSTS:
                self.step_clock(host, 0)
                self.start(host)
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

    def path(self, name):
        return os.path.join(self.folder, name)

    # ---- processes ----

    def start(self, host):
        ddprun = os.path.join(self.bin, "ddprun")
        token = ["--token-file", self.path("token")]
        endpoint = f"{Network.address(DAEMON)}:{PORT}"
        if host == DAEMON:
            argv = [ddprun, "rendezvous", "--listen", endpoint, *token, "--state-dir", self.path("state")]
        else:
            argv = [ddprun, "--rdzv-endpoint", endpoint, "--rdzv-id", self.job, *token,
                    "--nnodes", self.plan.nnodes, "--nproc-per-node", str(WORKERS_PER_NODE),
                    "--max-restarts", "1000", "--stop-grace", "2s", "--store", "worker",
                    "--rdzv-conf", "last_call_timeout=1",
                    "--log-dir", self.path(f"logs/{host}"), "--checkpoint-dir", self.path("checkpoints/steps"),
                    "--", os.path.join(self.bin, "campaign_worker"), self.path("alive"), *self._worker_options]
        clock = ["env", "LD_PRELOAD=" + os.path.join(self.bin, "wall_clock_offset.so"),
                 "WALL_CLOCK_OFFSET_FILE=" + self.path(f"{host}.clock")]
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("DDPRUN_", "PET_", "SLURM_"))}
        with open(self.path(f"{host}.out"), "ab") as out, open(self.path(f"{host}.err"), "ab") as err:
            self._processes[host] = subprocess.Popen(
                self.network.on(host, clock + argv), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                cwd=self.folder, env={**environment, "TMPDIR": self.path("tmp")}, start_new_session=True)
        self._harmed[host] = ""

    def find(self, host, what):
        """The pids of "agent", "guardian", "workerN", "daemon" or "all" of a host; empty: not there now."""
        process = self._processes[host]
        if process.poll() is not None:
            return []
        if what in ("agent", "daemon"):
            return [process.pid]
        if what == "all":
            return [int(pid) for pid in run("ip", "netns", "pids", self.network.namespace(host)).split()]
        guardians = [pid for pid in children(process.pid) if read(f"/proc/{pid}/cmdline").startswith("ddprun-guardian")]
        if what == "guardian":
            return guardians
        local_rank = what[len("worker"):]
        return [pid for guardian in guardians for pid in children(guardian)
                if "campaign_worker" in read(f"/proc/{pid}/cmdline")
                and environment_of(pid).get("LOCAL_RANK") == local_rank]

    def poll(self):
        """Starts again what was killed and has ended; nobody else may end."""
        for host, process in list(self._processes.items()):
            if process.poll() is None:
                continue
            if host in self._awaited:
                if host != DAEMON and os.path.exists(self.path("logs/filler")):
                    continue  # an agent needs room for its folder of logs, and says so (70)
                self._awaited.discard(host)
                self.ends.append(End(host, process.returncode, self._harmed[host], last=False))
                self.start(host)
            elif not self._harmed[host]:
                raise Trouble(f"the ddprun of {host} ended with {process.returncode} and nobody had killed it")

    def wait(self, condition, seconds, pause=0.02):
        def done():
            self.poll()
            return condition()
        return wait_until(done, seconds, pause)

    # ---- faults ----

    def begin(self, number, fault):
        kind, target, how = fault.kind, fault.target, fault.how
        if kind == "cut":
            self.network.cut(target, how)
        elif kind == "freeze":
            self.disks[target].freeze()
        elif kind == "fill":
            self.disks[target].fill()
        elif kind == "clock":
            self.step_clock(target, int(how.split()[0]))
        elif not (pids := self.wait(lambda: self.find(target, how), 1)):
            self.missed.append(number)
        elif kind == "stop":
            self._stopped[number] = [os.pidfd_open(pid) for pid in pids]
            self._signal(self._stopped[number], signal.SIGSTOP)
        else:
            if not how.startswith("worker"):
                self._harmed[target] = how
            fds = [os.pidfd_open(pid) for pid in pids]
            self._signal(fds, signal.SIGKILL)
            for fd in fds:
                os.close(fd)

    def end(self, number, fault):
        kind, target, how = fault.kind, fault.target, fault.how
        if kind == "cut":
            self.network.heal(target, how)
        elif kind == "freeze":
            self.disks[target].thaw()
        elif kind == "fill":
            self.disks[target].make_room()
        elif kind == "stop":
            self._signal(self._stopped.get(number, ()), signal.SIGCONT)
        elif kind == "kill" and self._harmed[target]:
            self._awaited.add(target)

    @staticmethod
    def _signal(pidfds, signo):
        for pidfd in pidfds:
            try:
                signal.pidfd_send_signal(pidfd, signo)
            except ProcessLookupError:
                pass  # it has ended

    def step_clock(self, host, seconds):
        """The file is mapped by all processes of the host (tests/programs/wall_clock_offset.cc)."""
        if host not in self._clocks:
            self._clocks[host] = os.open(self.path(f"{host}.clock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.pwrite(self._clocks[host], struct.pack("=q", seconds * 1_000_000_000), 0)

    # ---- what is seen ----

    def lives(self, since=0.0):
        """Of all workers, or of those that wrote something after this time of the machine's wall clock."""
        files = [entry for entry in os.scandir(self.path("alive")) if entry.stat().st_mtime >= since]
        lives = [parse_life(file.name, read(file.path)) for file in sorted(files, key=lambda file: file.name)]
        return tuple(life for life in lives if life)

    def _is_whole(self):
        training = {(life.generation, life.rank) for life in self.lives(time.time() - 0.3) if life.begin}
        return len(training) == len(NODES) * WORKERS_PER_NODE and len({g for g, _ in training}) == 1

    def wait_for_whole(self):
        """Until every rank of all nodes trains in one generation."""
        if not self.wait(self._is_whole, WHOLE_LIMIT_S, 0.1):
            raise Trouble(f"not all ranks train together after {WHOLE_LIMIT_S} s")

    def finish(self):
        """Lets the training end, and waits for every ddprun. Collects how they ended."""
        with open(self.path("alive.go"), "wb"):
            pass
        agents = [self._processes[host] for host in NODES]
        if not wait_until(lambda: all(agent.poll() is not None for agent in agents), END_LIMIT_S):
            raise Trouble(f"the training may end, and {END_LIMIT_S} s later not all agents have ended")
        self._processes[DAEMON].terminate()
        if not wait_until(lambda: self._processes[DAEMON].poll() is not None, 10):
            raise Trouble("the daemon has not ended 10 s after SIGTERM")
        self.ends += [End(host, self._processes[host].returncode, self._harmed[host]) for host in HOSTS]

    def left(self):
        """What a job that has ended left behind."""
        wait_until(lambda: not self.network.pids(), LEFT_LIMIT_S)
        left = [f"process {pid} ({read(f'/proc/{pid}/cmdline').replace(chr(0), ' ').strip()})"
                for pid in self.network.pids()]
        left += [f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if self.job in name]
        # An agent that went together with its guardian leaves the folder of its socket there.
        folders = sorted(os.listdir(self.path("tmp")))
        if len(folders) > sum(end.harmed == "all" for end in self.ends):
            left += [self.path(f"tmp/{name}") for name in folders]
        return left

    def save_logs(self):
        """Copies what the workers' log files hold off their disk, which goes with this object."""
        subprocess.run(["cp", "-r", self.path("logs"), self.path("worker-logs")], check=False, capture_output=True)
        subprocess.run(["rm", "-f", self.path("worker-logs/filler")], check=False)
        listing = subprocess.run(["ls", "-l", self.path("checkpoints/steps")], check=False, capture_output=True)
        with open(self.path("checkpoints.txt"), "wb") as file:
            file.write(listing.stdout)

    def unmount(self):
        return [why for disk in self.disks.values() if (why := disk.unmount())]


def what_is_there(prefix, folder):
    """Namespaces and mounts after a World has gone."""
    spaces = [name for name in re.findall(r"^\S+", run("ip", "netns", "list"), re.M) if name.startswith(prefix)]
    mounts = [line.split()[1] for line in read("/proc/mounts").splitlines() if line.split()[1].startswith(folder)]
    return [f"namespace {name}" for name in spaces] + [f"mount {path}" for path in mounts]


