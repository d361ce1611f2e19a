"""Types the commands of README.md like a reader, word for word, and compares their output with the page. The folder
looks like the top of the repository."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "scripts"))
import shown_commands  # noqa: E402

HANG = 240  # seconds: reached only when something hangs

# Stands for the program of the reader: says what it was given.
TRAIN_PY = """import os, sys
print("worker", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:], os.environ.get("DDPRUN_CHECKPOINT_DIR"))
"""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def children(pid):
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.split()


def shape(line):
    """A line without what differs from run to run: numbers, the host's name, the random part of a folder's name."""
    line = re.sub(r"\b(on|node) (?:vm|%s)\b" % re.escape(socket.gethostname()), r"\1 HOST", line)
    line = re.sub(r"(/dev/shm/[\w-]+-)\w{6}/", r"\1XXXXXX/", line)
    # Lines of sources stay: a page that shows them follows the source.
    return re.sub(r"(\.py:\d+)|\d+(?:[.:]\d+)*", lambda match: match.group(1) or "0", line)


class Terminal:
    """A command that runs; its output is in a file."""

    def __init__(self, command, folder, environment, number):
        self.command = command
        self.path = folder / f"terminal{number}"
        with open(self.path, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment, text=True,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)

    def said(self):
        return self.path.read_text(encoding="utf-8", errors="replace")

    def end(self):
        """As Ctrl-C does. Nothing is left: a rendezvous or a job ends its processes."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class ReaderTest(unittest.TestCase):
    """A test that types the commands which `runner` runs; all of them, or the class has failed."""

    runner = None

    @classmethod
    def setUpClass(cls):
        cls.typed = set()

    @classmethod
    def tearDownClass(cls):
        left = {command for command, test in shown_commands.RUNS.items() if test == cls.runner} - cls.typed
        if left:
            raise AssertionError(f"{cls.runner} does not run {sorted(left)}")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-docs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        programs = pathlib.Path(os.environ["DDPRUN"]).parent
        (self.folder / "build").mkdir()
        (self.folder / "build/bin").symlink_to(programs)
        for name in ("configs", "tests"):
            (self.folder / name).symlink_to(TOP / name)
        (self.folder / "train.py").write_text(TRAIN_PY)
        (self.folder / "train").write_text("#!/usr/bin/python3\n" + TRAIN_PY)
        (self.folder / "train").chmod(0o755)
        self.port = str(free_port())
        self.terminals = []
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("DDPRUN_", "PET_", "TORCHELASTIC_"))}
        self.environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "DDPRUN_STATE_HOME": str(self.folder / "state"),
                             "GLOO_SOCKET_IFNAME": "lo", "PYTHON_EXEC": "/usr/bin/python3"}

    def type(self, command):
        """Starts a shown command. The page's port, hosts and folder become those of this test."""
        self.assertEqual(shown_commands.RUNS.get(command), self.runner, command)
        self.typed.add(command)
        here = re.sub(r"\bhead:", "127.0.0.1:", command.replace("29400", self.port))
        return self.start(here.replace("/ckpt", str(self.folder / "ckpt")))

    def start(self, command):
        terminal = Terminal(command, self.folder, self.environment, len(self.terminals))
        self.terminals.append(terminal)
        self.addCleanup(terminal.end)
        return terminal

    def among_workers_of(self, *nodes):
        """For pkill: among the children of these nodes' guardians, and nobody else's processes."""
        guardians = [child for node in nodes for child in children(node.process.pid)]
        return " -P " + ",".join(guardians)

    def expect_end(self, terminal, code=0):
        """What it has said by its end."""
        found = terminal.process.wait(timeout=HANG)
        self.assertEqual(found, code, f"{terminal.command}: {terminal.said()}")
        return terminal.said()

    def expect(self, pattern, *terminals):
        """Waits until one of them has said so."""
        deadline = time.monotonic() + HANG
        while not any(re.search(pattern, terminal.said(), re.M) for terminal in terminals):
            said = "".join(f"{terminal.command}: {terminal.said()}" for terminal in terminals)
            ended = any(terminal.process.poll() is not None for terminal in terminals)
            self.assertFalse(ended or time.monotonic() > deadline, f"expected {pattern}: {said}")
            time.sleep(0.05)

    def expect_shown(self, terminal):
        """Each line of output that a page shows is one that was printed, but for numbers and names."""
        printed = {shape(line) for line in terminal.said().split("\n")}
        printed |= {re.sub(r"^ddprun 0 \w ", "", line).strip() for line in printed}  # without the time
        for page in set(shown_commands.PAGES) - shown_commands.TYPED_BY.keys():
            for line in shown_commands.outputs(shown_commands.read(page), self.runner):
                with self.subTest(page=page, line=line):
                    self.assertIn(shape(line), printed)
