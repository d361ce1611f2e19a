#!/usr/bin/python3
"""What an operator learns about a hanging training, and when: under ddprun and under torchrun.

Both start the same unmodified Python script with two ranks, side by side. Rank 1 trains for some seconds and then
sleeps for ever in its data loader, so that rank 0 waits in an all-reduce. No flag sets a limit for a hang. ddprun gets
--auto-step, because otherwise it does not know the steps of such a script. The clock begins when rank 1 falls asleep.
A launcher is ended 3 s after its first message, or after --cap seconds. Then the table and ddprun's whole report are
printed.

usage: tests/bench/hang_bench.py [--bin build/bin] [--cap 300]
Needs python3-torch. Exit code 1 if ddprun does not name rank 1 and its function, or takes longer than 33 s: its limit
is 30 s, and a heartbeat comes once a second.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.join(HERE, "hang_bench_worker.py")
START_LIMIT = 120  # seconds: reached only when something breaks
AFTER_WORDS = 3  # seconds: the lines that belong to the first one follow at once
MOST = 33


class Contender:
    """A launcher with its training, read line by line until it has spoken or the time is over."""

    def __init__(self, name, argv, folder, cap):
        self.name = name
        self.asleep_file = os.path.join(folder, f"{name}.asleep")
        self.launcher = subprocess.Popen(
            [*argv, WORKER, self.asleep_file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace", cwd=folder)
        self.began = time.monotonic()
        self.cap = cap
        self.lines = []  # (time, line)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.launcher.stdout:
            self.lines.append((time.monotonic(), line.rstrip()))

    def asleep(self):
        """When the rank fell asleep; None: not yet."""
        try:
            with open(self.asleep_file, encoding="ascii") as file:
                return float(file.read())
        except FileNotFoundError:
            return None

    def said(self):
        """What the launcher has said since then: [(seconds, line), ...]"""
        since = self.asleep()
        return [(at - since, line) for at, line in list(self.lines) if since and at > since and line]

    def is_done(self):
        now = time.monotonic()
        asleep = self.asleep()
        if self.launcher.poll() is not None or (not asleep and now > self.began + START_LIMIT):
            return True
        said = self.said()
        return bool(asleep) and now > asleep + (said[0][0] + AFTER_WORDS if said else self.cap)

    def end(self):
        """Ends the launcher; returns its output until then. Ends the program if no rank has fallen asleep."""
        said = self.said()
        self.launcher.terminate()
        self.launcher.wait()
        self.reader.join()
        if not self.asleep():
            sys.exit(f"{self.name}: the training did not begin:\n" +
                     "\n".join(line for _, line in self.lines[-30:]))
        return said


def run(contenders):
    """{name: its output}"""
    said = {}
    while len(said) < len(contenders):
        for contender in contenders:
            if contender.name not in said and contender.is_done():
                said[contender.name] = contender.end()
        time.sleep(0.05)
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--cap", type=int, default=300)
    arguments = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHON_EXEC"] = "/usr/bin/python3"
    ddprun = os.path.abspath(os.path.join(arguments.bin, "ddprun"))
    with tempfile.TemporaryDirectory() as folder:
        # With Python 3.11 this torchrun crashes unless -r and -t are both 1.
        torchrun = ["/usr/bin/python3", "-m", "torch.distributed.run", "--nproc_per_node", "2", "-r",
                    "1", "-t", "1", "--log_dir", folder]
        contenders = [
            Contender("ddprun", [ddprun, "--log-dir", folder, "--nproc-per-node", "2",
                                 "--auto-step"], folder, arguments.cap),
            Contender("torchrun", torchrun, folder, arguments.cap),
        ]
        said = run(contenders)
    print(f"{'launcher':10} {'after s':>8}  first words")
    for name, lines in said.items():
        after, line = lines[0] if lines else (arguments.cap, None)
        print(f"{name:10} {('' if line else '> ') + format(after, '.1f'):>8}  {line or 'nothing'}")
    print("\nddprun has said:")
    for _, line in said["ddprun"]:
        print(f"    {line}")
    verdict = " ".join(line for _, line in said["ddprun"])
    named = re.search(r"rank 1 on \S+ \(pid \d+\) is in no collective: it is in download", verdict)
    if not named or said["ddprun"][0][0] > MOST:
        sys.exit("FAIL: ddprun does not name rank 1 and its function, or is late")


if __name__ == "__main__":
    main()
