"""The message of TORCHELASTIC_ERROR_FILE, in both forms in which torch's handlers write it."""
import json
import pathlib
import tempfile
import unittest

import launchers

MESSAGE = "ValueError: the learning rate is -1"


class RecordTest(unittest.TestCase):
    """The message of TORCHELASTIC_ERROR_FILE, in both forms in which torch's handlers write it."""

    def check(self, how):
        under = launchers.both(self, "record_error.py", nproc=2, arguments=[how])
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

    def test_the_launchers_own_error_file_is_a_copy_of_the_root_causes(self):
        messages = {}
        for launcher in ("ddprun", "torchrun"):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "reply.json")
                result = launchers.run(self, launcher, "record_error.py", nproc=2,
                                       arguments=["record"],
                                       environment={"TORCHELASTIC_ERROR_FILE": str(path)})
                messages[launcher] = json.loads(path.read_text())["message"]
            for line in messages[launcher]["extraInfo"]["py_callstack"].splitlines():
                self.assertIn(line, result.err, launcher)
        for message in messages.values():
            message["extraInfo"].pop("timestamp")
        self.assertEqual(messages["ddprun"], messages["torchrun"])
        self.assertEqual(messages["ddprun"]["errorCode"], 1)

    def test_a_plain_message_in_the_error_file_reaches_the_report(self):
        self.check("plain")


if __name__ == "__main__":
    unittest.main()
