"""The module `ddprun`: it sends reports, and never disturbs a program."""

import ast
import os
import pathlib
import subprocess
import tempfile
import unittest

import fake_agent
from fake_agent import FakeAgent, read_all


class TellTest(unittest.TestCase):
    def packets_of(self, source, err=""):
        with FakeAgent() as agent:
            connections = agent.run(self, "import ddprun\n" + source, err)[1]
        self.assertEqual(len(connections), 1)
        self.assertEqual(connections[0][0], "TELLS=1")
        return connections[0][1:]

    def test_the_import_tells_that_steps_will_come(self):
        """Then ddprun can notice a hang before the first step. Break: leave out _begin() in ddprun.py."""
        self.assertEqual(self.packets_of(""), [])

    def test_a_warm_standby_is_no_worker_yet_and_tells_nothing(self):
        with FakeAgent() as agent:
            connections = agent.run(self, "import ddprun\n", DDPRUN_STANDBY="1")[1]
        self.assertEqual(connections, [])

    def test_steps_are_told_at_once_and_the_first_one_says_that_this_is_training(self):
        self.assertEqual(self.packets_of("for n in (7, 8, True): ddprun.step(n)"),
                         ["STEP=7\nPHASE=train", "STEP=8", "STEP=1"])

    def test_a_phase_that_ends_gives_way_to_the_one_before(self):
        self.assertEqual(self.packets_of(
            "with ddprun.phase('eval'):\n"
            "  with ddprun.phase('save now'): pass\n"
            "  with ddprun.phase('eval'): pass\n"
            "@ddprun.phase('load')\n"
            "def load(n): return n and load(n - 1)\n"
            "load(2)\n"
            "try:\n"
            "  with ddprun.phase('fail'): raise KeyError\n"
            "except KeyError: pass\n"),
            ["PHASE=eval", "PHASE=save now", "PHASE=eval", "PHASE=train", "PHASE=load",
             "PHASE=train", "PHASE=fail", "PHASE=train"])

    def test_phases_of_several_threads_may_overlap(self):
        self.assertEqual(self.packets_of(
            "a, b = ddprun.phase('a'), ddprun.phase('b')\n"
            "a.__enter__(); b.__enter__(); a.__exit__(None, None, None)\n"
            "b.__exit__(None, None, None)\n"), ["PHASE=a", "PHASE=b", "PHASE=train"])

    def test_all_that_is_told_from_many_threads_is_whole(self):
        with FakeAgent() as agent, agent.start(
                "import ddprun, threading\n"
                "def work(k):\n"
                "  for n in range(1000): ddprun.step(1000 * k + n)\n"
                "threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]\n"
                "for t in threads: t.start()\n"
                "for t in threads: t.join()\n"
                "ddprun.step(99999)\n") as worker:
            with agent.accept() as connection:
                packets = read_all(connection)
            self.assertEqual(worker.communicate(timeout=fake_agent.HANG), ("", ""))
        self.assertEqual(packets[-1], "STEP=99999")
        self.assertEqual(packets.pop(0), "TELLS=1")
        for packet in packets:
            self.assertRegex(packet, r"^STEP=\d+(\nPHASE=train)?$")

    def test_the_last_of_very_many_steps_arrives_while_the_program_is_busy_elsewhere(self):
        with FakeAgent() as agent, agent.start(
                "import ddprun, time\n"
                "begin = time.monotonic()\n"
                "for n in range(50000): ddprun.step(n)\n"
                "print(time.monotonic() - begin)\n"
                "input()\n") as worker:
            with agent.accept() as connection:
                packets = []
                while packets[-1:] != ["STEP=49999"]:
                    packets.append(connection.recv(8192).decode())  # if STEP=49999 never comes, recv() fails after HANG
            took = float(worker.stdout.readline())
            worker.communicate("\n", timeout=fake_agent.HANG)
        # Allowed: a burst, 1,000 packets a second, and at most 200 a second from the thread that sends late.
        self.assertLess(len(packets), 100 + 1200 * took + 50)

    def test_an_agent_that_does_not_read_holds_nobody_up_and_hears_the_last_step(self):
        with FakeAgent() as agent, agent.start(
                "import ddprun, time\n"
                "begin = time.monotonic()\n"
                "n = 0\n"
                "while time.monotonic() < begin + 0.6:\n"
                "  n += 1\n"
                "  ddprun.step(n)\n"
                "  time.sleep(0.001)\n"
                "ddprun.step(99999)\n"
                "print(time.monotonic() - begin < 30)\n"
                "input()\n") as worker:
            # The worker has sent more than the buffer of the socket holds.
            self.assertEqual(worker.stdout.readline(), "True\n")
            with agent.accept() as connection:
                while "STEP=99999" not in connection.recv(8192).decode():
                    pass
            worker.communicate("\n", timeout=fake_agent.HANG)
            self.assertEqual(worker.returncode, 0)

    def test_a_lost_agent_makes_every_call_do_nothing(self):
        with FakeAgent() as agent, agent.start(
                "import ddprun\n"
                "ddprun.step(1)\n"
                "print(ddprun.enabled())\n"
                "input()\n"
                "for n in range(1000): ddprun.step(n)\n"
                "with ddprun.phase('eval'): print(ddprun.enabled())\n") as worker:
            with agent.accept():
                self.assertEqual(worker.stdout.readline(), "True\n")
            agent.listener.close()
            out, err = worker.communicate("\n", timeout=fake_agent.HANG)
        self.assertEqual((out, err, worker.returncode), ("False\n", "", 0))

    def test_without_ddprun_it_does_nothing_and_still_refuses_what_is_wrong(self):
        with FakeAgent() as agent:
            out, connections = agent.run(
                self,
                "import sys\n"
                "import ddprun\n"
                "ddprun.step(1)\n"
                "with ddprun.phase('eval'): print(ddprun.enabled())\n"
                "for wrong in ('', 'x' * 65, '\\u20ac' * 22, 'a\\nSTEP=1', '\\x1b[31m', '\\udc80',\n"
                "              'init', 'restore', 'first_step'):\n"
                "  try: ddprun.phase(wrong)\n"
                "  except ValueError as error: continue\n"
                "  print('taken', ascii(wrong))\n"
                "for call, wrong, error in ((ddprun.phase, 1, TypeError),\n"
                "    (ddprun.step, 1.0, TypeError), (ddprun.step, '1', TypeError),\n"
                "    (ddprun.step, -1, ValueError), (ddprun.step, 2**63, ValueError)):\n"
                "  try: call(wrong)\n"
                "  except error: continue\n"
                "  print('taken', wrong)\n"
                "print('socket' in sys.modules, ddprun.__version__ != '')\n",
                DDPRUN_CONTROL_SOCKET="")
        self.assertEqual((out, connections), ("False\nFalse True\n", []))

    def test_the_source_is_python_3_8(self):
        for name in ("ddprun", "sitecustomize", "auto_step"):
            ast.parse((fake_agent.SOURCES / f"{name}.py").read_text(), feature_version=(3, 8))


class OtherProcessesTest(unittest.TestCase):
    """Only the worker itself sends reports. Each child prints whether it would."""

    CHILD = ("import ddprun\n"
             "def child(n=0):\n"
             "  ddprun.step(1000)\n"
             "  with ddprun.phase('child'): return ddprun.enabled()\n")

    def check(self, source):
        with FakeAgent() as agent:
            out, connections = agent.run(self, self.CHILD + source)
        self.assertEqual(out, "False\nTrue\n")
        self.assertEqual(connections, [["TELLS=1", "STEP=1\nPHASE=train", "STEP=2"]])

    def test_a_forked_process_is_silent(self):
        self.check("import os\n"
                   "ddprun.step(1)\n"
                   "if os.fork() == 0:\n"
                   "  print(child(), flush=True)\n"
                   "  os._exit(0)\n"
                   "os.wait()\n"
                   "ddprun.step(2)\n"
                   "print(ddprun.enabled())\n")

    def test_a_fork_that_came_before_the_first_step_is_silent(self):
        self.check("import os\n"
                   "if os.fork() == 0:\n"
                   "  print(child(), flush=True)\n"
                   "  os._exit(0)\n"
                   "os.wait()\n"
                   "ddprun.step(1)\n"
                   "ddprun.step(2)\n"
                   "print(ddprun.enabled())\n")

    def test_a_fork_while_another_thread_tells_is_silent_and_not_stuck(self):
        with FakeAgent() as agent:
            out = agent.run(self, self.CHILD +
                            "import os, threading, warnings\n"
                            "warnings.simplefilter('ignore')\n"  # Python 3.12 warns of such a fork
                            "stop = threading.Event()\n"
                            "def tell():\n"
                            "  while not stop.is_set(): ddprun.step(1)\n"
                            "threads = [threading.Thread(target=tell) for _ in range(4)]\n"
                            "for t in threads: t.start()\n"
                            "for _ in range(50):\n"
                            "  pid = os.fork()\n"
                            "  if pid == 0: os._exit(7 if child() is False else 8)\n"
                            "  if os.waitpid(pid, 0)[1] != 7 << 8: print('spoke')\n"
                            "stop.set()\n")[0]
        self.assertEqual(out, "")

    def test_children_of_multiprocessing_are_silent(self):
        for method in ("spawn", "forkserver", "fork"):
            with self.subTest(method):
                self.check("import multiprocessing\n"
                           "if __name__ == '__main__':\n"
                           f"  with multiprocessing.get_context('{method}').Pool(1) as pool:\n"
                           "    print(pool.map(child, [1])[0])\n"
                           "  ddprun.step(1)\n"
                           "  ddprun.step(2)\n"
                           "  print(ddprun.enabled())\n")

    def test_programs_that_the_worker_starts_are_silent(self):
        self.check("import os, subprocess, sys\n"
                   "os.environ['PYTHONPATH'] = sys.path[-1]\n"
                   "if len(sys.argv) > 1:\n"
                   "  sys.exit(print(child()))\n"
                   "ddprun.step(1)\n"
                   "subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
                   "ddprun.step(2)\n"
                   "print(ddprun.enabled())\n")

    def test_the_program_that_the_worker_becomes_speaks(self):
        with FakeAgent() as agent:
            connections = agent.run(
                self, "import ddprun, os, sys\n"
                "os.environ['PYTHONPATH'] = sys.path[-1]\n"
                "ddprun.step(len(sys.argv))\n"
                "if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, __file__, 'x'])\n"
            )[1]
        self.assertEqual(connections, [["TELLS=1", "STEP=1\nPHASE=train"],
                                       ["TELLS=1", "STEP=2\nPHASE=train"]])


class PythonModuleCommandTest(unittest.TestCase):
    """ddprun python-module DIR"""

    def write(self, folder):
        return subprocess.run([os.environ["DDPRUN"], "python-module", str(folder)],
                              capture_output=True, text=True, check=False, timeout=fake_agent.HANG)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "a" / "lib"
        self.file = self.folder / "ddprun.py"

    def test_writes_a_module_that_works_and_that_it_replaces(self):
        for _ in range(2):
            done = self.write(self.folder)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{self.file}\n", ""))
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()),
                         ["_ddprun_state", "ddprun.py"])
        with FakeAgent() as agent:
            more = {"PYTHONPATH": str(self.folder), "DDPRUN_CONTROL_SOCKET": agent.path}
            said = subprocess.run([fake_agent.PYTHON, "-c", "import ddprun; ddprun.step(3); "
                                   "print(ddprun.__version__)"], check=True, capture_output=True,
                                  text=True, env=fake_agent.environment(**more)).stdout
            self.assertEqual(agent.packets(), [["TELLS=1", "STEP=3\nPHASE=train"]])
        version = subprocess.run([os.environ["DDPRUN"], "version"], check=True,
                                 capture_output=True, text=True).stdout
        self.assertEqual(version, "ddprun " + said)

    def test_leaves_another_file_as_it_is(self):
        self.folder.mkdir(parents=True)
        self.file.write_text("mine\n")
        done = self.write(self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"ddprun python-module: {self.file} is left as it is: it is "
                                      "not one that ddprun has written\n")
        self.assertEqual(self.file.read_text(), "mine\n")

    def test_names_the_path_and_the_reason_where_it_cannot_write(self):
        self.folder.parent.mkdir(parents=True)
        self.folder.write_text("")
        done = self.write(self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.folder}: ", done.stderr)
        done = self.write("/proc/ddprun")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/ddprun: No such file or directory", done.stderr)
        self.file = self.folder
        self.folder.unlink()
        (self.folder / "ddprun.py").mkdir(parents=True)
        done = self.write(self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.folder}/ddprun.py: Is a directory", done.stderr)


if __name__ == "__main__":
    unittest.main()
