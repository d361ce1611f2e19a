"""scripts/torch_store_tests.sh, with small test files instead of PyTorch's."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import launchers

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/torch_store_tests.sh"

HEAD = """
import unittest
import torch.distributed as dist
from torch.testing._internal.common_distributed import create_tcp_store, NoSuchTestCase

class TCPStoreTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = create_tcp_store()

    def test_set(self):
        self.store.set("key", "value")
        other = dist.TCPStore("localhost", self.store.port, 1, False)
        self.assertEqual(other.get("key"), b"value")

    def test_port_is_taken(self):
        with self.assertRaisesRegex(RuntimeError, "^The server socket has failed to listen"):
            dist.TCPStore("localhost", self.store.port, 1, True)

    def test_multitenancy(self):
        first = dist.TCPStore("localhost", self.store.port, 1, True, multi_tenant=True)
        first.set("other key", "other value")
        self.assertEqual(self.store.get("other key"), b"other value")

    def test_repr(self):
        self.fail("an expected difference")

class NeedsMore(NoSuchTestCase):
    def test_set(self):
        create_tcp_store()

class FileStoreTest(unittest.TestCase):
    def test_set(self):
        self.fail("it uses no TCP store")
"""
FAILS = """
class PrefixTCPStoreTest(unittest.TestCase):
    def test_get(self):
        self.assertEqual(dist.PrefixStore("a", create_tcp_store()).add("n", 1), 2)
"""
WITHOUT_STORE = """
import unittest

class FileStoreTest(unittest.TestCase):
    def test_set(self):
        pass
"""


class TorchStoreTestsTest(unittest.TestCase):
    """What the script prints, and its exit code."""

    def run_script(self, text, **environment):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "cases.py")
            path.write_text(text)
            result = subprocess.run([SCRIPT, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env={**os.environ, **environment}, timeout=launchers.HANG, check=False)
        return result.returncode, result.stdout

    def test_cases_pass_with_our_server(self):
        code, said = self.run_script(HEAD)
        self.assertEqual(code, 0, said)
        for line in ("PASS TCPStoreTest.test_set\n", "PASS TCPStoreTest.test_port_is_taken\n",
                     "PASS TCPStoreTest.test_multitenancy\n", "DIFFERS TCPStoreTest.test_repr: ",
                     "SKIP NeedsMore.test_set: ", "\n4 stores served by our server\n",
                     "\n3 passed, 0 failed, 1 skipped, 1 differ as expected\n"):
            self.assertIn(line, said)
        self.assertNotIn("FileStoreTest", said)

    def test_a_case_that_fails_is_named(self):
        code, said = self.run_script(HEAD + FAILS)
        self.assertEqual(code, 1, said)
        self.assertIn("\nFAIL PrefixTCPStoreTest.test_get: ", said)
        self.assertIn("\n3 passed, 1 failed, 1 skipped, 1 differ as expected\n", said)

    def test_a_run_without_cases_fails(self):
        code, said = self.run_script(WITHOUT_STORE)
        self.assertEqual(code, 1, said)
        self.assertIn("\nno case passed with our server\n", said)

    def test_torch_s_own_server_is_not_taken_for_ours(self):
        code, said = self.run_script(HEAD, STORE_SERVER="/bin/false")
        self.assertEqual(code, 1, said)
        self.assertIn("and ours could not", said)
        self.assertNotIn("PASS", said)

    def test_a_file_that_is_not_there_is_a_usage_error(self):
        result = subprocess.run([SCRIPT, "/nonexistent"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr),
                         (64, "torch_store_tests.sh: there is no file '/nonexistent'\n"))


if __name__ == "__main__":
    unittest.main()
