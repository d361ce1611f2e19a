"""Reads the code blocks of README.md and docs/first-job.md, and names the test or script that runs each command.

A line of a block is a command, or the output of a command. scripts/check_docs.py fails if a command has no runner. A
runner is a test of CTest, or a script that CI starts. The tests of tests/docs run the commands of RUNS, and compare the
lines of OUTPUTS with the output of their jobs.
"""

import importlib
import os
import re
import sys

from code_tables import ROOT, read, registered_tests, tests_of

PAGES = ("README.md", "docs/first-job.md")
# Page -> a script that types all commands of the page in their order, and compares their output with the page. Such a
# page has no entry below. The script has a function rehearse(), which types the commands without running them, and
# returns the problem, or "".
TYPED_BY = {"docs/first-job.md": "tests/integration/first_job_test.py"}

ANY_PROGRAM = "docs.commands"  # commands that start a program of the reader, on one node and on two
KILL = "docs.kill"  # trains MNIST, and kills a worker
HANG = "docs.hang"

# Command -> the test of tests/docs that runs it.
RUNS = {
    "build/bin/ddprun --nproc-per-node 4 --max-restarts 3 train.py --epochs 10": ANY_PROGRAM,
    "build/bin/ddprun --nproc-per-node 8 --max-restarts 3 --warm --checkpoint-dir /ckpt ./train": ANY_PROGRAM,
    "build/bin/ddprun --nnodes 2 --rdzv-endpoint head:29400 --token-file token --rdzv-id exp7 ./train": ANY_PROGRAM,
}

# Commands that no test of CTest can run: command -> (script, the line of the script that runs it).
IN_SCRIPTS = {
    "scripts/quickstart.sh": ("scripts/compat.sh", "scripts/quickstart.sh"),
    "scripts/test.sh": (".ci/run", "scripts/test.sh dev"),
    "apt-get update": ("scripts/package_check.sh", "apt-get update -qq"),
    "apt-get install ./ddprun_*.deb ./ddprun-examples_*.deb":
        ("scripts/package_check.sh", "apt_quietly install $(printf './%s_*.deb ' \"${names[@]}\")"),
    "ddprun -c /usr/share/ddprun/configs/mnist_local.yaml": ("scripts/package_check.sh", 'ddprun -c "$job"'),
}

# Beginning of a line of output -> the test that makes this output.
OUTPUTS = {
    r"ddprun \d\d:": KILL,
    r"\[default\d\]:": KILL,
    r"the job hangs: |rank 1(?: on |: )": HANG,
}


def blocks(text):
    """The blocks of code of a page, each a list of lines; pictures are left out."""
    found, block, fenced = [], [], False
    for line in text.split("\n") + ["end"]:
        if re.match(r" {0,3}(```|~~~)", line):
            fenced = not fenced
        elif fenced or line.startswith("    ") and not re.match(r" +[-*] ", line):
            block.append(line if fenced else line[4:])
            continue
        elif not line and block:
            continue  # two blocks with an empty line between them are one
        if block:
            found.append(block)
            block = []
    return [block for block in found if not re.search("[┌└]", "\n".join(block))]


def is_output(line):
    return any(re.match(beginning, line.lstrip()) for beginning in OUTPUTS)


def commands(text):
    """The commands of a page's blocks, without their comments."""
    lines = (re.sub(r"(^|\s+)#.*", "", line).strip() for block in blocks(text) for line in block)
    return [line for line in lines if line and not is_output(line)]


def all_outputs(text):
    """The lines of output of a page's blocks."""
    return [line.strip() for block in blocks(text) for line in block if is_output(line)]


def outputs(text, runner):
    """The lines of output of a page's blocks that this test is to print."""
    return [line.strip() for block in blocks(text) for line in block
            if any(re.match(beginning, line.lstrip()) for beginning, test in OUTPUTS.items() if test == runner)]


def active_lines(script):
    """The lines of a script that run something: without comments, and without lines that only print."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^\s*#.*\n", "", read(script)))
    return "\n".join(re.sub(r"\s#\s.*", "", line) for line in text.split("\n")
                     if not re.match(r"\s*(\S+ \|\|\s+)?(echo|printf|step|:) ", line))


def rehearsal_of(page, script):
    """What is wrong with the commands that a script of TYPED_BY types, or ""."""
    if not os.path.exists(os.path.join(ROOT, script)) or page not in read(script):
        return f"scripts/shown_commands.py: {script} does not type the commands of {page}"
    if not tests_of(script):
        return f"scripts/shown_commands.py: no CMakeLists.txt makes a test of {script}"
    folder, name = os.path.split(script)
    sys.path.insert(0, os.path.join(ROOT, folder))
    try:
        wrong = importlib.import_module(name.removesuffix(".py")).rehearse(read(page))
    finally:
        sys.path.remove(os.path.join(ROOT, folder))
    return f"{page}: {wrong} ({script})" if wrong else ""


def findings():
    """Commands that nothing runs, and entries without a command or a runner."""
    shown = {page: set(commands(read(page))) for page in PAGES if page not in TYPED_BY}
    yield from filter(None, (rehearsal_of(page, script) for page, script in TYPED_BY.items()))
    for page, lines in shown.items():
        for line in sorted(lines - RUNS.keys() - IN_SCRIPTS.keys()):
            yield f"{page}: nothing runs the command: {line} (scripts/shown_commands.py)"
    for line in sorted((RUNS.keys() | IN_SCRIPTS.keys()) - set().union(*shown.values())):
        yield f"scripts/shown_commands.py: no page shows the command: {line}"
    for test in sorted({*RUNS.values(), *OUTPUTS.values()} - registered_tests()):
        yield f"scripts/shown_commands.py: there is no test {test}"
    for script, line in sorted(IN_SCRIPTS.values()):
        if line not in active_lines(script):
            yield f"scripts/shown_commands.py: {script} does not run: {line}"
        elif script != ".ci/run" and script not in active_lines(".ci/run"):
            yield f"scripts/shown_commands.py: .ci/run does not start {script}"
