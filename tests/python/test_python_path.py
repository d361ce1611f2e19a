"""A Python worker finds the module ddprun last in its path, and nothing else of ddprun. Each
program runs once under Python alone and once under ddprun, with the same result."""

import json
import os
import pathlib
import re
import stat
import subprocess
import tempfile
import time
import unittest
import zipfile

import fake_agent
import launchers

SHOW = (launchers.PROGRAMS / "show_python.py").read_text()
PYTHON = fake_agent.PYTHON


class PythonPathTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "show.py").write_text(SHOW)
        (self.folder / "tmp").mkdir()

    def user_site(self, source):
        (self.folder / "user").mkdir()
        (self.folder / "user" / "sitecustomize.py").write_text(source)
        return {"PYTHONPATH": str(self.folder / "user")}

    def run_in(self, command, environment):
        return subprocess.run(command, cwd=self.folder, check=False, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=launchers.HANG,
                              env=fake_agent.environment(TMPDIR=str(self.folder / "tmp"),
                                                         **environment))

    def under_ddprun(self, command, environment=(), flags=()):
        """Runs the command under ddprun. Returns its exit code, its stdout and its stderr."""
        report = self.folder / "report.json"
        done = self.run_in([os.environ["DDPRUN"], "--log-dir", "logs", "--report", str(report),
                            *flags, "--", *command], dict(environment))
        run = pathlib.Path(json.loads(report.read_text())["run_dir"])
        out, err = ((run / "attempt_0" / "0" / name).read_text()
                    for name in ("stdout.log", "stderr.log"))
        return done.returncode, out, err

    def both(self, command, environment=(), flags=()):
        """What the program shows under Python alone and under ddprun."""
        alone = self.run_in(command, dict(environment))
        code, out, err = self.under_ddprun(command, environment, flags)
        self.assertEqual((alone.returncode, alone.stderr), (code, err))
        self.assertEqual(code, 0, err)
        return json.loads(alone.stdout.splitlines()[-1]), json.loads(out.splitlines()[-1])

    def check(self, command, environment=(), module=True, flags=()):
        """If the agent serves the store, one import finder waits for torch's rendezvous. Nothing else differs."""
        alone, under = self.both(command, environment, flags)
        if module and not flags:
            (finder,) = under.pop("hooks")
            self.assertTrue(finder.startswith("<_ddprun_after_import._Finder"), finder)
            self.assertEqual(alone.pop("hooks"), [])
        self.assertIsNone(alone.pop("module"))
        found = under.pop("module")
        if module:
            folder = under["path"].pop()
            self.assertEqual(found, folder + "/ddprun.py")
            self.assertTrue(folder.startswith(str(self.folder / "tmp")), folder)
        else:
            self.assertIsNone(found)
        self.assertEqual(under, alone)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [], "removed with the run")

    def test_the_environment_and_the_path_are_the_users_and_so_are_those_of_children(self):
        for name, environment in (("unset", {}), ("empty", {"PYTHONPATH": ""}),
                                  ("a path", {"PYTHONPATH": "/a:rel::/b/"}),
                                  ("a colon", {"PYTHONPATH": ":"}),
                                  ("bytes", {"PYTHONPATH": b"/\xff"})):
            with self.subTest(name):
                self.check([PYTHON, "show.py"], environment)
                self.check([PYTHON, "show.py"], environment, flags=["--store", "worker"])

    def test_however_the_program_is_named(self):
        with zipfile.ZipFile(self.folder / "app.zip", "w") as archive:
            archive.writestr("__main__.py", SHOW)
        for arguments in (["-m", "show"], ["-s", "show.py"], ["-c", "import show; show.main()"],
                          ["app.zip"], ["-X", "dev", "-uB", "show.py"]):
            with self.subTest(arguments):
                self.check([PYTHON, *arguments])

    def test_an_interpreter_that_reads_no_python_path_is_left_alone(self):
        for option in ("-I", "-E", "-S", "-Es"):
            with self.subTest(option):
                self.check([PYTHON, option, "show.py"], {"PYTHONPATH": "/a"}, module=False)

    def test_a_virtual_environment(self):
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", self.folder / "venv"], check=True)
        self.check([str(self.folder / "venv" / "bin" / "python"), "show.py"])

    def test_the_users_own_sitecustomize_runs_once_and_is_the_one(self):
        more = self.user_site("import sys\nprint('user site', __name__, sys.path[1:])\n")
        self.check([PYTHON, "show.py"], more)
        out = self.under_ddprun([PYTHON, "show.py"], more)[1]
        self.assertEqual(len(re.findall("^user site sitecustomize", out, re.M)), 1, out)

    def test_an_error_of_the_users_sitecustomize_is_told_as_by_python(self):
        for source in ("raise KeyError('x')\n", "import nothing_there\n",
                       "raise ImportError('x', name='sitecustomize')\n"):
            with self.subTest(source):
                more = {"PYTHONPATH": str(self.folder / "user")}
                if (self.folder / "user").exists():
                    (self.folder / "user" / "sitecustomize.py").write_text(source)
                else:
                    more = self.user_site(source)
                self.check([PYTHON, "-B", "show.py"], more)
        (self.folder / "user" / "sitecustomize.py").write_text("raise SystemExit(5)\n")
        alone = self.run_in([PYTHON, "-B", "show.py"], more)
        self.assertEqual(self.under_ddprun([PYTHON, "-B", "show.py"], more)[0], alone.returncode)

    def test_a_users_module_of_the_same_name_wins(self):
        (self.folder / "lib").mkdir()
        (self.folder / "lib" / "ddprun.py").write_text("")
        alone, under = self.both([PYTHON, "show.py"], {"PYTHONPATH": str(self.folder / "lib")},
                                 ["--store", "worker"])
        self.assertEqual(under["module"], str(self.folder / "lib" / "ddprun.py"))
        under["path"].pop()
        self.assertEqual(under, alone)

    ASK = ("import os, signal, sys\n"
           "def ask():\n"
           "  os.kill(os.getpid(), 61)\n"
           "  print(open('/proc/self/fd/%d' % sys._ddprun_stacks).read())\n")

    def check_stacks(self, command, environment=()):
        code, out, err = self.under_ddprun(command, environment)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r'Current thread .*\n  File "[^"]*ask.py", line [34] in ask\n')

    def test_faulthandler_writes_the_python_frames_on_its_signal(self):
        (self.folder / "ask.py").write_text(self.ASK + "ask()\n")
        self.check_stacks([PYTHON, "ask.py"])
        more = self.user_site("import signal\nsignal.signal(61, lambda *_: print('mine'))\n")
        (self.folder / "own.py").write_text(
            "import os, sys\n"
            "os.kill(os.getpid(), 61)\n"
            "print(hasattr(sys, '_ddprun_stacks'))\n")
        self.assertEqual(self.under_ddprun([PYTHON, "own.py"], more), (0, "mine\nFalse\n", ""))

    def test_where_a_wrapper_starts_python_the_module_sees_to_it(self):
        subprocess.run([os.environ["DDPRUN"], "python-module", self.folder / "lib"], check=True,
                       stdout=subprocess.DEVNULL)
        (self.folder / "run.sh").write_text(f'exec "{PYTHON}" "$@"\n')
        path = {"PYTHONPATH": str(self.folder / "lib")}
        (self.folder / "ask.py").write_text(self.ASK + "import ddprun\nddprun.step(1)\nask()\n")
        self.check_stacks(["sh", "run.sh", "ask.py"], path)
        (self.folder / "own.py").write_text(
            "import os, signal, sys\n"
            "signal.signal(61, lambda *_: print('mine'))\n"
            "import ddprun\n"
            "ddprun.step(1)\n"
            "os.kill(os.getpid(), 61)\n"
            "print(hasattr(sys, '_ddprun_stacks'))\n")
        self.assertEqual(self.under_ddprun(["sh", "run.sh", "own.py"], path),
                         (0, "mine\nFalse\n", ""))

    def test_its_folder_is_the_users_alone_and_what_it_tells_is_in_the_report(self):
        (self.folder / "train.py").write_text(
            "import ddprun, os, sys\n"
            "print(oct(os.stat(os.path.dirname(sys.path[-1])).st_mode), ddprun.enabled())\n"
            "ddprun.step(41)\n"
            "with ddprun.phase('eval'): sys.exit(3)\n")
        code, out, err = self.under_ddprun([PYTHON, "train.py"])
        self.assertEqual((code, out, err), (3, f"{oct(stat.S_IFDIR | 0o700)} True\n", ""))
        report = json.loads((self.folder / "report.json").read_text())
        self.assertEqual(report["root_cause"]["step"], 41)

    def test_a_program_that_only_tells_how_it_gets_on_is_not_asked_to_save(self):
        """The program would not answer, and the stop would wait for its answer for --save-timeout."""
        (self.folder / "train.py").write_text(
            "import ddprun, signal\n"
            "ddprun.step(1)\n"
            "with ddprun.phase('eval'):\n"
            "  open('there', 'w').write('yes')\n"
            "  while True: signal.pause()\n")
        ddprun = os.environ["DDPRUN"]
        with subprocess.Popen([ddprun, "rendezvous", "--listen", "127.0.0.1:0", "--insecure",
                               "--port-file", "port"], cwd=self.folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as rendezvous:
            self.addCleanup(rendezvous.kill)
            self.wait_for("port", rendezvous)
            endpoint = ["--insecure", "--rdzv-endpoint",
                        "127.0.0.1:" + (self.folder / "port").read_text().strip()]
            with subprocess.Popen([ddprun, *endpoint, "--rdzv-id", "job", "--save-timeout", "1h",
                                   "--log-dir", "logs", "--", PYTHON, "train.py"], cwd=self.folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=fake_agent.environment()) as job:
                self.addCleanup(job.kill)
                self.wait_for("there", job)
                done = subprocess.run([ddprun, "stop", "job", "--save", *endpoint], check=False,
                                      timeout=launchers.HANG, capture_output=True, text=True)
                out = job.communicate(timeout=launchers.HANG)[0]
            rendezvous.terminate()
        self.assertEqual(done.returncode, 0, done.stderr + out)
        self.assertIn("no checkpoint was made for it", out)

    def wait_for(self, file, process):
        """Waits until the file has content. If the process ends before, ends all processes and fails."""
        path = self.folder / file
        while not path.exists() or not path.stat().st_size:
            if process.poll() is not None:
                self.doCleanups()
                self.fail(f"{file} is not there: {process.stdout and process.stdout.read()}")
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
