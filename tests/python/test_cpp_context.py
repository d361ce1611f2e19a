"""A C++ worker that calls ddp::init() finds its place under every kind of launcher: ddprun, torchrun,
variables set by hand, and none. $CONTEXT_PROBE: tests/programs/context_probe.cc."""

import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

import launchers

PROBE = os.environ["CONTEXT_PROBE"]


def expected(rank, size, restarts=0):
    return {
        "rank": rank, "world_size": size, "local_rank": rank, "local_world_size": size,
        "restart_count": restarts, "device": "cpu", "backend": "gloo",
        "sum": size * (size + 1) // 2,
    }


def clean_environment(**variables):
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(launchers.OURS) and name not in launchers.WORKERS
        and name != "LOCAL_WORLD_SIZE"
    }
    return {**environment, **variables}


class ContextTest(unittest.TestCase):
    def results(self, folder):
        return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]

    def folder(self):
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-context-")
        self.addCleanup(temporary.cleanup)
        return pathlib.Path(temporary.name)

    def test_under_both_launchers_also_after_a_restart(self):
        for launcher in ("ddprun", "torchrun"):
            with self.subTest(launcher):
                result = launchers.run(self, launcher, PROBE, nproc=2,
                                       flags=["--max_restarts", "1", "--no_python"],
                                       arguments=["fail-once"])
                self.assertEqual(result.code, 0, result.err)
                self.assertEqual(result.files["rank0.json"], expected(0, 2, restarts=1))
                self.assertEqual(result.files["rank1.json"], expected(1, 2, restarts=1))

    def test_under_variables_set_by_hand(self):
        folder = self.folder()
        with socket.socket() as held:  # bound, not listening: rank 0 may still listen
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            workers = [
                subprocess.Popen(
                    [PROBE, folder],
                    env=clean_environment(
                        RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                        MASTER_ADDR="localhost", MASTER_PORT=str(held.getsockname()[1])))
                for rank in range(2)
            ]
            codes = [worker.wait(launchers.HANG) for worker in workers]
        self.assertEqual(codes, [0, 0])
        # No variable says how many workers this node has.
        self.assertEqual(self.results(folder),
                         [{**expected(rank, 2), "local_world_size": 1} for rank in range(2)])

    def test_with_no_launcher_at_all(self):
        folder = self.folder()
        subprocess.run([PROBE, folder], env=clean_environment(), check=True,
                       timeout=launchers.HANG)
        self.assertEqual(self.results(folder), [expected(0, 1)])

    def test_a_missing_variable_is_named(self):
        worker = subprocess.run(
            [PROBE, self.folder()], env=clean_environment(RANK="0", WORLD_SIZE="2"),
            stderr=subprocess.PIPE, text=True, timeout=launchers.HANG, check=False)
        self.assertEqual(worker.returncode, 1)
        self.assertIn("not in the environment: LOCAL_RANK, MASTER_ADDR, MASTER_PORT.",
                      worker.stderr)


if __name__ == "__main__":
    unittest.main()
