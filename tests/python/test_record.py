import unittest

import launchers

MESSAGE = "ValueError: the learning rate is -1"


class RecordTest(unittest.TestCase):
    """The message of TORCHELASTIC_ERROR_FILE, in both forms in which torch's handlers write it."""

    def check(self, how):
        under = launchers.both(self, "scripts/record_error.py", nproc=2, arguments=[how])
        self.assertEqual(under["torchrun"].code, 1)
        self.assertIn(MESSAGE, under["torchrun"].err)

        result = under["ddprun"]
        self.assertEqual(result.code, 1, result.err)
        cause = result.report["root_cause"]
        self.assertEqual(cause["rank"], 1)
        self.assertEqual(cause["exit_code"], 1)
        self.assertIn(MESSAGE, cause["error"])
        self.assertIn(MESSAGE, result.err)

    def test_an_exception_under_record_reaches_the_report(self):
        self.check("record")

    def test_a_plain_message_in_the_error_file_reaches_the_report(self):
        self.check("plain")


if __name__ == "__main__":
    unittest.main()
