"""Unmodified scripts, while rank 0's agent serves torch's store."""
import contextlib
import socket
import sys
import types
import unittest
from unittest import mock

import launchers

WHY = "rank 0's worker serves the store from the next generation on, and no restart is spent"
FLAGS = ["--max-restarts", "0"]


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class AgentStoreTest(unittest.TestCase):
    """Unmodified scripts, while rank 0's agent serves torch's store."""

    def run_script(self, script, *arguments, flags=(), environment=None):
        result = launchers.run(self, "ddprun", script, flags=[*FLAGS, *flags],
                               arguments=arguments, environment=environment)
        self.assertEqual(result.code, 0, result.err)
        return result

    def test_a_script_that_serves_the_store_itself_gets_the_store_of_the_worker(self):
        result = self.run_script("own_store.py")
        if "TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error" in result.err:
            return  # torch 2.14: rank 0 takes the agent's store instead
        self.assertEqual(result.err.count(WHY), 1, result.err)
        self.assertIn("--store worker does so from the start", result.err)
        self.assertIn("the job succeeded after 0 restarts", result.err)

    # Without launcher/python/store.py every rank would wait for 30 minutes.
    def test_so_does_one_whose_ranks_meet_elsewhere(self):
        port = free_port()
        result = self.run_script("other_port.py", port)
        self.assertEqual(result.err.count(WHY), 1, result.err)
        self.assertIn("looks for torch's store at 127.0.0.1:%s, not at MASTER_PORT" % port,
                      result.err)

    def test_with_the_store_of_the_worker_from_the_start_there_is_one_generation(self):
        for script, arguments in (("own_store.py", []), ("other_port.py", [free_port()])):
            # Debian's torch 2.x is built without libuv (docs/store.md).
            result = self.run_script(script, *arguments, flags=["--store", "worker"],
                                     environment={"USE_LIBUV": "0"})
            self.assertNotIn("next generation", result.err)

    # The store still has the keys of the first group.
    def test_a_second_process_group_has_keys_of_its_own(self):
        result = self.run_script("two_groups.py")
        self.assertNotIn("next generation", result.err)


class WithoutLibuvTest(unittest.TestCase):
    """launcher/python/store.py with torch 2.x as Debian builds it, made up here: torch 1.13 does not ask for libuv."""

    def hooked(self, error):
        def store(*_, use_libuv=True):
            if use_libuv:
                raise RuntimeError(error)
            return "store"

        module = types.SimpleNamespace(TCPStore=store, _create_c10d_store=lambda *_: module.TCPStore("host", 1))
        after_import = types.SimpleNamespace(after_import=lambda name, call, give_up: call(module))
        source = launchers.HERE.parent.parent / "launcher/python/store.py"
        with mock.patch.dict(sys.modules, {"_ddprun_after_import": after_import}):
            exec(compile(source.read_text(), str(source), "exec"), {})
        return module._create_c10d_store

    def test_it_is_tried_again_without_libuv(self):
        create = self.hooked("use_libuv was requested but PyTorch was build without libuv support")
        self.assertEqual(create("host", 1, 0, 1), "store")

    def test_another_error_is_the_scripts(self):
        with self.assertRaisesRegex(RuntimeError, "no route"):
            self.hooked("no route")("host", 1, 0, 1)


if __name__ == "__main__":
    unittest.main()
