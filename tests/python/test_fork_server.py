"""A forked worker compared with one started without the fork server; modules that cannot be preloaded; a fork server
that dies."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

import launchers

FACTS = "process_facts.py"


class FactsTest(unittest.TestCase):
    """A forked worker's process has the same properties as that of a worker without a fork server."""

    def test_a_forked_worker_has_what_a_plain_one_has(self):
        """Break: leave out setpgid, prctl, be_a_process_of_its_own or sys.orig_argv in fork_server.py, or
        close no connection there."""
        modules = "random,multiprocessing,numpy.random"
        plain = launchers.run(self, "ddprun", FACTS)
        forked = launchers.run(self, "ddprun", FACTS, flags=["--preload", modules])
        self.assertEqual(forked.code, 0, forked.err)
        self.assertEqual(sorted(forked.files), ["0.json", "1.json"])
        for name, facts in forked.files.items():
            same = json.loads(json.dumps(facts["same"]).replace(str(forked.folder), "FOLDER"))
            other = json.loads(json.dumps(plain.files[name]["same"])
                               .replace(str(plain.folder), "FOLDER"))
            self.assertEqual(same, other)
        of_0, of_1 = (forked.files[name]["drawn"] for name in ("0.json", "1.json"))
        self.assertEqual(len(of_0), 3, "the modules are preloaded")
        for name, value in of_0.items():
            self.assertNotEqual(value, of_1[name], name)

    def test_modules_that_start_threads_are_not_forked(self):
        """Break: let why_unfit() return None."""
        result = self.run_with_module("import threading, time\n"
                                      "threading.Thread(target=time.sleep, args=(100,), daemon=True,"
                                      " name='mine').start()\n")
        self.assertIn("the imports of --preload cannot be forked: they have started 1 threads",
                      result.err)
        self.assertIn("workers are started plainly", result.err)

    def test_modules_that_cannot_be_imported_are_said_and_the_workers_start(self):
        result = self.run_with_module("raise ImportError('not today')\n")
        self.assertRegex(result.err, r"the fork server has ended by exit code 1 \(ImportError: not "
                         r"today\); workers are started plainly")

    def run_with_module(self, source):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "preloaded.py").write_text(source)
            result = launchers.run(self, "ddprun", FACTS, flags=["--preload", "preloaded"],
                                   environment={"PYTHONPATH": folder})
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(sorted(result.files), ["0.json", "1.json"])
        return result


class Job:
    """ddprun with two workers that make steps for ever. `said` has the lines of ddprun."""

    def __init__(self, test, flags=(), preload="json,decimal"):
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
        test.addCleanup(temporary.cleanup)
        self.test = test
        self.out = pathlib.Path(temporary.name, "out")
        self.out.mkdir()
        self.said = ""
        command = [os.environ["DDPRUN"], "-v", "--log-dir", temporary.name + "/logs",
                   "--nproc-per-node", "2", "--max-restarts", "5", "--preload", preload,
                   *flags, str(launchers.PROGRAMS / "endless.py"), str(self.out)]
        self.ddprun = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True,
                                       env=dict(os.environ, PYTHON_EXEC="/usr/bin/python3"))
        test.addCleanup(self.end)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.ddprun.kill()
        self.ddprun.wait()
        self.ddprun.stderr.close()

    def await_line(self, pattern, count=1):
        while len(found := re.findall(pattern, self.said)) < count:
            line = self.ddprun.stderr.readline()
            self.test.assertTrue(line, f"no {pattern}:\n{self.said}")
            self.said += line
        return found[-1]

    def workers(self, attempt):
        """The facts that both workers have written, by rank. Waits until both run."""
        deadline = time.monotonic() + launchers.HANG
        paths = [self.out / f"{attempt}.{rank}.json" for rank in (0, 1)]
        while not all(path.exists() for path in paths):
            self.test.assertLess(time.monotonic(), deadline, self.said)
            time.sleep(0.02)
        return [json.loads(path.read_text()) for path in paths]


def lives(pid):
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def cores():
    """The number of physical cores: two CPUs may be threads of one core."""
    folder = pathlib.Path("/sys/devices/system/cpu")
    return len({file.read_text() for file in folder.glob("cpu*/topology/thread_siblings_list")})


def cpus_of(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return re.search(r"Cpus_allowed_list:\t(.*)", status)[1]


def await_deaths(test, pids):
    deadline = time.monotonic() + launchers.HANG
    while any(map(lives, pids)):
        test.assertLess(time.monotonic(), deadline)
        time.sleep(0.02)


class ForkServerTest(unittest.TestCase):
    """The fork server of a running job."""

    def test_its_death_ends_no_worker_and_it_is_started_again(self):
        job = Job(self)
        server = int(job.await_line(r"the fork server is pid (\d+)"))
        first = job.workers(0)
        self.assertTrue(all(worker["preloaded"] for worker in first))
        os.kill(server, signal.SIGKILL)
        job.await_line("the fork server has ended by SIGKILL.*no worker ends by that")
        job.await_line(r"the fork server \(pid \d+\) has imported its modules", count=2)
        self.assertTrue(all(lives(worker["pid"]) for worker in first))
        os.kill(first[1]["pid"], signal.SIGKILL)
        self.assertTrue(all(worker["preloaded"] for worker in job.workers(1)))

    def test_one_that_hangs_is_killed_and_the_job_goes_on(self):
        """Break: leave out fork_limit in fork_server.cc. Then the server is not killed."""
        job = Job(self)
        server = int(job.await_line(r"the fork server is pid (\d+)"))
        first = job.workers(0)
        os.kill(server, signal.SIGSTOP)
        os.kill(first[0]["pid"], signal.SIGKILL)
        job.await_line("the fork server has not forked within 10 s and is killed")
        await_deaths(self, [server])
        job.workers(1)
        job.await_line(r"the fork server \(pid \d+\) has imported its modules", count=2)

    def test_standbys_are_forked_together_and_nothing_is_left(self):
        job = Job(self, ["--warm"])
        first = job.workers(0)
        job.await_line(r"standby \d+ \(pid \d+\) waits", count=4)
        waiting = [int(pid) for pid in re.findall(r"standby \d+ \(pid (\d+)\) waits", job.said)]
        os.kill(first[0]["pid"], signal.SIGKILL)
        second = job.workers(1)
        self.assertEqual({worker["pid"] for worker in second}, set(waiting[2:]))
        server = int(job.await_line(r"the fork server is pid (\d+)"))
        job.ddprun.kill()  # the guardian ends all processes
        await_deaths(self, [server, *waiting, *(worker["pid"] for worker in second)])

    @unittest.skipUnless(cores() >= 2, "needs two physical cores")
    def test_forked_workers_run_on_the_cpus_of_their_local_rank(self):
        """Break: leave out sched_setaffinity in fork_server.py."""
        job = Job(self, ["--warm", "--numa-binding", "exclusive"])
        first = job.workers(0)
        job.await_line(r"standby \d+ \(pid \d+\) waits", count=4)
        bound = [cpus_of(worker["pid"]) for worker in first]
        self.assertNotEqual(bound[0], bound[1])
        for rank, cpus in enumerate(bound):
            self.assertRegex(job.said, rf"local rank {rank} runs on CPUs {cpus}\n")
        server = int(job.await_line(r"the fork server is pid (\d+)"))
        self.assertEqual(cpus_of(server), cpus_of("self"), "it is no one worker's")
        os.kill(first[0]["pid"], signal.SIGKILL)
        second = job.workers(1)
        self.assertTrue(all(worker["preloaded"] for worker in second))
        self.assertEqual([cpus_of(worker["pid"]) for worker in second], bound)

    def test_sigterm_during_the_imports_ends_the_job(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "slow.py").write_text("import time\ntime.sleep(1000)\n")
            os.environ["PYTHONPATH"] = folder
            self.addCleanup(os.environ.pop, "PYTHONPATH")
            job = Job(self, preload="slow")
            server = int(job.await_line(r"the fork server is pid (\d+)"))
            job.ddprun.terminate()
            self.assertEqual(job.ddprun.wait(timeout=launchers.HANG), 128 + signal.SIGTERM)
            self.assertFalse(lives(server))


if __name__ == "__main__":
    unittest.main()
