#!/usr/bin/env python3
"""Checks README.md and docs/ against the code, without a build. Names every finding; exits 1 if there is one.

    scripts/check_docs.py            check
    scripts/check_docs.py --write    write the pages anew that are made from the sources (generated_pages.py)

  links      every relative link and anchor resolves; so does every docs/ page that other files name
  names      every test, file, program of build/, subcommand, flag, job-file key, variable, event, outcome, state,
             metric, exit code and identifier that the docs name exists (name_checks.py); a script, a program of build/
             and a subcommand have the flags with which they are shown
  figures    the ratios of README.md follow from their figures
  tables     docs/reference.md has every flag, key and variable of a worker; docs/internals/files.md every script and
             test; the tables of events, exit codes and control messages have the rows of the code and no
             other; every subcommand, variable that is read, and folder of the product is on its page
  commands   something runs each command of README.md and docs/first-job.md (shown_commands.py)
  words      no comment, message, page or test has a phrase that hides its subject (wording.py)
"""

import functools
import os
import re
import sys

import name_checks
import shown_commands
import wording
from code_tables import (CLI_CC, ROOT, cmake_files, code, control_messages, ddprun_flags, events, exit_codes, job_states,
                         keys, metrics, outcomes, python_test, read, registered_tests, subcommands, tests,
                         texts_of_keys, tracked_files, variables, variables_read)
from generated_pages import GENERATED, CannotMake, first_sentence, listed_files

# Flags of other programs, which docs show in commands.
FOREIGN_FLAGS = set("""
    account build-arg cluster constraint data-dir exclude exclusive export format from gpus-per-node gtest_filter
    initial-advertise-peer-urls initial-cluster initial-cluster-token install mem no-block no-kill now ntasks-per-node
    partition peer-urls prefix preset qos quota-backend-bytes shm-size user
    """.split())
MOST_WORDS = 25  # of the glossary
MOST_LINES = 100  # of README.md
MOST_ROUNDING = 0.05  # of a ratio of README.md and its figures
# Files that name things that do not exist, on purpose.
NAMES_WHAT_IS_NOT_THERE = {"tests/python/test_check_docs.py"}
# Folders at the top of the repository whose files docs name.
TOP_FOLDERS = ("cmake", "configs", "docs", "launcher", "packaging", "proto", "rendezvous", "scripts", "tests", "worker")


def pages():
    return ["README.md"] + [path for path in tracked_files() if re.match(r"docs/.*\.md$", path)]


# ---- checks: each takes a page and its text, and yields findings ----

def anchors_of(text):
    """The anchors that GitHub makes from the headings."""
    found, seen, fenced = set(), {}, False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        heading = None if fenced else re.match(r"#{1,6} (.*)", line)
        if heading is None:
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = seen.get(anchor, 0)
        seen[anchor] = number + 1
        found.add(anchor if number == 0 else f"{anchor}-{number}")
    return found


def check_links(page, text):
    targets = r"\]\(([^)\s]+)\)|^ {0,3}\[[^\]]+\]: +(\S+)|<\w+ [^>]*(?:src|href)=\"([^\"]+)\""
    for target in map("".join, re.findall(targets, text, re.M)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(ROOT, full)):
            yield f"there is no {full} ({target})"
        elif anchor and full.endswith(".md") and anchor not in anchors_of(read(full)):
            yield f"{full} has no heading #{anchor}"


def check_tests(_, text):
    suite = r"(?:[A-Z]\w*Test|[A-Z]\w*Campaign|Slurm|python|docs|parity)"
    for name in set(re.findall(r"`(%s(?:[.:]\w+)?|[A-Z]\w+\.[A-Z]\w+)`" % suite, text)):
        if name not in tests() and name not in ("python", "docs", "Slurm", "parity", "parity:name", "Suite.Name"):
            yield f"there is no test {name}"


def check_files(_, text):
    for path in set(re.findall(r"(?<![\w/.-])((?:%s)/[\w./*-]*\w)" % "|".join(TOP_FOLDERS), text)):
        if re.search(r"[A-Z]{4}", path) and not path.endswith(".txt"):
            continue  # a placeholder, such as NAME_fuzz.cc
        pattern = re.compile(re.escape(path).replace(r"\*", "[^/]*") + r"($|/|\.)")
        if not os.path.exists(os.path.join(ROOT, path)) and not any(pattern.match(known) for known in tracked_files()):
            yield f"there is no file {path}"
    for program in set(re.findall(r"build/bin/(\w+)", text)):
        if not re.search(r"\b%s\b" % program, cmake_files()):
            yield f"no CMakeLists.txt makes build/bin/{program}"


@functools.lru_cache(maxsize=None)
def flags_of_other_programs():
    """Flags of the scripts, tests and example programs of this repository."""
    folders = r"(\.ci|scripts|tests/(bench|chaos|kubernetes|scenario|simulation|slurm)|worker/examples)/"
    files = [read(path) for path in tracked_files() if re.match(folders, path)]
    return set(re.findall(r"--([a-z][a-z0-9-]*)", "\n".join(files)))


def check_flags(_, text):
    for flag in set(re.findall(r"(?<![\w#-])--([a-z][a-z0-9]*(?:[-_][a-z0-9]+)*)", text)):
        known = flag.replace("_", "-")
        if known not in ddprun_flags() | flags_of_other_programs() | FOREIGN_FLAGS and flag not in FOREIGN_FLAGS:
            yield f"there is no flag --{flag}"


def check_flags_of_scripts(_, text):
    for script, arguments in re.findall(r"(?<![\w/])((?:scripts|tests)/[\w/]+\.(?:py|sh))((?: +[\w./:,=\"-]+)*)", text):
        for flag in re.findall(r" --([a-z][a-z-]*)", arguments):
            if os.path.exists(os.path.join(ROOT, script)) and f"--{flag}" not in read(script):
                yield f"{script} has no flag --{flag}"


def check_subcommands(_, text):
    for name in set(re.findall(r"(?:^    |^\$ |`|&& )(?:build/bin/)?ddprun ([a-z][a-z-]+)(?=[ `\n])", text, re.M)):
        if name not in subcommands() + ["has", "may"]:  # sentences: "ddprun has said:"
            yield f"there is no subcommand {name}"


def job_file_keys(text):
    """What stands before a colon in job files and in `key: value`."""
    found = set(re.findall(r"`([a-z_]+): [^`]*`", text))
    for block in shown_commands.blocks(text):
        if any(re.match(r" *command: ", line) for line in block):
            found |= set(re.findall(r"(?:^ *|[{,] *)([a-z_]+):(?= |$)", "\n".join(block), re.M))
    return found


def check_keys(_, text):
    parts = {part for key in keys() for part in key.split(".")}
    others = {"ddprun", "waiting", "spare"}  # `ddprun: ...` is a line of its log; the others are states of a node
    for name in sorted(job_file_keys(text) - parts - others):
        yield f"there is no key {name} of job files"
    sections = {key.split(".")[0] for key in keys() if "." in key}
    for key in set(re.findall(r"`((?:%s)\.[a-z_]+)(?::[^`]*)?`" % "|".join(sections), text)):
        if key not in keys().keys() | tests() and not key.endswith((".json", ".txt", ".log", ".py", ".proto")):
            yield f"there is no key {key} of job files"


def variables_of_flags():
    return {prefix + flag.upper().replace("-", "_") for flag in ddprun_flags() for prefix in ("DDPRUN_", "PET_")}


def check_variables(_, text):
    for name in set(re.findall(r"\b((?:DDPRUN|PET|TORCHELASTIC)_[A-Z0-9_]*[A-Z0-9])\b", text)):
        if name not in variables_of_flags() and not re.search(r"\b%s\b" % name, code()):
            yield f"there is no variable {name}"


def check_metrics(_, text):
    for name in set(re.findall(r"(?<![\w/:-])(ddprun_[a-z_]+)\b(?![./(])", text)):
        stem = re.sub(r"_(bucket|sum|count)$", "", name)
        if stem not in metrics() and f'"{name}"' not in code():  # it may be a field of a file
            yield f"there is no metric {name}"


PAGE_CHECKS = (check_links, check_tests, check_files, check_flags, check_flags_of_scripts, check_subcommands, check_keys,
               check_variables, check_metrics, *name_checks.CHECKS)


def first_column(page, before):
    """The entries of the first column of the table below the line `before`, split at commas."""
    entries, found = set(), False
    for line in read(page).split("\n"):
        found = found or line == before
        if not found or not line.startswith("|"):
            if entries:
                break
            continue
        entries |= {entry.strip().strip("`") for entry in line.split("|")[1].split(",")}
    return entries


def difference(page, kind, documented, existing):
    for name in sorted(existing - documented):
        yield f"{page}: the {kind} {name} is missing"
    for name in sorted(documented - existing):
        yield f"{page}: there is no {kind} {name}"


def generated_texts():
    """{page: text}; CannotMake if one of them cannot be made."""
    return {page: make() for page, make in GENERATED.items()}


def check_tables():
    """Everything that exists is documented, and no table has a superfluous row."""
    yield from difference("docs/jobs.md", "event", first_column("docs/jobs.md", "### Events") - {"event", "---"},
                          {*events(), "dropped"})  # "dropped" is only in the file
    rows = first_column("docs/jobs.md", "| a job is | meaning |") - {"a job is", "---", "..."}
    yield from difference("docs/jobs.md", "state of a job", {row for row in rows if row[0].isupper()},
                          set(job_states()) - {"Succeeded", "Failed"})  # after the end, a job has an outcome instead
    for name in sorted({row for row in rows if not row[0].isupper()} - set(outcomes())):
        yield f"docs/jobs.md: there is no outcome {name}"
    rows = first_column("docs/exit-codes.md", "## Exit codes") | first_column("docs/jobs.md", "| exit code | |")
    codes = {str(value) for value in exit_codes() - {143}}  # 143 is 128 + SIGTERM: in the row for signals
    yield from difference("docs/exit-codes.md", "exit code", {row for row in rows if row.isdigit()}, codes | {"0"})
    for key, schema in keys().items():
        if schema.get("description", "") not in texts_of_keys():
            yield (f"configs/ddprun.schema.json: the text of {key} is not the one of launcher/config: "
                   "DDPRUN_REWRITE=1 build/bin/config_test")
    page = "docs/worker-environment.md"
    own = read(page)
    for name, _, _ in variables():
        if not re.search(r"\b%s\b" % name, own):
            yield f"{page}: the variable {name} is missing"
    rows = "\n".join(line.split("|")[1] for line in own.split("\n") if line.startswith("|"))
    yield from difference(page, "message", set(re.findall(r"`([A-Z_]+)=", rows)), set(control_messages()))
    try:
        for page, text in generated_texts().items():
            if read(page) != text:
                yield f"{page} differs from the code: scripts/check_docs.py --write"
    except CannotMake as error:
        yield str(error)


def check_ratios():
    """The ratios of README.md's table of measurements."""
    for line in read("README.md").split("\n"):
        cells = [cell.strip() for cell in line.split("|")]
        ratio = re.fullmatch(r"([\d.]+)×", cells[4]) if len(cells) > 5 else None
        figures = [re.search(r"([\d,]+(?:\.\d+)?) (µs|ms|s)\b", cell) for cell in cells[2:4]]
        if ratio and all(figures):
            ours, other = (float(figure.group(1).replace(",", "")) * {"µs": 1e-3, "ms": 1, "s": 1e3}[figure.group(2)]
                           for figure in figures)
            if abs(other / ours / float(ratio.group(1)) - 1) > MOST_ROUNDING:
                yield f"README.md: {cells[3]} is not {cells[4]} of {cells[2]}"


def check_others():
    """Things without a table: subcommands, variables that are read, folders, and files without a first comment."""
    usage = re.search(r"kRunUsage =(.*?);\n", read(CLI_CC), re.S).group(1)
    for page, text in ("docs/usage.md", read("docs/usage.md")), ("ddprun help", usage):
        for name in subcommands():
            if not re.search(r"\bddprun %s\b" % name, re.sub(r" \| ", "\n    ddprun ", text)):
                yield f"{page}: the subcommand {name} is missing"
    index = read("docs/README.md")
    for page in pages():
        if page.startswith("docs/") and page != "docs/README.md" and f"({os.path.relpath(page, 'docs')})" not in index:
            yield f"docs/README.md: the page {page} is missing"
    words = len(re.findall(r"^\| (?!word )", read("docs/glossary.md"), re.M))
    if words > MOST_WORDS:
        yield f"docs/glossary.md: {words} words, at most {MOST_WORDS}"
    lines = read("README.md").count("\n")
    if lines > MOST_LINES:
        yield f"README.md: {lines} lines, at most {MOST_LINES}"
    everything = "\n".join(read(page) for page in pages())
    for name in sorted(variables_read() - variables_of_flags()):
        if not re.search(r"\b%s\b" % name, everything):
            yield f"docs: the variable {name} is read and no page names it"
    architecture = "docs/internals/architecture.md"
    layers = read(architecture).split("## Threads")[0]
    sources = [path for path in tracked_files() if re.match(r"(launcher|rendezvous|worker)/.*\.(cc|h|py)$", path)]
    for folder in sorted({os.path.dirname(path) for path in sources}):
        if not re.search(r"\b%s\b" % re.escape(os.path.basename(folder)), layers) and "/include/torch/" not in folder:
            yield f"{architecture}: the folder {folder} is missing"
    for path in listed_files():
        if not first_sentence(path):
            yield f"{path} does not say at its beginning what it is"


def check_mentions():
    """Pages and files that sources, scripts and help texts name."""
    source = r"(?<![\w/.$}{-])((?:%s)/[\w./-]*\w\.(?:cc|h|proto|py|sh|mjs))(?!\w|\.\w)" % "|".join(TOP_FOLDERS)
    for path in tracked_files():
        if path.endswith((".png", ".md")) and path != "CHANGELOG.md" or path.startswith("tests/fuzz/corpus/"):
            continue
        for page, anchor in set(re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", read(path))):
            if not os.path.exists(os.path.join(ROOT, page)):
                yield f"{path}: there is no {page}"
            elif anchor and anchor not in anchors_of(read(page)):
                yield f"{path}: {page} has no heading #{anchor}"
        if path not in NAMES_WHAT_IS_NOT_THERE and not path.startswith("tests/data/"):
            for file in set(re.findall(source, read(path))):
                if not re.search("[A-Z]{4}", file) and not os.path.exists(os.path.join(ROOT, file)):
                    yield f"{path}: there is no {file}"


def check_registered_tests():
    """Files of tests that no CMakeLists.txt makes a test of CTest."""
    for path in tracked_files():
        if python_test(path) and python_test(path) not in registered_tests():
            yield f"{path}: no CMakeLists.txt makes the test {python_test(path)}"


def main():
    if sys.argv[1:] == ["--write"]:
        try:
            texts = generated_texts()  # all texts before any page is opened: opening a page empties it
        except CannotMake as error:
            print(f"check_docs.py: {error}", file=sys.stderr)
            return 1
        for page, text in texts.items():
            with open(os.path.join(ROOT, page), "w", encoding="utf-8") as file:
                file.write(text)
        return 0
    findings = [f"{page}: {finding}" for page in pages() for check in PAGE_CHECKS for finding in check(page, read(page))]
    findings += [f"CHANGELOG.md: {finding}" for finding in check_links("CHANGELOG.md", read("CHANGELOG.md"))]
    findings += [*check_tables(), *check_ratios(), *check_others(), *check_mentions(), *check_registered_tests()]
    findings += [*shown_commands.findings(), *wording.findings()]
    for finding in sorted(findings):
        print(f"check.sh: docs: {finding}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
