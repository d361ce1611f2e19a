"""The free space in a file system in memory (worker/contract/memory_room.h)."""
import os


def _number_in(path):
    try:
        with open(path) as file:
            return int(file.readline())
    except (OSError, ValueError):  # no file, or "max"
        return None


def _own_cgroup():
    try:
        with open("/proc/self/cgroup") as file:
            for line in file:
                if line.startswith("0::"):
                    return line[3:].rstrip("\n")
    except OSError:
        pass
    return ""


def memory_room(folder):
    """Returns the bytes that can still be written to `folder`: the free space of the file system,
    or less if a memory limit of a cgroup above this process leaves less."""
    facts = os.statvfs(folder)
    room = facts.f_bavail * facts.f_frsize
    group = _own_cgroup()
    while group.strip("/"):
        limit = _number_in("/sys/fs/cgroup%s/memory.max" % group)
        used = _number_in("/sys/fs/cgroup%s/memory.current" % group)
        if limit is not None and used is not None:
            room = min(room, max(0, limit - used))
        group = os.path.dirname(group)
    return room
