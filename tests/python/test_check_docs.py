"""scripts/check_docs.py finds what docs name and the code lacks, of each kind, and nothing in a page that is right."""
import sys
import unittest
from unittest import mock

import launchers

sys.path.insert(0, str(launchers.HERE.parent.parent / "scripts"))
import check_docs  # noqa: E402

NOWHERE = "docs/" + "nowhere.md"
RIGHT = """# Page

## A heading, with `code`

[here](#a-heading-with-code), [there](usage.md#job-files), [web](https://example.org/x#y),
`FaultsTest.ExitOne`, `python.hang`, `Slurm.twin`, tests/python/test_hang.py, `job_keys.cc`, build/bin/ddprun,
--max-restarts, --max_restarts, `restart.warm: auto`, `DDPRUN_GENERATION`, DDPRUN_MAX_RESTARTS, the event `formed`,
`ddprun_job_state`, exit code 75, exit code 137, exit code 128 + signal.
"""


def findings(text):
    return [finding for check in check_docs.PAGE_CHECKS for finding in check("docs/page.md", text)]


class PageTest(unittest.TestCase):
    def setUp(self):
        read = check_docs.read
        patch = mock.patch.object(check_docs, "read", lambda path: RIGHT if path == "docs/page.md" else read(path))
        patch.start()
        self.addCleanup(patch.stop)
        exists = check_docs.os.path.exists
        patch = mock.patch.object(check_docs.os.path, "exists", lambda path: path.endswith("docs/page.md") or exists(path))
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_page_that_is_right_has_no_finding(self):
        self.assertEqual(findings(RIGHT), [])

    def test_each_kind_of_name_that_does_not_exist_is_found(self):
        for wrong, finding in (
                ("[a](nowhere.md)", f"there is no {NOWHERE} (nowhere.md)"),
                ("[a](usage.md#nowhere)", "docs/usage.md has no heading #nowhere"),
                ("[a](#nowhere)", "docs/page.md has no heading #nowhere"),
                ("`FaultsTest.Nothing`", "there is no test FaultsTest.Nothing"),
                ("`python.nothing`", "there is no test python.nothing"),
                ("launcher/nothing.cc", "there is no file launcher/nothing.cc"),
                ("`nothing_at_all.h`", "there is no file nothing_at_all.h"),
                ("build/bin/nothing", "no CMakeLists.txt makes build/bin/nothing"),
                ("--no-such-" + "flag", "there is no flag --no-such-" + "flag"),
                ("`restart.nothing`", "there is no key restart.nothing of job files"),
                ("DDPRUN_" + "NOTHING", "there is no variable DDPRUN_" + "NOTHING"),
                ("the event `nothing`", "there is no event nothing"),
                ("`ddprun_job_" + "nothing`", "there is no metric ddprun_job_" + "nothing"),
                ("exit code 71", "there is no exit code 71")):
            with self.subTest(wrong):
                self.assertIn(finding, findings(wrong))


class TablesTest(unittest.TestCase):
    def test_the_tables_in_the_sources_are_read(self):
        self.assertGreater(len(check_docs.ddprun_flags()), 80)
        self.assertGreater(len(check_docs.keys()), 60)
        self.assertGreater(len(check_docs.variables()), 30)
        self.assertGreater(len(check_docs.events()), 20)
        self.assertGreater(len(check_docs.metrics()), 50)
        self.assertIn(66, check_docs.exit_codes())

    def test_whatever_exists_and_is_not_documented_is_found(self):
        for table, finding in (("events", "docs/jobs.md: the event brand_new is missing"),
                               ("metrics", "docs/metrics.md: the metric brand_new is missing"),
                               ("control_messages", "docs/worker-environment.md: the message brand_new is missing")):
            with self.subTest(table), mock.patch.object(check_docs, table, lambda: ["brand_new"]):
                self.assertIn(finding, list(check_docs.check_tables()))
        with mock.patch.object(check_docs, "exit_codes", lambda: {71}):
            self.assertIn("docs/exit-codes.md: the exit code 71 is missing", list(check_docs.check_tables()))
        with mock.patch.object(check_docs, "variables", lambda: [("BRAND_NEW", "kRank", "")]):
            found = list(check_docs.check_tables())
        self.assertIn("docs/worker-environment.md: the variable BRAND_NEW is missing", found)
        self.assertTrue(any(finding.startswith("docs/reference.md differs") for finding in found))

    def test_a_page_that_a_source_names_must_exist(self):
        with mock.patch.object(check_docs, "tracked_files", lambda: ["launcher/main.cc"]), \
                mock.patch.object(check_docs, "read", lambda path: NOWHERE):
            self.assertEqual(list(check_docs.check_mentions()), ["launcher/main.cc: there is no " + NOWHERE])


if __name__ == "__main__":
    unittest.main()
