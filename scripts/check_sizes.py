#!/usr/bin/python3
"""Counts what grows unnoticed in launcher/, rendezvous/ and worker/, and names what is above its limit.

What is above a limit today stands in ABOVE with its own: it may shrink, and must not grow.

    files per folder       a module, X.h with X.cc, counts as one
    lines per function     tables are excepted: a function that is marked "// table" on its first line
    members per class      data members

Needs universal-ctags. Prints one line for each finding and exits 1 if there is one; prints the
largest of each kind otherwise.
"""

import collections
import json
import pathlib
import subprocess
import sys

FILES_PER_FOLDER = 16
LINES_PER_FUNCTION = 60
MEMBERS_PER_CLASS = 20
ABOVE = {
    "worker/include/ddp": 18,  # the public interface, a header for each subject
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


def main():
    paths = sources()
    modules = collections.defaultdict(set)
    for path in map(pathlib.Path, paths):
        modules[str(path.parent)].add(path.stem)
    members = collections.Counter()
    functions = []
    for tag in tags(paths):
        if tag["kind"] == "member":
            members[f'{tag["path"]}: {tag["scope"]}'] += 1
        elif "end" in tag and not is_table(tag["path"], tag["line"]):
            functions.append((tag["end"] - tag["line"] + 1,
                              f'{tag["path"]}:{tag["line"]}: {tag["name"]}'))

    counts = [
        ("files per folder", FILES_PER_FOLDER, [(len(m), folder) for folder, m in modules.items()]),
        ("lines per function", LINES_PER_FUNCTION, functions),
        ("members per class", MEMBERS_PER_CLASS, [(n, name) for name, n in members.items()]),
    ]
    found = False
    for what, limit, values in counts:
        for value, name in sorted(values, reverse=True):
            if value > ABOVE.get(name, limit):
                found = True
                print(f"{name}: {value} {what}, at most {ABOVE.get(name, limit)}")
        print(f"{what}: the largest is {max(values)[0]}, at most {limit}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
