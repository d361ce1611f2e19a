#!/usr/bin/python3
"""Counts files per folder, lines per function and members per class in launcher/, rendezvous/ and worker/; names what
is above its limit.

    files per folder       at most 16. X.h and X.cc count as one file, because people read them together. So a class
                           may get a source of its own
    lines per function     at most 60, except in tables: a function with "// table" on its first line or the line before
    members per class      at most 20 data members

EXCEPTIONS has higher limits with their reasons. The script prints these exceptions.

Needs universal-ctags. Prints what it counted, then one line for each finding, and exits 1 if there is one.
"""

import collections
import json
import pathlib
import subprocess
import sys

FILES_PER_FOLDER = 16
LINES_PER_FUNCTION = 60
MEMBERS_PER_CLASS = 20
EXCEPTIONS = {
    "worker/include/ddp": (18, "the public interface: a program includes the header of one subject"),
}
ROOTS = ("launcher", "rendezvous", "worker")


def sources():
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *ROOTS],
        check=True, capture_output=True, text=True).stdout.split()
    return [path for path in listing if path.endswith((".h", ".cc")) and pathlib.Path(path).exists()]


def tags(paths):
    listing = subprocess.run(
        ["ctags", "--output-format=json", "--fields=+neKsS", "--kinds-C++=fm",
         "--language-force=C++", "-f", "-", *paths],
        check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in listing.splitlines()]


def is_table(path, line):
    text = pathlib.Path(path).read_text().splitlines()
    return "// table" in text[line - 1] or (line > 1 and "// table" in text[line - 2])


def count():
    """For each kind of limit: {name: number}."""
    paths = sources()
    modules = collections.defaultdict(set)
    for path in map(pathlib.Path, paths):
        modules[str(path.parent)].add(path.stem)
    members = collections.Counter()
    functions = {}
    tables = 0
    for tag in tags(paths):
        if tag["kind"] == "member":
            members[f'{tag["path"]}: {tag["scope"]}'] += 1
        elif "end" in tag:
            lines = tag["end"] - tag["line"] + 1
            if lines > LINES_PER_FUNCTION and is_table(tag["path"], tag["line"]):
                tables += 1
            else:
                functions[f'{tag["path"]}:{tag["line"]}: {tag["name"]}'] = lines
    return {folder: len(stems) for folder, stems in modules.items()}, functions, tables, members


def check(what, limit, counted):
    """Prints what there is; returns the findings."""
    above = {name: number for name, number in counted.items() if number > limit}
    excepted = [name for name in above if name in EXCEPTIONS]
    print(f"{what} above {limit}: {len(above) - len(excepted)} of {len(counted)}, "
          f"the largest has {max(number for name, number in counted.items() if name not in EXCEPTIONS)}")
    for name in excepted:
        most, reason = EXCEPTIONS[name]
        print(f"  excepted: {name} has {above[name]}, at most {most}: {reason}")
    return [f"{name}: {number} {what}, at most {EXCEPTIONS.get(name, (limit,))[0]}"
            for name, number in sorted(above.items()) if number > EXCEPTIONS.get(name, (limit,))[0]]


def main():
    folders, functions, tables, members = count()
    findings = check("files per folder", FILES_PER_FOLDER, folders)
    findings += check("lines per function", LINES_PER_FUNCTION, functions)
    print(f"  excepted: {tables} tables")
    findings += check("members per class", MEMBERS_PER_CLASS, members)
    findings += [f"{name} needs no exception any more" for name in EXCEPTIONS
                 if folders.get(name, 0) <= FILES_PER_FOLDER]
    for finding in findings:
        print(f"check_sizes.py: {finding}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
