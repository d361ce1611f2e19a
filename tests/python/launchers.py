"""Runs a script under ddprun and, as the reference, under torchrun.

    under = launchers.both(self, "gather_objects.py", nproc=2)
    self.assertEqual(under["ddprun"].files, under["torchrun"].files)

A script gets a folder as its first argument, and leaves its results there as JSON files.
"""

import ctypes
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs" / "python"  # the scripts that these tests run
TORCHRUN = "/usr/bin/torchrun"
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
HANG = 120  # seconds: reached only when something hangs

# All variables of a launcher must come from the launcher under test.
OURS = ("PET_", "DDPRUN_", "TORCHELASTIC_")
WORKERS = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS",
           "USE_LIBUV"}


class Result:
    """How a run ended. `files`: what the script left, by name. `report`: ddprun's, else None."""

    def __init__(self, code, out, err, folder, report):
        self.code = code
        self.out = out
        self.err = err
        self.folder = folder
        self.logs = folder / "logs"
        self.report = report
        self.files = {
            path.name: json.loads(path.read_text()) for path in (folder / "out").glob("*.json")
        }


def require_torch(test):
    """Fails the test if python3-torch is missing: these tests must not be skipped."""
    if importlib.util.find_spec("torch") is None or not os.path.exists(TORCHRUN):
        test.fail("python3-torch is missing: apt-get install python3-torch")


def become_subreaper(test):
    """During the tests of a class, orphans become children of this process, just as the guardian adopts orphans."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    test.addClassCleanup(prctl, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _environment(extra):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(OURS) and name not in WORKERS
    }
    environment["GLOO_SOCKET_IFNAME"] = "lo"
    environment["PYTHON_EXEC"] = "/usr/bin/python3"  # the Python that has torch
    environment.update(extra)
    return environment


def _command(launcher, logs, report):
    if launcher == "ddprun":
        return [os.environ["DDPRUN"], "--report", report, "--log-dir", logs]
    # -r 1 -t 1: this version crashes on the default with Python 3.11. Port 0: any free one. Debian's torch 2.x has no
    # libuv. Workers ask for it, unless USE_LIBUV is 0 and rank 0 makes the store, as in torch 1.13.
    return ["env", "USE_LIBUV=0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1",
            "/usr/bin/python3", str(PROGRAMS / "torchrun.py"), "-r", "1", "-t", "1", "--monitor_interval", "0.1", "--log_dir", logs,
            "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]


def _run_ranks(script, nproc, folder, arguments, environment):
    """Starts the ranks without a launcher, all on this host: they get only the variables."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Debian's torch has no libuv; newer versions of torch use it by default.
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(nproc),
              "LOCAL_WORLD_SIZE": str(nproc), "USE_LIBUV": "0", **environment}
    command = ["/usr/bin/python3", str(PROGRAMS / script)] if script.endswith(".py") else [script]
    command += [str(folder / "out"), *arguments]
    ranks = []
    for rank in range(nproc):
        with open(folder / f"err{rank}", "w", encoding="utf-8") as err:
            ranks.append(subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                env=_environment({**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})))
    deadline = time.monotonic() + HANG
    try:
        # A rank that fails leaves the other ranks in a collective, so all are killed.
        while any(rank.poll() is None for rank in ranks) and time.monotonic() < deadline:
            if any(rank.poll() for rank in ranks):
                break
            time.sleep(0.05)
    finally:
        codes = [rank.poll() for rank in ranks]
        for rank in ranks:
            rank.kill()
            rank.wait()
    said = "".join((folder / f"err{rank}").read_text() for rank in range(nproc))
    if None in codes and not any(codes):
        said += f"\nnot all ranks ended within {HANG} s: {codes}"
    return Result(next((code for code in codes if code != 0), 0), "", said, folder, None)


def run(test, launcher, script, nproc=2, flags=(), arguments=(), environment=None):
    """Runs a script to its end. `script`: a file of PROGRAMS, or another command.

    `launcher`: "ddprun", "torchrun", or "none" (which ignores `flags`)."""
    require_torch(test)
    temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
    if isinstance(test, type):
        test.addClassCleanup(temporary.cleanup)
    else:
        test.addCleanup(temporary.cleanup)
    folder = pathlib.Path(temporary.name)
    (folder / "out").mkdir()
    report = folder / "report.json"
    if launcher == "none":
        return _run_ranks(script, nproc, folder, arguments, environment or {})
    command = _command(launcher, str(folder / "logs"), str(report))
    command += ["--nproc_per_node", str(nproc), *flags]
    command.append(str(PROGRAMS / script) if script.endswith(".py") else script)
    command += [str(folder / "out"), *arguments]
    done = subprocess.run(command, env=_environment(environment or {}), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=HANG, check=False)
    written = json.loads(report.read_text()) if report.exists() else None
    return Result(done.returncode, done.stdout, done.stderr, folder, written)


def both(test, script, **options):
    """The results of both launchers, by launcher."""
    return {name: run(test, name, script, **options) for name in ("ddprun", "torchrun")}
