"""scripts/check_docs.py reports each kind of name that docs use and the code lacks, and reports nothing for a correct
page."""
import sys
import unittest
from unittest import mock

import launchers

sys.path.insert(0, str(launchers.HERE.parent.parent / "scripts"))
import check_docs  # noqa: E402
import code_tables  # noqa: E402
import generated_pages  # noqa: E402
import name_checks  # noqa: E402
import reference_tables  # noqa: E402
import shown_commands  # noqa: E402
import wording  # noqa: E402

NOWHERE = "docs/" + "nowhere.md"
# Names that even this file does not have as words.
NAME = "no_where" + "_at_all"
SUITE = "Nowhere" + "Test"
RIGHT = """# Page

## A heading, with `code`

[here](#a-heading-with-code), [there](usage.md#job-files), [web](https://example.org/x#y),
`FaultsTest.ExitOne`, `python.hang`, `Slurm.twin`, tests/python/test_hang.py, `job_keys.cc`, build/bin/ddprun,
--max-restarts, --max_restarts, `restart.warm: auto`, `DDPRUN_GENERATION`, DDPRUN_MAX_RESTARTS, the event `formed`,
`ddprun_job_state`, exit code 75, exit code 137, exit code 128 + signal, ends with 70, `ddprun status`, `PET_NNODES`,
`preflight: true`, `FailoverCampaign.ShortSlice`, `docs.commands`, tests/bench/recovery_bench.py --rounds 2, `FaultsTest.Exit*`,
FaultsTest, `node_lost_again_and_again.txt`, supervisor/events.h, NAME_test.cc, `train.py`, `fault_worker`,
`Supervisor`, `join_timeout`, `$SLURM_JOB_ID`, `TORCH_NCCL_ASYNC_ERROR_HANDLING=1`, `logs.max_size`,
`restart: {warm: auto, max_restarts: 3}`, the events `formed` and `lost`, a `fenced` event, exits with 75 or 143,
refused (77), in 300 (of 1000), the outcome `preempted`, the job is `Saving`, `build/bin/checkpoint_bench --rounds 5`, `mnist_ddp --trace-samples FOLDER`, `ddprun stop --save`,
`ddprun doctor --etcd H:2379`, `waiting: its workers load the program`,
`ddprun --nnodes 2 train.py --lr 3`, ddprun status and stop --save, [a][b].

[b]: usage.md

    command: [./train]
    rendezvous: {endpoint: "head:29400", id: exp7}
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
                ("exit code 71", "there is no exit code 71"),
                ("the job ends with 71", "there is no exit code 71"),
                ("`OldSuite.Nothing`", "there is no test OldSuite.Nothing"),
                ("tests/bench/recovery_bench.py --no-warm", "tests/bench/recovery_bench.py has no flag --no-warm"),
                ("`ddprun stats`", "there is no subcommand stats"),
                ("PET_" + "NOTHING", "there is no variable PET_" + "NOTHING"),
                ("`pre_flight: true`", "there is no key pre_flight of job files"),
                ("\n    command: [a]\n    rendezvous: {end: b}\n", "there is no key end of job files"),
                ("`FaultsTest.Nothing*`", "there is no test FaultsTest.Nothing*"),
                (f"*{SUITE}*", f"there is no test {SUITE}"),
                (f"`{NAME}.txt`", f"there is no file {NAME}.txt"),
                (f"`{NAME}.py`", f"there is no file {NAME}.py"),
                (f"`{NAME}.sh`", f"there is no file {NAME}.sh"),
                (f"See {NAME}.cc.", f"there is no file {NAME}.cc"),
                (f"`supervisor/{NAME}.h`", f"there is no file supervisor/{NAME}.h"),
                ("    ddprun rendezvous --warm", "ddprun rendezvous has no flag --warm"),
                ("    ddprun rendezvous --listen a:1 \\\n        --warm", "ddprun rendezvous has no flag --warm"),
                ("`ddprun --kills 3 train.py`", "ddprun has no flag --kills"),
                ("    build/bin/checkpoint_bench --kills 3", "checkpoint_bench has no flag --kills"),
                ("`mnist_ddp --kills 3`", "mnist_ddp has no flag --kills"),
                ("`restart: {max_restarts: 3, nothing: 1}`", "there is no key restart.nothing of job files"),
                (f"`{NAME}`", f"nothing in the code has the name {NAME}"),
                (f"`{SUITE}ed`", f"nothing in the code has the name {SUITE}ed"),
                (f"`nothing.{NAME}`", f"nothing in the code has the name nothing.{NAME}"),
                *((f"{prefix}_{NAME.upper()}=1", f"nothing in the code has the name {prefix}_{NAME.upper()}")
                  for prefix in ("DDP", "SLURM", "JOBSET", "TORCH_NCCL")),
                ("the events `formed` and `nothing`", "there is no event nothing"),
                ("a `nothing` event", "there is no event nothing"),
                ("refused (71)", "there is no exit code 71"),
                ("exits with 75 or 71", "there is no exit code 71"),
                ("the outcome is `nothing`", "there is no outcome nothing"),
                ('"outcome": "failed",  succeeded | nothing\n "exit_code"', "there is no outcome nothing"),
                ("a job is `Nothing`", "there is no state Nothing of jobs"),
                ("[a]: nowhere.md", f"there is no {NOWHERE} (nowhere.md)"),
                ('<img src="nowhere.png">', "there is no docs/nowhere.png (nowhere.png)")):
            with self.subTest(wrong):
                self.assertIn(finding, findings(wrong))


class TablesTest(unittest.TestCase):
    def test_the_tables_in_the_sources_are_read(self):
        self.assertGreater(len(check_docs.subcommands()), 15)
        self.assertGreater(len(check_docs.variables_read()), 30)
        self.assertGreater(len(check_docs.ddprun_flags()), 80)
        self.assertGreater(len(check_docs.keys()), 60)
        self.assertGreater(len(check_docs.variables()), 30)
        self.assertGreater(len(check_docs.events()), 20)
        self.assertGreater(len(check_docs.metrics()), 50)
        self.assertIn(66, check_docs.exit_codes())

    def test_a_page_that_the_index_lacks_is_found(self):
        read = check_docs.read
        with mock.patch.object(check_docs, "read", lambda path: "" if path == "docs/README.md" else read(path)):
            self.assertIn("docs/README.md: the page docs/usage.md is missing", list(check_docs.check_others()))

    def test_a_glossary_or_readme_that_grows_is_found(self):
        for limit, finding in (("MOST_WORDS", "docs/glossary.md: 25 words, at most 3"), ("MOST_LINES", "lines, at most 3")):
            with self.subTest(limit), mock.patch.object(check_docs, limit, 3):
                self.assertTrue(any(finding in found for found in check_docs.check_others()), finding)

    def found_with(self, table, value, check=check_docs.check_tables):
        """What `check` finds if the code has only `value`."""
        with mock.patch.object(check_docs, table, lambda: value):
            return list(check())

    def test_whatever_exists_and_is_not_documented_is_found_and_the_other_way_round(self):
        for table, page, kind, row in (
                ("events", "docs/jobs.md", "event", "formed"),
                ("control_messages", "docs/worker-environment.md", "message", "STEP")):
            with self.subTest(table):
                found = self.found_with(table, ["brand_new"])
                self.assertIn(f"{page}: the {kind} brand_new is missing", found)
                self.assertIn(f"{page}: there is no {kind} {row}", found)
        found = self.found_with("exit_codes", {71})
        self.assertIn("docs/exit-codes.md: the exit code 71 is missing", found)
        self.assertIn("docs/exit-codes.md: there is no exit code 66", found)
        found = self.found_with("job_states", ["Running", "Anew"])
        self.assertIn("docs/jobs.md: the state of a job Anew is missing", found)
        self.assertIn("docs/jobs.md: there is no state of a job Backoff", found)
        self.assertIn("docs/jobs.md: there is no outcome succeeded", self.found_with("outcomes", []))
        found = self.found_with("variables", [("BRAND_NEW", "kRank", "")])
        self.assertIn("docs/worker-environment.md: the variable BRAND_NEW is missing", found)

    def test_what_has_no_table_is_found(self):
        for table, value, finding in (
                ("subcommands", ["brand-new"], "docs/usage.md: the subcommand brand-new is missing"),
                ("subcommands", ["brand-new"], "ddprun help: the subcommand brand-new is missing"),
                ("variables_read", {"BRAND_NEW"}, "docs: the variable BRAND_NEW is read and no page names it"),
                ("tracked_files", ["launcher/brand_new/a.cc"],
                 "docs/internals/architecture.md: the folder launcher/brand_new is missing"),
                ("listed_files", ["tests/CMakeLists.txt"], "tests/CMakeLists.txt does not say at its beginning what it is")):
            with self.subTest(table):
                self.assertIn(finding, self.found_with(table, value, check_docs.check_others))

    def test_the_generated_pages_follow_the_sources(self):
        for table, value, page in (("flag_tables", [], "docs/reference.md"), ("keys", {**check_docs.keys(), "brand_new": {}}, "docs/reference.md"),
                                   ("variables", [], "docs/reference.md"), ("sections", [], "docs/reference.md"),
                                   ("tracked_files", [], "docs/internals/files.md"),
                                   ("tests_of", [], "docs/internals/files.md")):
            with self.subTest(table), mock.patch.object(generated_pages, table, lambda *_, value=value: value):
                self.assertIn(f"{page} differs from the code: scripts/check_docs.py --write",
                              list(check_docs.check_tables()))

    def test_a_text_of_the_schema_that_no_source_has_is_found(self):
        self.assertIn("configs/ddprun.schema.json: the text of nodes is not the one of launcher/config: "
                      "DDPRUN_REWRITE=1 build/bin/config_test", self.found_with("texts_of_keys", set()))

    def test_a_ratio_that_does_not_follow_from_its_figures_is_found(self):
        table = "| what | ddprun | other | ratio | command |\n|---|---|---|---|---|\n| a | 13.7 ms | it 1,196 ms | %s× | x |\n"
        for ratio, findings_ in ("87", []), ("97", ["README.md: it 1,196 ms is not 97× of 13.7 ms"]):
            with self.subTest(ratio), mock.patch.object(check_docs, "read", lambda path, ratio=ratio: table % ratio):
                self.assertEqual(list(check_docs.check_ratios()), findings_)

    def test_a_page_that_a_source_names_must_exist(self):
        with mock.patch.object(check_docs, "tracked_files", lambda: ["launcher/main.cc"]), \
                mock.patch.object(check_docs, "read", lambda path: NOWHERE):
            self.assertEqual(list(check_docs.check_mentions()), ["launcher/main.cc: there is no " + NOWHERE])

    def test_a_file_that_a_source_names_must_exist(self):
        with mock.patch.object(check_docs, "tracked_files", lambda: ["launcher/main.cc"]), \
                mock.patch.object(check_docs, "read", lambda path: "// See launcher/NAME.h and launcher/nothing.h."):
            self.assertEqual(list(check_docs.check_mentions()), ["launcher/main.cc: there is no launcher/nothing.h"])


    def test_a_file_of_tests_that_cmake_does_not_name_is_found(self):
        with mock.patch.object(check_docs, "registered_tests", lambda: code_tables.registered_tests() - {"python.hang"}):
            self.assertEqual(list(check_docs.check_registered_tests()),
                             ["tests/python/test_hang.py: no CMakeLists.txt makes the test python.hang"])

    def test_loops_of_cmake_are_read(self):
        text = ("set(some a b)\nif(X)\n  list(APPEND some c)\nendif()\nforeach(name ${some} d)\n"
                "  add_test(NAME x.${name}\n COMMAND y)\nendforeach()\nadd_test(NAME z COMMAND y)\n"
                "# add_test(NAME w COMMAND y)\n")
        with mock.patch.object(code_tables, "tracked_files", lambda: ["CMakeLists.txt"]), \
                mock.patch.object(code_tables, "read", lambda path: text):
            self.assertEqual(code_tables.registered_tests.__wrapped__(), {"x.a", "x.b", "x.c", "x.d", "z"})

    def test_variables_that_scripts_and_python_read_are_found(self):
        for path, text in (("scripts/a.sh", ': "${DDPRUN_%s:-}"'), ("launcher/python/a.py", "os.environ['DDPRUN_%s']")):
            with self.subTest(path), mock.patch.object(code_tables, "tracked_files", lambda path=path: [path]), \
                    mock.patch.object(code_tables, "read", lambda _, text=text: text % "BRAND_NEW"):
                self.assertEqual(code_tables.variables_read.__wrapped__(), {"DDPRUN_" + "BRAND_NEW"})


class WordingTest(unittest.TestCase):
    """Phrases that hide the subject of a sentence."""

    def test_phrases_and_names_are_found(self):
        for words, advice in wording.PHRASES.items():
            phrase = " ".join(words)
            for text in (f"// A file, {phrase} some.", phrase.capitalize(), f"// A {words[0]}\n  // {' '.join(words[1:])}"):
                with self.subTest(text):
                    self.assertEqual(list(wording.findings_in("launcher/a.cc", text)),
                                     [f'launcher/a.cc:1: "{phrase}": {advice} (scripts/wording.py)'])
        for path, text, name in (("tests/unit/a_test.cc", "TEST_F(ATest, %s) {", "ThoseThat" + "Stay"),
                                 ("tests/python/test_a.py", "    def %s(self):", "test_who_" + "has_left")):
            with self.subTest(name):
                self.assertEqual(list(wording.findings_in(path, text % name)),
                                 [f"{path}:1: the test {name}: say who does what (scripts/wording.py)"])

    def test_other_words_are_not_found(self):
        text = "the list of all; which of these, who has left, those thatch"
        self.assertEqual(list(wording.findings_in("README.md", text)), [])

    def test_an_exception_must_be_needed(self):
        phrase = "those " + "that"
        with mock.patch.object(wording, "EXCEPTIONS", {("README.md", phrase): "a reason"}):
            self.assertEqual(list(wording.findings()),
                             [f'scripts/wording.py: README.md needs no exception for "{phrase}" any more'])
            self.assertEqual(list(wording.findings_in("README.md", phrase)), [])


class ReferenceTest(unittest.TestCase):
    """The sections of docs/reference.md that reference_tables.py makes."""

    def page_with(self, path, old, new):
        """The page if `path` had the text `new` instead of `old`."""
        read = reference_tables.read
        self.assertIn(old, read(path))
        with mock.patch.object(reference_tables, "read", lambda name: read(name).replace(old, new) if name == path else read(name)):
            return generated_pages.reference()

    def test_each_section_has_the_rows_of_the_sources(self):
        page = check_docs.read("docs/reference.md")
        for name in check_docs.events() + check_docs.metrics():
            self.assertIn(f"\n| `{name}` | ", page)
        for path, old, new, row in (
                (reference_tables.JOB_EVENT, "a generation formed: `nodes`", "a group formed: `host`",
                 "| `formed` | a group formed | `host`, `workers`, `restore` if it has a plan, `placed` if it has at most 256"),
                (reference_tables.METRICS, '{"ddprun_job_state", Kind::kGauge, Place::kDaemon, "job state",',
                 '{"ddprun_job_state", Kind::kCounter, Place::kAgent, "",',
                 "| `ddprun_job_state` | counter | an agent |  | 1 for the state"),
                (reference_tables.EXIT_CODES, '{"66", "state_unreadable", "a state', '{"67", "failed, left", "the state',
                 "| 67 | `failed`, `left` | the state of the training exists but cannot be read |"),
                (reference_tables.OUTCOME, "kLeft,             // stopped without a saved state,", "kLeft, // ended as planned,",
                 "| `left` | ended as planned, or this agent left the job |"),
                (reference_tables.COMMAND_EXIT_CODES, '{"1", "doctor",', '{"2", "doctor init",', "| 2 | `doctor`, `init` | a job would")):
            with self.subTest(path):
                self.assertNotIn(row, page)
                self.assertIn(row, self.page_with(path, old, new))

    def test_a_source_from_which_no_table_can_be_made_is_named(self):
        for path, old, new, error in (
                (reference_tables.JOB_EVENT, "the generation ends: `reason`", "the generation ends",
                 "the comment of kStopping is not `WHEN: FIELDS`"),
                (reference_tables.JOB_EVENT, "ends: `reason`", "ends: `why`", "kStopping names the field why, and no event has it"),
                (reference_tables.EXIT_CODES, '"preempted"', '"stopped"', "the row 75 names the outcome stopped, and"),
                (reference_tables.OUTCOME, "// stopped without a saved state, or this agent left the job", "", "kLeft has no comment behind it")):
            with self.subTest(error), self.assertRaisesRegex(generated_pages.CannotMake, error):
                self.page_with(path, old, new)

    def test_the_sources_read_the_variables(self):
        self.assertIn("| `SLURM_CONF` | Path of slurm.conf.", check_docs.read("docs/reference.md"))
        self.assertLess({"USER", "PATH", "TMPDIR", "TERM", "DDPRUN_STATE_HOME", "NCCL_HOSTID"}, check_docs.variables_read())
        for variables, error in (({**reference_tables.READ_VARIABLES, "BRAND_NEW": ""}, "has BRAND_NEW, and no source reads it"),
                                 ({}, "a source reads the variable CREDENTIALS_DIRECTORY, and READ_VARIABLES lacks it")):
            with self.subTest(error), mock.patch.object(reference_tables, "READ_VARIABLES", variables), \
                    self.assertRaisesRegex(generated_pages.CannotMake, error):
                generated_pages.reference()


class ShownTest(unittest.TestCase):
    """Commands of README.md and docs/first-job.md."""

    def findings(self, table, value):
        with mock.patch.object(shown_commands, table, value):
            return list(shown_commands.findings())

    def test_a_command_that_nothing_runs_is_found(self):
        page = "# Page\n\n    build/bin/ddprun brand_new.py   # a comment\n\nText\n"
        self.assertIn("README.md: nothing runs the command: build/bin/ddprun brand_new.py (scripts/shown_commands.py)",
                      self.findings("read", lambda path: page))

    def test_an_entry_without_command_test_or_script_is_found(self):
        self.assertIn("scripts/shown_commands.py: no page shows the command: old",
                      self.findings("RUNS", {**shown_commands.RUNS, "old": "docs.commands"}))
        self.assertIn("scripts/shown_commands.py: there is no test docs.old", self.findings("RUNS", {"a": "docs.old"}))
        self.assertIn("scripts/shown_commands.py: .ci/run does not run: scripts/old.sh",
                      self.findings("IN_SCRIPTS", {"a": (".ci/run", "scripts/old.sh")}))
        self.assertIn("scripts/shown_commands.py: .ci/run does not start scripts/bench.sh",
                      self.findings("IN_SCRIPTS", {"a": ("scripts/bench.sh", "cmake")}))

    def test_a_command_that_a_script_only_prints_or_comments_out_is_found(self):
        read = shown_commands.read
        for text in ("# scripts/old.sh\n", "  echo \"no namespaces: \" \\\n    scripts/old.sh\n", "a=1 # scripts/old.sh\n"):
            with self.subTest(text), mock.patch.object(shown_commands, "IN_SCRIPTS", {"a": (".ci/run", "scripts/old.sh")}):
                self.assertIn("scripts/shown_commands.py: .ci/run does not run: scripts/old.sh",
                              self.findings("read", lambda path, text=text: text if path == ".ci/run" else read(path)))

    def test_a_test_that_cmake_does_not_make_is_found(self):
        self.assertIn("scripts/shown_commands.py: there is no test docs.hang",
                      self.findings("registered_tests", lambda: set()))
        self.assertIn("scripts/shown_commands.py: no CMakeLists.txt makes a test of tests/integration/first_job_test.py",
                      self.findings("tests_of", lambda path: []))

    def test_a_command_of_the_first_job_that_its_test_does_not_type_is_found(self):
        read = shown_commands.read
        page = read("docs/first-job.md")
        script = "tests/integration/first_job_test.py"
        for wrong, finding in (
                (page + "\n```\nddprun status --watch\n```\n",
                 f"the page has commands that this test does not run: ['ddprun status --watch'] ({script})"),
                (page + "\n    ddprun status --watch\n",
                 f"the page has commands that this test does not run: ['ddprun status --watch'] ({script})"),
                (page.replace("    pkill -KILL", "```\nls\n```\n    pkill -KILL"),
                 f"the page has 'ls' where this test runs 'pkill...' ({script})"),
                (page.replace("    ip link set eth0 up\n", ""), f"the page has 'nothing more' where this test runs "
                 f"'ip link set eth0 up...' ({script})")):
            with self.subTest(finding):
                self.assertIn(f"docs/first-job.md: {finding}", self.findings(
                    "read", lambda path, wrong=wrong: wrong if path == "docs/first-job.md" else read(path)))

    def test_pictures_and_output_are_no_commands(self):
        self.assertEqual(shown_commands.commands("```\n┌──┐\n└──┘\n```\n\n    [default0]:resumed from step 205\n"), [])


if __name__ == "__main__":
    unittest.main()
