"""torch's own client with the store of rank 0's agent, instead of torch's server."""
import datetime
import os
import socket
import struct
import subprocess
import threading
import unittest

import launchers

MINUTE = datetime.timedelta(seconds=60)
PYTHON = "/usr/bin/python3"


class StoreTest(unittest.TestCase):
    """torch's own client with the store of rank 0's agent, instead of torch's server."""

    @classmethod
    def setUpClass(cls):
        import torch.distributed  # without python3-torch, the test fails here with a clear message
        cls.dist = torch.distributed
        cls.server = subprocess.Popen(
            [os.environ["STORE_SERVER"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        cls.port = int(cls.server.stdout.readline())

    @classmethod
    def tearDownClass(cls):
        cls.server.stdin.close()
        cls.refusals = cls.server.stderr.read()
        cls.server.stdout.close()
        cls.server.stderr.close()
        assert cls.server.wait(timeout=launchers.HANG) == 0

    def store(self, timeout=MINUTE):
        """A client with its own prefix of keys."""
        # Debian's torch 2.x is built without libuv, and asks for it by default.
        options = {"use_libuv": False} if hasattr(self.dist.TCPStore, "libuvBackend") else {}
        client = self.dist.TCPStore("127.0.0.1", self.port, 1, False, timeout, **options)
        return self.dist.PrefixStore(self.id(), client)

    def raw(self, data, size):
        """The first `size` bytes of the answer to `data`; fewer if the connection ends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall(data)
            answer = b""
            while len(answer) < size:
                part = client.recv(size - len(answer))
                if not part:
                    break
                answer += part
            return answer

    def test_keys_are_set_read_and_deleted(self):
        store = self.store()
        store.set("key", "value")
        store.set("empty", "")
        store.set("large", "x" * 5_000_000)
        self.assertEqual(store.get("key"), b"value")
        self.assertEqual(store.get("empty"), b"")
        self.assertEqual(len(store.get("large")), 5_000_000)
        store.set("key", "other")
        self.assertEqual(store.get("key"), b"other")
        before = store.num_keys()
        self.assertTrue(store.delete_key("large"))
        self.assertFalse(store.delete_key("large"))
        self.assertEqual(store.num_keys(), before - 1)

    def test_numbers_are_added_up(self):
        store = self.store()
        self.assertEqual(store.add("n", 1), 1)
        self.assertEqual(store.add("n", -5), -4)
        self.assertEqual(store.get("n"), b"-4")
        store.set("m", "41")
        self.assertEqual(store.add("m", 1), 42)

    def test_compare_set_sets_where_the_value_is_as_expected(self):
        store = self.store()
        self.assertEqual(store.compare_set("key", "wrong", "new"), b"wrong")
        self.assertEqual(store.compare_set("key", "", "first"), b"first")
        self.assertEqual(store.compare_set("key", "wrong", "second"), b"first")
        self.assertEqual(store.compare_set("key", "first", "second"), b"second")
        self.assertEqual(store.get("key"), b"second")

    def test_a_wait_ends_when_all_keys_are_there(self):
        store, other = self.store(), self.store()
        done = threading.Thread(target=lambda: (other.wait(["a", "b"]), other.set("c", "")))
        done.start()
        store.set("a", "")
        store.set("b", "")
        store.wait(["c"])
        done.join()

    def test_a_wait_that_times_out_leaves_the_client_usable(self):
        store = self.store()
        with self.assertRaises(RuntimeError):
            store.wait(["nobody sets it"], datetime.timedelta(milliseconds=50))
        self.assertEqual(store.add("n", 3), 3)
        self.store().set("nobody sets it", "but now")
        self.assertEqual(store.add("n", 4), 7)
        self.assertEqual(store.get("nobody sets it"), b"but now")

    def run_script(self, script, *arguments, environment=None):
        result = subprocess.run([PYTHON, launchers.PROGRAMS / script, *arguments],
                                stdout=subprocess.PIPE, text=True, env=environment,
                                timeout=launchers.HANG, check=True)
        return result.stdout.split()

    def test_eight_processes_meet(self):
        said = self.run_script("store_client.py", "127.0.0.1", str(self.port), "8")
        self.assertEqual(said, ["well"] * 8)

    def test_ranks_form_a_group_with_every_one_a_client(self):
        said = self.run_script("store_group.py", "3", environment={
            **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
            "GLOO_SOCKET_IFNAME": "lo"})
        self.assertEqual(said, ["6"] * 3)

    def test_a_client_of_libtorch_2_6_is_understood(self):
        validation = struct.pack("<BI", 0, 0x3C85F7CE)
        ping = struct.pack("<BI", 13, 4711)
        text = struct.pack("<Q", 3) + b"key"
        value = struct.pack("<Q", 5) + b"value"
        data = validation + ping + b"\x01" + text + value + b"\x03" + text
        answer = struct.pack("<I", 4711) + value
        self.assertEqual(self.raw(data, len(answer)), answer)

    def test_what_is_no_store_client_is_disconnected(self):
        self.assertEqual(self.raw(b"GET / HTTP/1.1\r\n\r\n", 1), b"")


if __name__ == "__main__":
    unittest.main()
