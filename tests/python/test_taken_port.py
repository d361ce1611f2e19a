"""torch's TCPStore cannot listen on MASTER_PORT, and the script is unmodified."""
import unittest

import launchers


class TakenPortTest(unittest.TestCase):
    """torch's TCPStore cannot listen on MASTER_PORT, and the script is unmodified."""

    def test_another_port_is_tried_without_a_restart(self):
        result = launchers.run(self, "ddprun", "taken_port.py",
                               flags=["--max-restarts", "0"])
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("ddress already in use", result.err)
        self.assertIn("the job succeeded after 0 restarts", result.err)
        self.assertEqual([file["generation"] for file in result.files.values()], ["1", "1"])


if __name__ == "__main__":
    unittest.main()
