"""A forked program compared with the same program under plain Python: launcher/python/fork_server.py."""
import array
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import launchers

SERVER = launchers.HERE.parents[1] / "launcher" / "python" / "fork_server.py"
PYTHON = "/usr/bin/python3"

# Name, files, and the arguments that follow `python3`.
SHOW = """\
import json, os, sys
main = sys.modules["__main__"]
facts = {name: repr(value) for name, value in sorted(vars(main).items())
         if name not in ("facts", "main", "__builtins__", "__loader__", "__spec__")}
print(json.dumps({
    "argv": sys.argv, "path0": sys.path[0], "facts": sorted(facts.items()),
    "name": __name__, "doc": __doc__, "loader": type(main.__loader__).__name__,
    "spec": getattr(main.__spec__, "name", None), "cwd": os.getcwd(), "stdin": sys.stdin.read(),
    "builtins": main.__builtins__ is sys.modules["builtins"], "exact": globals() is vars(main)}))
"""
PROGRAMS = {
    "script": (['"""A doc."""\n' + SHOW], ["{0}", "--lr", "1", ""]),
    "script below a link": ([SHOW], ["{link}", "x"]),
    "module": ([SHOW], ["-m", "program0", "a", "-b"]),
    "package": ([], ["-m", "package", "a"]),
    "code": ([], ["-c", "import sys; print(sys.argv, repr(sys.path[0]), __name__)", "a"]),
    "exception": (["def f():\n  raise ValueError('no')\nf()\n"], ["{0}"]),
    "exception with a cause": (
        ["try:\n  1/0\nexcept Exception as e:\n  raise KeyError(1) from e\n"], ["{0}"]),
    "exception of a module": (["raise ValueError(2)\n"], ["-m", "program0"]),
    "syntax error": (["a = (\n"], ["{0}"]),
    "exit code": (["import sys\nsys.exit(7)\n"], ["{0}"]),
    "exit text": (["import sys\nsys.exit('a reason')\n"], ["{0}"]),
    "exit nothing": (["raise SystemExit\n"], ["{0}"]),
    "killed": (["import os\nos.kill(os.getpid(), 9)\n"], ["{0}"]),
    "interrupted": (["raise KeyboardInterrupt\n"], ["{0}"]),
    "interrupted by a signal": (
        ["import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"], ["{0}"]),
    "missing": ([], ["nothing.py"]),
    "missing module": ([], ["-m", "nothing"]),
    "own hook": (
        ["import sys, traceback\n"
         "def hook(kind, error, trace):\n  print(len(traceback.extract_tb(trace)), kind.__name__)\n"
         "sys.excepthook = hook\nraise ValueError\n"], ["{0}"]),
    "at exit": (
        ["import atexit, sys\natexit.register(print, 'bye')\nprint('here')\nsys.exit(3)\n"],
        ["{0}"]),
    "multiprocessing": (
        ["import multiprocessing as m\ndef f(x): return x * x\n"
         "if __name__ == '__main__':\n"
         "  with m.get_context('spawn').Pool(2) as pool: print(pool.map(f, [1, 2, 3]))\n"], ["{0}"]),
    "pickles its own classes": (
        ["import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C)\n"],
        ["{0}"]),
}


def make_files(folder, sources):
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "__main__.py").write_text(SHOW)
    (folder / "linked").mkdir()
    for index, source in enumerate(sources):
        (folder / f"program{index}.py").write_text(source)
        (folder / "linked" / "program.py").symlink_to(folder / f"program{index}.py")


def outcome(folder, code):
    return (code, (folder / "out").read_text(), (folder / "err").read_text())


def memory_file(entries):
    file = os.memfd_create("entries")
    os.write(file, b"".join(entry.encode() + b"\0" for entry in entries))
    os.lseek(file, 0, os.SEEK_SET)
    return file


def send(connection, text, descriptors):
    rights = array.array("i", descriptors)
    connection.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def peer_of(connection):
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little")


class Agent:
    """The agent's end of the control socket."""

    def __init__(self, folder):
        self.path = str(folder / "socket")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(launchers.HANG)

    def wait(self):
        self.connection, _ = self.listener.accept()
        return self.connection.recv(8192)

    def go(self, environment, out, err):
        file = memory_file([f"{k}={v}" for k, v in environment.items()])
        send(self.connection, b"GO=1", [file, out.fileno(), err.fileno()])
        os.close(file)

    def ask(self, number, arguments):
        file = memory_file(["", *arguments])  # the empty string: no CPUs to bind to
        send(self.server, b"FORK=%d" % number, [file])
        os.close(file)

    def fork(self, number, arguments):
        """Orders the waiting fork server to fork. From then on this agent talks to the new process. Returns the
        pid of the new process."""
        self.ask(number, arguments)
        hello = self.wait()
        assert hello == b"FORKED=%d" % number, hello
        return peer_of(self.connection)

    def await_server(self):
        hello = self.wait()
        self.server = self.connection
        return hello

    def close(self):
        for mine in (self.connection, self.server, self.listener):
            mine.close()


class StandbyTest(unittest.TestCase):
    """launcher/python/fork_server.py against `python3 PROGRAM`, and under ddprun."""

    @classmethod
    def setUpClass(cls):
        launchers.become_subreaper(cls)

    def cold(self, folder, arguments):
        with open(folder / "out", "w") as out, open(folder / "err", "w") as err:
            process = subprocess.Popen([PYTHON, "-u", *arguments], cwd=folder, stdout=out,
                                       stderr=err, stdin=subprocess.DEVNULL,
                                       env={"PATH": os.environ["PATH"], "NEW": "1"})
        return outcome(folder, process.wait(timeout=launchers.HANG))

    def forked(self, folder, arguments, modules="json,decimal"):
        agent = Agent(folder)
        environment = {"PATH": os.environ["PATH"], "DDPRUN_CONTROL_SOCKET": agent.path, "OLD": "1"}
        server = subprocess.Popen(
            [PYTHON, "-u", SERVER, modules, *arguments[:-1], "another"], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with server, open(folder / "out", "w") as out, open(folder / "err", "w") as err:
            self.assertEqual(agent.await_server(), b"FORKSERVER=ready")
            process = agent.fork(7, arguments)
            agent.go({"PATH": os.environ["PATH"], "NEW": "1"}, out, err)
            result = outcome(folder, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
            agent.close()
            self.assertEqual(server.communicate(), (b"", b""), "its own streams before GO")
            self.assertEqual(server.returncode, 0)
        return result

    def both_ways(self, sources, arguments):
        """The outcomes of the program under `python3 PROGRAM` and forked."""
        results = []
        for run in (self.cold, self.forked):
            with tempfile.TemporaryDirectory() as path:
                folder = pathlib.Path(path) / "job"
                folder.mkdir()
                make_files(folder, sources)
                filled = [word.replace("{0}", "program0.py")
                          .replace("{link}", "linked/program.py") for word in arguments]
                code, out, err = run(folder, filled)
                results.append((code, out.replace(path, "FOLDER"), err.replace(path, "FOLDER")))
        return results

    def test_every_program_runs_as_under_python_itself(self):
        for name, (sources, arguments) in PROGRAMS.items():
            with self.subTest(name):
                cold, forked = self.both_ways(sources, arguments)
                self.assertEqual(forked, cold)

    def test_the_environment_is_the_workers_and_nothing_else(self):
        cold, forked = self.both_ways(["import os, subprocess\nprint(sorted(os.environ.items()))\n"
                                       "print(os.getenv('OLD'), os.getenv('NEW'), flush=True)\n"
                                       "subprocess.run(['/usr/bin/env'])\n"], ["{0}"])
        self.assertEqual(forked, cold)
        self.assertIn("None 1", forked[1])

    def start_server(self, folder, module, environment=None):
        """Starts a fork server and waits until it has imported `module`. Returns its agent and its process."""
        agent = Agent(folder)
        self.addCleanup(agent.close)
        server = subprocess.Popen([PYTHON, "-B", SERVER, module, "program.py"], cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env={"DDPRUN_CONTROL_SOCKET": agent.path, **(environment or {})})
        self.addCleanup(server.communicate, timeout=launchers.HANG)
        self.addCleanup(server.kill)
        self.assertEqual(agent.await_server(), b"FORKSERVER=ready")
        return agent, server

    def test_a_server_and_what_waits_end_quietly_when_their_agent_goes_away(self):
        with tempfile.TemporaryDirectory() as path:
            agent, server = self.start_server(pathlib.Path(path), "json")
            process = agent.fork(0, ["program.py"])
            agent.connection.close()
            self.assertEqual(os.waitpid(process, 0)[1], 0)
            agent.server.shutdown(socket.SHUT_RDWR)
            self.assertEqual(server.communicate(timeout=launchers.HANG)[0], b"")
            self.assertEqual(server.returncode, 0)

    def test_what_waits_for_long_takes_memory_for_its_program_and_still_becomes_a_worker(self):
        """Break: in take_memory(), free the last piece, too."""
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            (folder / "program.py").write_text("print('here')\n")
            agent, _ = self.start_server(folder, "json")
            process = agent.fork(0, ["program.py"])
            status = pathlib.Path(f"/proc/{process}/status")
            deadline = time.monotonic() + launchers.HANG
            while int(re.search(r"RssAnon:\s+(\d+) kB", status.read_text()).group(1)) < 12000:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            time.sleep(0.2)  # the process keeps the memory
            self.assertGreater(int(re.search(r"RssAnon:\s+(\d+) kB", status.read_text()).group(1)),
                               12000)
            with open(folder / "out", "w") as out:
                agent.go({}, out, out)
            self.assertEqual(os.waitpid(process, 0)[1], 0)
            self.assertEqual((folder / "out").read_text(), "here\n")

    def test_what_is_asked_for_together_is_forked_together(self):
        """Break: in fork_each(), give the last order to each process."""
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            (folder / "program.py").write_text("import sys\nprint(*sys.argv[1:])\n")
            agent, server = self.start_server(folder, "json")
            os.kill(server.pid, signal.SIGSTOP)
            for number in range(3):
                agent.ask(number, ["program.py", f"argument {number}"])
            os.kill(server.pid, signal.SIGCONT)
            for _ in range(3):
                number = int(agent.wait().removeprefix(b"FORKED="))
                with open(folder / f"out{number}", "w") as out:
                    agent.go({}, out, out)
                os.waitpid(peer_of(agent.connection), 0)
                agent.connection.close()
            self.assertEqual([(folder / f"out{number}").read_text() for number in range(3)],
                             [f"argument {number}\n" for number in range(3)])

    def test_a_preloaded_module_ddprun_tells_once_its_process_is_a_worker(self):
        """Break: leave out begin_to_tell(), or the look at DDPRUN_STANDBY in ddprun.py."""
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            shutil.copy(SERVER.parent / "ddprun.py", folder)
            (folder / "program.py").write_text("")
            agent, _ = self.start_server(folder, "ddprun", {"DDPRUN_STANDBY": "1"})
            process = agent.fork(0, ["program.py"])
            with open(folder / "out", "w") as out:
                agent.go({"DDPRUN_CONTROL_SOCKET": agent.path}, out, out)
            connection, _ = agent.listener.accept()
            with connection:
                self.assertEqual(connection.recv(8192), b"TELLS=1")
            self.assertEqual(os.waitpid(process, 0)[1], 0)

    def test_the_first_start_and_a_restart_are_forked(self):
        script = str(launchers.PROGRAMS / "restart_when_warm.py")
        with tempfile.TemporaryDirectory() as path:
            command = [os.environ["DDPRUN"], "-v", "--log-dir", path + "/logs", "--nproc-per-node",
                       "2", "--max-restarts", "1", "--warm", "--preload", "json,decimal", script, path]
            environment = dict(os.environ, PYTHON_EXEC=PYTHON, PYTHONPATH="/a:")
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                  env=environment) as ddprun:
                said = []
                while sum(line.rstrip().endswith("waits") for line in said) < 4:
                    said.append(ddprun.stderr.readline())
                    self.assertTrue(said[-1], "".join(said))
                worker = re.search(r"rank 1 is pid (\d+)", "".join(said)).group(1)
                os.kill(int(worker), signal.SIGKILL)
                said.append(ddprun.communicate(timeout=launchers.HANG)[1])
            self.assertEqual(ddprun.returncode, 0, "".join(said))
            run = next(pathlib.Path(path, "logs").iterdir())
            for rank in (0, 1):
                facts = json.loads(pathlib.Path(path, f"rank{rank}.json").read_text())
                self.assertTrue(facts["preloaded"])
                self.assertEqual(facts["argv"], [script, path])
                self.assertEqual(facts["main"], script)
                self.assertEqual(facts["environment"]["TORCHELASTIC_RESTART_COUNT"], "1")
                for name in ("DDPRUN_STANDBY", "OPENBLAS_NUM_THREADS",
                             "PYTORCH_NVML_BASED_CUDA_CHECK"):
                    self.assertNotIn(name, facts["environment"])
                self.assertEqual(facts["environment"].get("PYTHONPATH"), "/a:")
                self.assertEqual(facts["path"][1], "/a")
                self.assertRegex(facts["path"][-1], "/python/module$")
                self.assertEqual([at for at in facts["path"] if "/python/site" in at], [])
                for attempt in (0, 1):
                    self.assertTrue((run / f"attempt_{attempt}/{rank}/standby/stdout.log").exists())
            text = "".join(said)
            self.assertEqual(len(re.findall(r"rank \d is pid \d+, which had waited", text)), 4)
            self.assertEqual(text.count("the fork server is pid"), 1)


if __name__ == "__main__":
    unittest.main()
