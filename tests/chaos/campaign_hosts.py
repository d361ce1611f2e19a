"""Hosts for campaigns: network namespaces behind a router that drops packets for a cut, and disks that are files.

The names of namespaces begin with a prefix of their campaign, so that several campaigns can run at once. A
guard process thaws the disks and removes everything when this process ends, also by Ctrl-C or SIGKILL.
"""
import errno
import glob
import os
import re
import shlex
import subprocess
import time

LEFT_LIMIT_S = 3  # s; a guardian may take 2 s to end its processes


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def wait_until(condition, seconds, pause=0.02):
    """Waits until `condition` returns something true. Returns its last result, also after the time limit."""
    deadline = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < deadline:
        time.sleep(pause)
    return result


class Guard:
    """Runs `script`, a cleanup, on request or after the end of this process. It has a session of its own."""

    def __init__(self, script):
        theirs, self._pipe = os.pipe()
        self._process = subprocess.Popen(["sh", "-c", "read -r nothing; exec 2>/dev/null\n" + script], stdin=theirs,
                                         stdout=subprocess.DEVNULL, start_new_session=True)
        os.close(theirs)

    def clean_up(self):
        os.close(self._pipe)
        self._process.wait()


class Network:
    """Each host is a namespace, behind a router (one more namespace) that drops packets for a cut."""

    def __init__(self, prefix, hosts):
        self.prefix = prefix
        self._hosts = hosts
        self._drops = {}  # by key: (where, chain, match), ...

    def namespace(self, host):
        return f"{self.prefix}-{host}"

    @property
    def router(self):
        return self.namespace("net")

    def names(self):
        return [self.namespace(host) for host in (*self._hosts, "net")]

    def address(self, host):
        return f"10.77.{self._hosts.index(host)}.2"

    def cleanup(self):
        return "".join(f"for pid in $(ip netns pids {name}); do kill -9 $pid; done; ip netns del {name}\n"
                       for name in self.names())

    def make(self):
        lines = ["set -e", f"ip netns add {self.router}"]
        for i, host in enumerate(self._hosts):
            name = self.namespace(host)
            lines += [
                f"ip netns add {name}",
                f"ip -n {self.router} link add {host} type veth peer name eth0 netns {name}",
                f"ip -n {self.router} addr add 10.77.{i}.1/24 dev {host}",
                f"ip -n {self.router} link set {host} up",
                f"ip -n {name} link set lo up",
                f"ip -n {name} addr add {self.address(host)}/24 dev eth0",
                *self._plugged_in(host),
                f"ip netns exec {name} nft 'table ip cut {{ chain input {{ type filter hook input priority 0; }}; "
                "chain output { type filter hook output priority 0; }; }'",
            ]
        lines += [
            f"ip netns exec {self.router} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'",
            f"ip netns exec {self.router} nft 'table ip cut {{ chain forward {{ type filter hook forward "
            "priority 0; }; }'",
        ]
        run("sh", "-c", "\n".join(lines))

    def _plugged_in(self, host):
        name = self.namespace(host)
        return [f"ip -n {name} link set eth0 up",
                f"ip -n {name} route add default via 10.77.{self._hosts.index(host)}.1"]

    def plug_in(self, host):
        run("sh", "-c", "set -e\n" + "\n".join(self._plugged_in(host)))

    def unplug(self, host):
        """No packet gets in or out, not even a reset of a process that is killed there later."""
        run("ip", "-n", self.namespace(host), "link", "set", "eth0", "down")

    def on(self, host, argv):
        """`argv` as a command that runs there, on a host of that name. It is exec'ed: the pid is its own."""
        return ["ip", "netns", "exec", self.namespace(host), "unshare", "--uts", "sh", "-c",
                'echo "$0" > /proc/sys/kernel/hostname && exec "$@"', host, *argv]

    def pids(self, *hosts):
        """The pids of all processes on these hosts; on all hosts if none is given."""
        names = [self.namespace(host) for host in hosts] or self.names()
        return [int(pid) for name in names for pid in run("ip", "netns", "pids", name).split()]

    def cut(self, host, direction):
        self.drop((host, direction), [("net", "forward", f"{match} {host}")
                                      for match, without in (("iifname", "to"), ("oifname", "from"))
                                      if direction != without])

    def heal(self, host, direction):
        self.allow((host, direction))

    def drop(self, key, rules):
        """Drops matching packets until allow(key). A rule: "net" and the chain "forward", or a host and "input" or
        "output"; then nft's match."""
        self._drops[key] = rules
        self._apply({where for where, _, _ in rules})

    def allow(self, key):
        self._apply({where for where, _, _ in self._drops.pop(key, ())})

    def _apply(self, places):
        for place in places:
            chains = ("forward",) if place == "net" else ("input", "output")
            rules = [f"flush chain ip cut {chain}" for chain in chains]
            rules += [f"add rule ip cut {chain} {match} drop"
                      for drops in self._drops.values() for where, chain, match in drops if where == place]
            run("ip", "netns", "exec", self.namespace(place), "nft", "; ".join(rules))


class Disk:
    """A file system in a file."""

    def __init__(self, folder, name, size=64 << 20):
        self.path = os.path.join(folder, name)
        self._image = self.path + ".image"
        self._size = size

    def thawing(self):
        return f"fsfreeze -u {shlex.quote(self.path)}\n"

    def cleanup(self):
        path = shlex.quote(self.path)
        return f"umount {path} || umount -l {path}\n"

    def make(self):
        os.mkdir(self.path)
        with open(self._image, "wb") as file:
            file.truncate(self._size)
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
                os.fsync(file.fileno())  # blocks that were reserved but not needed become free

    def make_room(self):
        os.unlink(self.path + "/filler")

    def unmount(self):
        """Unmounts the disk. Returns "", or that something holds it."""
        done = wait_until(lambda: subprocess.run(["umount", self.path], check=False,
                                                 capture_output=True).returncode == 0, LEFT_LIMIT_S)
        return "" if done else f"something holds {self.path}"


def children(pid):
    """The pids of the children of all threads of a process: the kernel lists them for each thread."""
    return [int(child) for path in glob.glob(f"/proc/{pid}/task/*/children")
            for child in read(path).split()]


def environment_of(pid):
    return dict(entry.split("=", 1) for entry in read(f"/proc/{pid}/environ").split("\0") if "=" in entry)


def what_is_there(prefix, folder):
    """The namespaces and mounts that still exist after the end of a World."""
    spaces = [name for name in re.findall(r"^\S+", run("ip", "netns", "list"), re.M) if name.startswith(prefix)]
    mounts = [line.split()[1] for line in read("/proc/mounts").splitlines() if line.split()[1].startswith(folder)]
    return [f"namespace {name}" for name in spaces] + [f"mount {path}" for path in mounts]
