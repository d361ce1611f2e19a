"""Makes the text of docs/reference.md and docs/internals/files.md from the sources, for scripts/check_docs.py."""

import os
import re

from code_tables import flag_tables, keys, read, tests_of, tracked_files, variables
from reference_tables import CannotMake, sections

REFERENCE = "docs/reference.md"
FILES = "docs/internals/files.md"


# ---- docs/reference.md ----

def constants():
    limits = read("rendezvous/core/limits.h")
    def number(name):
        return re.search(name + r" = ([\d']+)", limits).group(1).replace("'", "")
    seconds = re.search(r"kDefaultAnswerTimeout = std::chrono::seconds\((\d+)\)", limits).group(1)
    return {"{port}": number("kDefaultPort"), "{master-port}": number("kDefaultMasterPort"),
            "{days}": number("kDefaultCertificateDays"), "{answer}": seconds + "s"}


def default_text(key):
    default = keys()[key].get("default", "")
    return str(default).lower() if isinstance(default, bool) else "" if default in ([], {}) else str(default)


def flag_row(flag):
    if flag["key"] and flag["key"] not in keys():
        raise CannotMake(f"{REFERENCE}: --{flag['name']} sets the key {flag['key']}, and configs/ddprun.schema.json lacks "
                         "this key; run `DDPRUN_REWRITE=1 build/bin/config_test` first")
    text = flag["help"].replace("{}", default_text(flag["key"]) if flag["key"] else "")
    for name, value in constants().items():
        text = text.replace(name, value)
    value = flag["value"].replace("|", "\\|")
    name = f"`-{flag['letter']}`, " if flag["letter"] else ""
    name += f"`--{flag['name']}{value if value.startswith('[') else ' ' + value if value else ''}`"
    key = f"`{flag['key']}`" if flag["key"] else ""
    return f"| {name} | {key} | {text.strip()} |"


SCOPES = {"kProcess": "every process", "kRank": "processes with a rank", "kStandby": "warm standbys",
          "kUnlessSet": "every process, unless set"}


def reference():
    """The text of docs/reference.md."""
    lines = ["# Reference", "",
             "Made by `scripts/check_docs.py --write` from the tables in the code: do not edit it. `ddprun help` and",
             "`ddprun help SUBCOMMAND` print the flags.", "",
             "[Flags](#flags), [keys of job files](#keys-of-job-files), [variables of a worker](#variables-of-a-worker),",
             "[variables that ddprun reads](#variables-that-ddprun-reads), [events](#events), [metrics](#metrics),",
             "[exit codes](#exit-codes).", "",
             "## Flags", "",
             "Each flag is also read from the variable `DDPRUN_<FLAG>`, then from `PET_<FLAG>`. The second column has the key of",
             "job files that the flag sets."]
    for title, flags in flag_tables():
        shown = [flag for flag in flags if flag["name"] not in ("help", "version")]
        if not shown:
            continue
        lines += ["", f"### {title}", "", "| flag | key | meaning |", "|---|---|---|"]
        lines += [flag_row(flag) for flag in shown]
    lines += ["", "## Keys of job files", "",
              "`configs/ddprun.schema.json` describes the same keys for editors, with the limits of their values.", "",
              "| key | default | meaning |", "|---|---|---|"]
    for key, schema in keys().items():
        default = default_text(key)
        text = schema.get("description", "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| `{key}` | {'`' + default + '`' if default else ''} | {text} |")
    lines += ["", "## Variables of a worker", "",
              "[worker-environment.md](worker-environment.md) has their meaning. The last column has the key of job files "
              "that chooses", "the value.", "", "| variable | which processes | key |", "|---|---|---|"]
    lines += [f"| `{name}` | {SCOPES[scope]} | {'`' + key + '`' if key else ''} |" for name, scope, key in variables()]
    return "\n".join(lines + sections()) + "\n"


# ---- docs/internals/files.md ----

# Files that a person starts or reads directly. The product's folders are in docs/internals/architecture.md, and the
# path of a test in tests/unit mirrors the path of its subject.
LISTED = ("configs", "scripts", "packaging", "tests/integration", "tests/chaos", "tests/slurm", "tests/python", "tests/docs",
          "tests/install", "tests/kubernetes", "tests/metrics", "tests/browser", "tests/scenario", "tests/simulation",
          "tests/fuzz", "tests/bench", "tests/programs", "tests/support")
NOT_LISTED = re.compile(r"(/corpus/|CMakeLists\.txt$|\.(json|txt|md|in|png|service|logrotate)$|^packaging/debian/)")


def listed_files():
    """The files in the folders of LISTED. Of X.h and X.cc it has only X.h, because this one describes both."""
    files = [path for path in tracked_files() if path.startswith(tuple(folder + "/" for folder in LISTED))]
    files = [path for path in files if not NOT_LISTED.search(path)]
    headers = {path[:-2] for path in files if path.endswith(".h")}
    return [path for path in files if not (path.endswith(".cc") and path[:-3] in headers)]


def first_sentence(path):
    """The first sentence of the comment at a file's beginning; "": it has no comment."""
    lines = []
    for line in read(path).split("\n"):
        if line.startswith("#!") or line.startswith("# yaml-language-server") or line == "#" and not lines:
            continue
        text = re.match(r'(?://|#(?!include|define|ifndef|pragma)|""")? ?(.*?)(?:""")?$', line).group(1)
        begins = line.startswith(("//", "# ", '"""'))
        if lines and (not text or line.startswith(("import ", "#include", "usage:"))) or not lines and not begins:
            break
        lines.append(text.strip())
        if line.endswith('"""') and line != '"""':
            break
    paragraph = " ".join(lines).strip()
    sentence = re.split(r"(?<=[.?])\s", paragraph)[0]
    return sentence if len(sentence) < 160 else re.split(r"(?<=[:;])\s", sentence)[0].rstrip(":;")


def files():
    """The text of docs/internals/files.md."""
    lines = ["# Files", "",
             "The scripts, tests, benchmarks and programs of tests. The folders of the product are in",
             "[architecture.md](architecture.md#folders-are-layers). `scripts/check_docs.py --write` makes this page from the first",
             "sentence of each file: do not edit the page.",
             "The path of a test in `tests/unit` mirrors the path of its subject. `ctest -N` lists all tests; `ctest -R NAME`",
             "runs those of a suite."]
    for folder in LISTED:
        rows = sorted(path for path in listed_files() if path.startswith(folder + "/"))
        with_tests = any(tests_of(path) for path in rows)
        lines += ["", f"## {folder}", "", "| file | tests | what it is |" if with_tests else "| file | what it is |",
                  "|---|---|---|" if with_tests else "|---|---|"]
        for path in rows:
            name = f"`{os.path.relpath(path, folder)}`"
            text = first_sentence(path).replace("|", "\\|")
            suites = ", ".join(f"`{suite}`" for suite in tests_of(path))
            lines.append(f"| {name} | {suites} | {text} |" if with_tests else f"| {name} | {text} |")
    return "\n".join(lines) + "\n"


GENERATED = {REFERENCE: reference, FILES: files}
