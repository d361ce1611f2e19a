"""Writes the properties that a process has inherited from its parent."""

import ctypes
import json
import os
import pathlib
import random
import re
import resource
import sys
import threading

PR_GET_PDEATHSIG = 2  # linux/prctl.h


def status():
    text = pathlib.Path("/proc/self/status").read_text()
    kept = ("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "CapEff", "Cpus_allowed", "Threads")
    return {name: re.search(rf"^{name}:\s*(\S+)", text, re.M).group(1) for name in kept}


def descriptors():
    found = {}
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the descriptor of listdir() itself
        found[name] = re.sub(r"\d+", "N", target)
    return found


out = pathlib.Path(sys.argv[1])
death = ctypes.c_int()
ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(death), 0, 0, 0)
same = {
    "status": status(), "descriptors": descriptors(), "cwd": os.getcwd(), "umask": os.umask(0o22),
    "nice": os.nice(0), "affinity": sorted(os.sched_getaffinity(0)), "death": death.value,
    "limits": {name: resource.getrlimit(getattr(resource, name))
               for name in dir(resource) if name.startswith("RLIMIT_")},
    "cgroup": pathlib.Path("/proc/self/cgroup").read_text(),
    "oom": pathlib.Path("/proc/self/oom_score_adj").read_text(),
    "parent": pathlib.Path(f"/proc/{os.getppid()}/comm").read_text(),
    "leads": os.getpgrp() == os.getpid(), "session": os.getsid(0) == os.getsid(os.getppid()),
    "argv": sys.argv, "orig_argv": sys.orig_argv[-2:], "flags": repr(sys.flags),
    "thread": threading.main_thread().native_id == os.getpid(),
    "names": sorted(name for name in os.environ if not name.startswith(("DDPRUN_RUN", "LC_"))),
}
drawn = {"random": random.random()}
for name in ("numpy.random", "multiprocessing.process"):
    module = sys.modules.get(name)
    if name == "numpy.random" and module is not None:
        drawn[name] = module.random()
    elif module is not None:
        drawn[name] = module.current_process().authkey.hex()
(out / f"{os.environ['RANK']}.json").write_text(json.dumps({"same": same, "drawn": drawn}))
