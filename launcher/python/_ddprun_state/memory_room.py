"""The free space in a file system in memory (worker/contract/memory_room.h)."""
import os


def _number_in(path):
    try:
        with open(path) as file:
            return int(file.readline())
    except (OSError, ValueError):  # no file, or "max"
        return None


def _stat_in(path, name):
    try:
        with open(path) as file:
            return int(next((line[len(name):] for line in file if line.startswith(name + " ")), 0))
    except (OSError, ValueError):
        return 0


def _own_cgroup(path):
    try:
        with open(path, errors="surrogateescape") as file:
            for line in file:
                if line.startswith("0::"):
                    return line[3:].rstrip("\n")
    except OSError:
        pass
    return ""


def memory_room(folder, cgroups="/sys/fs/cgroup", self_cgroup="/proc/self/cgroup"):
    """Returns the bytes that can still be written to `folder`: the free space of the file system,
    or less if a memory limit of a cgroup above this process leaves less."""
    facts = os.statvfs(folder)
    room = facts.f_bavail * facts.f_frsize
    group = _own_cgroup(self_cgroup)
    while group:  # a container's own cgroup is "/"
        limit = _number_in(cgroups + group + "/memory.max")
        used = _number_in(cgroups + group + "/memory.current")
        if limit is not None and used is not None:
            # The kernel frees the cached file data first that was not used lately.
            cached = _stat_in(cgroups + group + "/memory.stat", "inactive_file")
            room = min(room, max(0, limit - max(0, used - cached)))
        group = os.path.dirname(group) if group != "/" else ""
    return room
