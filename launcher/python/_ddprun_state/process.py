"""Facts that identify this process, so that another process can check them later or elsewhere."""
import errno
import os
import re
import socket

from .errors import printable


def host_name():
    return socket.gethostname()


def pid_namespace():
    """Returns the number of the PID namespace. "": unknown. Containers of one host may share the
    host's name, but not pids."""
    try:
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ""


def machine():
    """Returns a text that is equal wherever a pid means the same process as here. It changes when
    the machine is rebooted. "": unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.readline().strip()
    except OSError:
        boot = ""
    namespace = pid_namespace()
    return "%s/%s" % (boot, namespace) if boot and namespace else ""


def _stat_of(pid):
    """Returns the start time in clock ticks, and whether the process has ended but its parent has
    not noticed it (a zombie). ("", False): unknown."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "", False
    if len(fields) < 20:
        return "", False
    state, threads, started = fields[0], fields[17], fields[19]  # proc(5): 3, 20, 22
    return started, state in "ZX" and threads in ("0", "1")


def start_time_of(pid):
    return _stat_of(pid)[0]


def lock_holder(path):
    """Returns the process on this host that holds the lock (flock) of a file, as text for people.
    "": unknown. /proc/locks shows only locks of this kernel."""
    try:
        facts = os.stat(path)
        with open("/proc/locks") as file:
            locks = [line.split() for line in file if "->" not in line]  # without waiting ones
    except OSError:
        return ""
    where = "%02x:%02x:%d" % (os.major(facts.st_dev), os.minor(facts.st_dev), facts.st_ino)
    for words in locks:
        # number, kind, advisory, access, pid, file. A pid of another PID namespace is shown as 0.
        if len(words) < 6 or words[1] != "FLOCK" or words[5] != where or words[4] == "0":
            continue
        try:
            with open("/proc/%s/comm" % words[4], errors="replace") as file:
                name = " (%s)" % file.readline().strip()
        except OSError:
            name = ""
        return printable("process %s%s on this host" % (words[4], name))
    return ""


def exists(pid):
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def is_gone(pid, started):
    """Returns True if the process of this machine with that pid and start time has ended, and
    False if it lives or that is unknown."""
    if not exists(pid):
        return True
    now, dead = _stat_of(pid)
    return now != "" and (dead or now != started)
