"""The jobs of recovery_bench.py and ettr_bench.py: how each contender is started, and what its workers have written."""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PRELOAD = "torch,torch.distributed,torch.nn.parallel"
LIMIT = 120  # seconds: reached only when something hangs


def set_environment():
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["PYTHON_EXEC"] = "/usr/bin/python3"
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def contenders(binary, folder, script, restarts, ranks=2, flags=()):
    """name: argv without the arguments of the worker. `flags` are more flags of ddprun."""
    cpp = [os.path.join(os.path.abspath(binary), "recovery_worker")]
    script = [os.path.join(HERE, script)]
    ddprun = [os.path.join(os.path.abspath(binary), "ddprun"), "--log-dir", os.path.join(folder, "logs"),
              "--nproc-per-node", str(ranks), "--max-restarts", str(restarts), *flags]
    # With Python 3.11 this torchrun crashes unless -r and -t are given.
    torchrun = ["/usr/bin/python3", "-m", "torch.distributed.run", "--nproc_per_node", str(ranks),
                "--max_restarts", str(restarts), "--monitor_interval", "0.1", "-r", "1", "-t", "1",
                "--log_dir", folder]
    none_stays = ["--in-place-timeout", "0"]
    return {
        "C++ in place": ddprun + ["--warm"] + cpp,
        "C++ warm": ddprun + ["--warm"] + none_stays + cpp,
        "C++ cold": ddprun + none_stays + cpp,
        "Python preloaded": ddprun + ["--warm", "--preload", PRELOAD] + script,
        "Python cold": ddprun + script,
        "torchrun": torchrun + script,
    }


class Job:
    """A launcher with its workers, from its start to its end. `arguments` of the workers come after FILE."""

    def __init__(self, argv, folder, arguments=()):
        self.path = os.path.join(folder, "progress")
        self.said = os.path.join(folder, "stderr")
        self.launcher = None
        open(self.path, "wb").close()
        self.reader = open(self.path, encoding="ascii")
        self.read = []  # all whole lines so far, as lists of words
        self.part = ""  # of the next line
        with open(self.said, "wb") as err:
            self.launcher = subprocess.Popen([*argv, self.path, *arguments], stdout=subprocess.DEVNULL,
                                             stderr=err)

    def lines(self):
        *whole, self.part = (self.part + self.reader.read()).split("\n")
        self.read += [line.split() for line in whole]
        return self.read

    def output(self):
        with open(self.said, encoding="utf-8", errors="replace") as file:
            return file.read()

    def check(self):
        """Ends the benchmark if the launcher has ended."""
        if self.launcher.poll() is not None:
            sys.exit(f"the launcher ended with {self.launcher.returncode}:\n{self.output()[-3000:]}")

    def wait_for(self, what, done):
        """What `done` returns, once it is true."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            result = done()
            if result:
                return result
            self.check()
            time.sleep(0.005)  # the workers write the measured times themselves
        sys.exit(f"no {what} within {LIMIT} s; the launcher has said:\n{self.output()[-3000:]}")

    def end(self):
        self.reader.close()
        self.launcher.terminate()
        try:
            self.launcher.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            self.launcher.wait()
