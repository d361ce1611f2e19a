import array
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import launchers

STANDBY = launchers.HERE.parents[1] / "launcher" / "python" / "standby.py"
PYTHON = "/usr/bin/python3"

# Name, files, and the program as it is written behind `python3`.
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


def outcome(folder, process):
    process.wait(timeout=launchers.HANG)
    return (process.returncode, (folder / "out").read_text(), (folder / "err").read_text())


class Agent:
    """The agent's end of the control socket, for one standby."""

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
        file = os.memfd_create("environment")
        os.write(file, b"".join(f"{k}={v}".encode() + b"\0" for k, v in environment.items()))
        os.lseek(file, 0, os.SEEK_SET)
        rights = array.array("i", [file, out.fileno(), err.fileno()])
        self.connection.sendmsg([b"GO=1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os.close(file)

    def close(self):
        self.connection.close()
        self.listener.close()


class StandbyTest(unittest.TestCase):
    """launcher/python/standby.py against `python3 PROGRAM`, and under ddprun."""

    def cold(self, folder, arguments):
        with open(folder / "out", "w") as out, open(folder / "err", "w") as err:
            process = subprocess.Popen([PYTHON, "-u", *arguments], cwd=folder, stdout=out,
                                       stderr=err, stdin=subprocess.DEVNULL,
                                       env={"PATH": os.environ["PATH"], "NEW": "1"})
        return outcome(folder, process)

    def warm(self, folder, arguments, modules="json,decimal"):
        agent = Agent(folder)
        environment = {"PATH": os.environ["PATH"], "DDPRUN_CONTROL_SOCKET": agent.path, "OLD": "1"}
        standby = subprocess.Popen([PYTHON, "-u", STANDBY, modules, *arguments], cwd=folder,
                                   env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with standby, open(folder / "out", "w") as out, open(folder / "err", "w") as err:
            self.assertEqual(agent.wait(), b"STANDBY=waiting")
            agent.go({"PATH": os.environ["PATH"], "NEW": "1"}, out, err)
            agent.close()
            result = outcome(folder, standby)
            self.assertEqual(standby.communicate(), (b"", b""), "its own streams before GO")
        return result

    def both(self, sources, arguments):
        results = []
        for run in (self.cold, self.warm):
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
                cold, warm = self.both(sources, arguments)
                self.assertEqual(warm, cold)

    def test_the_environment_is_the_workers_and_nothing_else(self):
        cold, warm = self.both(["import os, subprocess\nprint(sorted(os.environ.items()))\n"
                                "print(os.getenv('OLD'), os.getenv('NEW'), flush=True)\n"
                                "subprocess.run(['/usr/bin/env'])\n"], ["{0}"])
        self.assertEqual(warm, cold)
        self.assertIn("None 1", warm[1])

    def test_a_standby_whose_agent_goes_away_ends_quietly(self):
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            agent = Agent(folder)
            with subprocess.Popen([PYTHON, STANDBY, "json", "x.py"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT,
                                  env={"DDPRUN_CONTROL_SOCKET": agent.path}) as standby:
                self.assertEqual(agent.wait(), b"STANDBY=waiting")
                agent.close()
                self.assertEqual(standby.communicate(timeout=launchers.HANG)[0], b"")
            self.assertEqual(standby.returncode, 0)

    def test_a_preloaded_module_ddprun_tells_once_its_process_is_a_worker(self):
        """Break: leave out begin_to_tell(), or the look at DDPRUN_STANDBY in ddprun.py."""
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            shutil.copy(STANDBY.parent / "ddprun.py", folder)
            (folder / "program.py").write_text("")
            agent = Agent(folder)
            given = {"DDPRUN_CONTROL_SOCKET": agent.path}
            with open(folder / "out", "w") as out, subprocess.Popen(
                    [PYTHON, "-B", STANDBY, "ddprun", "program.py"], cwd=folder,
                    env={"DDPRUN_STANDBY": "1", **given}) as standby, contextlib.closing(agent):
                self.assertEqual(agent.wait(), b"STANDBY=waiting")
                agent.go(given, out, out)
                connection, _ = agent.listener.accept()
                with connection:
                    self.assertEqual(connection.recv(8192), b"TELLS=1")
                self.assertEqual(standby.wait(timeout=launchers.HANG), 0)

    def test_the_first_start_is_cold_and_a_restart_is_warm(self):
        script = str(launchers.PROGRAMS / "restart_when_warm.py")
        with tempfile.TemporaryDirectory() as path:
            command = [os.environ["DDPRUN"], "-v", "--log-dir", path + "/logs", "--nproc-per-node",
                       "2", "--max-restarts", "1", "--warm", "--preload", "json,decimal", script, path]
            environment = dict(os.environ, PYTHON_EXEC=PYTHON, PYTHONPATH="/a:")
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                  env=environment) as ddprun:
                said = []
                while sum(line.rstrip().endswith("waits") for line in said) < 2:
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
                self.assertNotIn("DDPRUN_STANDBY", facts["environment"])
                self.assertEqual(facts["environment"].get("PYTHONPATH"), "/a:")
                self.assertEqual(facts["path"][1], "/a")
                self.assertRegex(facts["path"][-1], "/python/module$")
                self.assertEqual([at for at in facts["path"] if "/python/site" in at], [])
                self.assertTrue((run / f"attempt_1/{rank}/standby/stdout.log").exists())
                self.assertFalse((run / f"attempt_0/{rank}/standby").exists())


if __name__ == "__main__":
    unittest.main()
