"""Plays the agent for one Python program. Gives it a control socket, and the folder that ddprun puts on PYTHONPATH,
made from launcher/python."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "launcher" / "python"
PYTHON = "/usr/bin/python3"
HANG = 60  # seconds: reached only when something hangs


def environment(**more):
    """The environment of every program: without PYTHONPATH and without the variables of an outer ddprun. The options
    of a sanitizer stay: without its suppressions, ddprun would fill a pipe with reports."""
    kept = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **kept, **more}


class FakeAgent:
    """Use it as a context. `folder` is empty, for files of the test."""

    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
        self.base = pathlib.Path(self._temporary.name)
        self.folder = self.base / "user"
        self.site = self.base / "python" / "site"
        self.module = self.base / "python" / "module"
        for folder in (self.folder, self.site, self.module):
            folder.mkdir(parents=True)
        shutil.copy(SOURCES / "sitecustomize.py", self.site)
        shutil.copy(SOURCES / "ddprun.py", self.module)
        shutil.copytree(SOURCES / "_ddprun_state", self.module / "_ddprun_state",
                        ignore=shutil.ignore_patterns("__pycache__"))
        self.path = str(self.base / "control.sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(HANG)
        return self

    def __exit__(self, *_):
        self.listener.close()
        self._temporary.cleanup()

    def add_auto_step(self):
        shutil.copy(SOURCES / "auto_step.py", self.module / "_ddprun_auto_step.py")
        shutil.copy(SOURCES / "after_import.py", self.module / "_ddprun_after_import.py")

    def start(self, source, **more):
        """Runs this source as a worker; it can wait for a line of its stdin."""
        script = self.folder / "script.py"
        script.write_text(source)
        more.setdefault("DDPRUN_CONTROL_SOCKET", self.path)
        return subprocess.Popen([PYTHON, "-u", script], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment(PYTHONPATH=str(self.site), **more))

    def accept(self):
        connection, _ = self.listener.accept()
        connection.settimeout(HANG)
        return connection

    def run(self, test, source, err="", **more):
        """Runs the program to its end. Returns its output and the packets of each of its connections."""
        with self.start(source, **more) as worker:
            out, said = worker.communicate(timeout=HANG)
        test.assertEqual((worker.returncode, said), (0, err))
        return out, self.packets()

    def packets(self):
        """The packets of each connection of the programs that have ended."""
        self.listener.settimeout(0)
        connections = []
        while True:
            try:
                connection, _ = self.listener.accept()
            except BlockingIOError:
                return connections
            with connection:
                connections.append(read_all(connection))


def read_all(connection):
    packets = []
    while True:
        packet = connection.recv(8192)
        if not packet:
            return packets
        packets.append(packet.decode())
