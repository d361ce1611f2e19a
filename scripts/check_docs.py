#!/usr/bin/env python3
"""Checks README.md and docs/ against the code, without a build. Names every finding; exits 1 if there is one.

    scripts/check_docs.py            check
    scripts/check_docs.py --write    write docs/reference.md anew, from the tables in the sources

  links      every relative link and anchor resolves; so does every docs/ page that other files name
  names      every test, file, program of build/, flag, job-file key, DDPRUN_ variable, event, metric and exit code
             that the docs name exists
  tables     docs/reference.md has every flag, key and variable; the tables of events, metrics, exit codes, variables and
             control messages have every row of the code
"""

import functools
import os
import re
import sys

from code_tables import (ROOT, cmake_files, code, control_messages, ddprun_flags, events, exit_codes, flag_tables, keys,
                         metrics, read, tests, tracked_files, variables)

REFERENCE = "docs/reference.md"

# Flags of other programs, which docs show in commands.
FOREIGN_FLAGS = set("""
    account cluster constraint data-dir exclude exclusive export format from gpus-per-node gtest_filter
    initial-advertise-peer-urls initial-cluster initial-cluster-token install mem no-block no-kill now ntasks-per-node
    partition peer-urls prefix preset qos quota-backend-bytes shm-size user
    """.split())
FOREIGN_HEADERS = {"nccl.h"}
# Folders at the top of the repository whose files docs name.
TOP_FOLDERS = ("cmake", "configs", "docs", "launcher", "packaging", "proto", "rendezvous", "scripts", "tests", "worker")


def pages():
    return ["README.md"] + [path for path in tracked_files() if re.match(r"docs/.*\.md$", path)]


# ---- checks: each takes a page and its text, and yields findings ----

def anchors_of(text):
    """The anchors that GitHub gives the headings."""
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
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(ROOT, full)):
            yield f"there is no {full} ({target})"
        elif anchor and full.endswith(".md") and anchor not in anchors_of(read(full)):
            yield f"{full} has no heading #{anchor}"


def check_tests(_, text):
    for name in set(re.findall(r"`((?:[A-Z]\w*Test|Slurm|python|parity)(?:[.:]\w+)?)`", text)):
        if name not in tests() and name not in ("python", "Slurm", "parity", "parity:name"):
            yield f"there is no test {name}"


def check_files(_, text):
    names = {os.path.basename(path) for path in tracked_files()}
    for path in set(re.findall(r"(?<![\w/.-])((?:%s)/[\w./*-]*\w)" % "|".join(TOP_FOLDERS), text)):
        if re.search(r"[A-Z]{4}", path) and not path.endswith(".txt"):
            continue  # a place holder: NAME_fuzz.cc
        pattern = re.compile(re.escape(path).replace(r"\*", "[^/]*") + r"($|/|\.)")
        if not os.path.exists(os.path.join(ROOT, path)) and not any(pattern.match(known) for known in tracked_files()):
            yield f"there is no file {path}"
    for name in set(re.findall(r"`([a-z]\w*\.(?:cc|h|proto))`", text)):
        if name not in names | FOREIGN_HEADERS:
            yield f"there is no file {name}"
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


def check_keys(_, text):
    sections = {key.split(".")[0] for key in keys() if "." in key}
    for key in set(re.findall(r"`((?:%s)\.[a-z_]+)(?::[^`]*)?`" % "|".join(sections), text)):
        if key not in keys().keys() | tests() and not key.endswith((".json", ".txt", ".log", ".py", ".proto")):
            yield f"there is no key {key} of job files"


def check_variables(_, text):
    of_flags = {"DDPRUN_" + flag.upper().replace("-", "_") for flag in ddprun_flags()}
    for name in set(re.findall(r"\b(DDPRUN_[A-Z0-9_]*[A-Z0-9])\b", text)):
        if name not in of_flags and not re.search(r"\b%s\b" % name, code()):
            yield f"there is no variable {name}"


def check_events(_, text):
    for name in set(re.findall(r"\bevents? `(\w+)`", text)):
        if name not in events():
            yield f"there is no event {name}"


def check_metrics(_, text):
    for name in set(re.findall(r"(?<![\w/:-])(ddprun_[a-z_]+)\b(?![./(])", text)):
        stem = re.sub(r"_(bucket|sum|count)$", "", name)
        if stem not in metrics() and f'"{name}"' not in code():  # or a field of a file
            yield f"there is no metric {name}"


def check_exit_codes(_, text):
    of_signals = set(range(128 + 1, 128 + 32))
    for number in re.findall(r"\bexit codes? \**(\d+)\b(?! \+)|\bends? with exit code \**(\d+)", text):
        value = int(number[0] or number[1])
        if value not in exit_codes() | of_signals | {0, 1}:
            yield f"there is no exit code {value}"


PAGE_CHECKS = (check_links, check_tests, check_files, check_flags, check_keys, check_variables, check_events,
               check_metrics, check_exit_codes)


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


def check_tables():
    """Whatever exists is documented."""
    documented = first_column("docs/jobs.md", "### Events")
    for name in set(events()) - documented:
        yield f"docs/jobs.md: the event {name} is missing"
    rows = set(re.findall(r"^\| `(ddprun_\w+)` \|", read("docs/metrics.md"), re.M))
    for name in set(metrics()) - rows:
        yield f"docs/metrics.md: the metric {name} is missing"
    documented = first_column("docs/exit-codes.md", "## Exit codes") | first_column("docs/jobs.md", "| exit code | |")
    for value in sorted(exit_codes() - {143}):  # 128 + SIGTERM: in the row for signals
        if str(value) not in documented:
            yield f"docs/exit-codes.md: the exit code {value} is missing"
    own = read("docs/worker-environment.md")
    for name, _, _ in variables():
        if not re.search(r"\b%s\b" % name, own):
            yield f"docs/worker-environment.md: the variable {name} is missing"
    for key in control_messages():
        if f"`{key}=" not in own:
            yield f"docs/worker-environment.md: the message {key} is missing"
    if read(REFERENCE) != reference():
        yield f"{REFERENCE} differs from the tables in the code: scripts/check_docs.py --write"


def check_mentions():
    """Pages that sources, scripts and help texts name."""
    for path in tracked_files():
        if path.endswith((".png", ".md")) and path != "CHANGELOG.md" or path.startswith("tests/fuzz/corpus/"):
            continue
        for page, anchor in set(re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", read(path))):
            if not os.path.exists(os.path.join(ROOT, page)):
                yield f"{path}: there is no {page}"
            elif anchor and anchor not in anchors_of(read(page)):
                yield f"{path}: {page} has no heading #{anchor}"


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
             "`ddprun help SUBCOMMAND` print the flags. Events are in [jobs.md](jobs.md#events), metrics in",
             "[metrics.md](metrics.md), exit codes in [exit-codes.md](exit-codes.md).", "",
             "## Flags", "",
             "Each flag is also read from the variable `DDPRUN_<FLAG>`, then from `PET_<FLAG>`. The second column has the key of",
             "job files that the flag sets."]
    for title, flags in flag_tables():
        shown = [flag for flag in flags if flag["name"] not in ("help", "version")]
        if not shown:
            continue
        lines += ["", f"### {title}", "", "| flag | key | meaning |", "|---|---|---|"]
        lines += [flag_row(flag) for flag in shown]
    lines += ["", "## Keys of job files", "", "`configs/ddprun.schema.json` has the same for editors, with the bounds.", "",
              "| key | default | meaning |", "|---|---|---|"]
    for key, schema in keys().items():
        default = default_text(key)
        text = schema.get("description", "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| `{key}` | {'`' + default + '`' if default else ''} | {text} |")
    lines += ["", "## Variables of a worker", "",
              "[worker-environment.md](worker-environment.md) has their meaning. The last column has the key of job files "
              "that chooses", "the value.", "", "| variable | which processes | key |", "|---|---|---|"]
    lines += [f"| `{name}` | {SCOPES[scope]} | {'`' + key + '`' if key else ''} |" for name, scope, key in variables()]
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:] == ["--write"]:
        with open(os.path.join(ROOT, REFERENCE), "w", encoding="utf-8") as file:
            file.write(reference())
        return 0
    findings = [f"{page}: {finding}" for page in pages() for check in PAGE_CHECKS for finding in check(page, read(page))]
    findings += list(check_tables()) + list(check_mentions())
    for finding in sorted(findings):
        print(f"check.sh: docs: {finding}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
