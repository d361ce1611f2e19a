"""Finds names in pages that do not exist: not in our code, and not in the list of foreign names. For check_docs.py.

Each check takes a page and its text, and yields findings.
"""

import fnmatch
import functools
import os
import re

from code_tables import (code, commands_flags, ddprun_flags, events, exit_codes, job_states, keys, outcomes, read, tests,
                         tracked_files)

# Pages about the tests of PyTorch. They name things that our code does not have.
PAGES_OF_OTHERS = {"docs/internals/parity.md"}

# Names that belong to other programs.
FOREIGN_NAMES = set("""
    DistStoreError GradScaler MultiThreadedTestCase get_extra_state set_extra_state store_type
    OnFailure exported_job etcd_server_leader_changes_seen_total
    cq_check_tag unmap_vmas
    CUDA_DEVICE_ORDER GoogleTest
    cgroup.kill securityContext.capabilities.add torch.multiprocessing.spawn
    """.split())
# Files that belong to the reader, to Python or to PyTorch.
FOREIGN_FILES = set("""
    train.py ddp.py data.py t.py
    _tensor.py dataloader.py distributed_c10d.py test/distributed/test_store.py nccl.h
    """.split())
PREFIXES = "DDP|SLURMD?|JOBSET|KUBERNETES|TORCH|NCCL|GLOO|CUDA"  # of variables; check_docs.py checks other prefixes
FILE = "cc|h|proto|py|sh|mjs|txt|html|css"


def is_placeholder(name):
    """True for NAME_test.cc, DIR/ddprun.py, X.py."""
    return re.search(r"(^|[/._])[A-Z]+([/._]|$)", name) is not None


# ---- tests ----

def check_patterns_of_tests(_, text):
    for name in set(re.findall(r"`([A-Z]\w+\.\w*\*[\w*]*)`", text)):
        if not fnmatch.filter(tests(), name):
            yield f"there is no test {name}"


def check_bare_suites(page, text):
    if page in PAGES_OF_OTHERS:
        return
    for name in set(re.findall(r"(?<![\w/.:-])([A-Z]\w+(?:Test|Campaign))\b", text)) - FOREIGN_NAMES:
        if name not in tests():
            yield f"there is no test {name}"


# ---- files ----

@functools.lru_cache(maxsize=None)
def ends_of_paths():
    """All paths of files, and the same paths without their first folders."""
    found = set()
    for path in tracked_files():
        parts = path.split("/")
        found |= {"/".join(parts[start:]) for start in range(len(parts))}
    return found


def check_bare_files(page, text):
    """Files that are named without their folder, or with only a part of it."""
    if page in PAGES_OF_OTHERS:
        return
    name = r"(?<![\w/.*<>\\-])((?:[\w-]+/)*[\w-]+\.(?:%s))(?![\w/*-]|\.\w)" % FILE
    for path in set(re.findall(name, text)) - FOREIGN_FILES:
        if not is_placeholder(path) and path not in ends_of_paths():
            yield f"there is no file {path}"


# ---- flags ----

def words_of_commands(text):
    """The words of each `ddprun ...` and of each `build/bin/PROGRAM ...`, in blocks and between backticks."""
    text = re.sub(r" *\\\n *", " ", text)
    command = r"(?:^ {4,}|^ *\$ |`|&& |\( *|^)(?:\w+=\S+ )*(?:build/bin/)?(\w+) ([^`|;&>#)\n]*)"
    for program, line in re.findall(command, text, re.M):
        yield program, re.split(r" {2,}(?=[^-\s])", line)[0].split()


def flags_before_the_command(words, flags, positionals_end):
    """The flags among the words; after the first other word they are the program's, if `positionals_end`."""
    found, takes_value = [], False
    for word in words:
        if takes_value and not word.startswith("-"):
            takes_value = False
            continue
        takes_value = False
        if word == "--":
            break
        name = re.match(r"--([a-z][\w-]*)(=.*)?", word)
        if name:
            found.append(name.group(1).replace("_", "-"))
            takes_value = not name.group(2) and bool(flags.get(found[-1]))
        elif re.match(r"-\w$", word):
            takes_value = True
        elif positionals_end:
            break
    return found


@functools.lru_cache(maxsize=None)
def folder_of_program(name):
    """The folder with the sources of a program; "" if no CMakeLists.txt makes it."""
    for path in tracked_files():
        if path.endswith("CMakeLists.txt") and re.search(r"\badd_executable\(\s*%s\b" % name, read(path)):
            return "worker/examples" if path.startswith("worker/examples/") else os.path.dirname(path)
    return ""


@functools.lru_cache(maxsize=None)
def text_of_folder(folder):
    return "\n".join(read(path) for path in tracked_files() if re.match(folder + r"/.*\.(cc|h)$", path))


def check_flags_of_commands(_, text):
    """The flags of each subcommand, and of each program of build/bin."""
    for program, words in words_of_commands(text):
        if program == "ddprun":
            name = words[0] if words and re.match(r"[a-z]", words[0]) else ""
            if name and name not in commands_flags():
                continue  # a sentence that begins with "ddprun", not a command
            flags = commands_flags()[name]
            for flag in flags_before_the_command(words[1:] if name else words, flags, name in ("", "init", "doctor")):
                if flag not in flags:
                    yield f"{f'ddprun {name}'.strip()} has no flag --{flag}"
        elif any("--" in word for word in words) and folder_of_program(program):
            sources = text_of_folder(folder_of_program(program))
            for flag in re.findall(r"(?:^| )--([a-z][\w-]*)", " ".join(words)):
                if not re.search(r"\"(?:-[a-z],)?(?:--)?%s\b" % re.escape(flag), sources):
                    yield f"{program} has no flag --{flag}"


# ---- identifiers ----

@functools.lru_cache(maxsize=None)
def words_of_code():
    stems = {os.path.splitext(os.path.basename(path))[0] for path in tracked_files()}
    variables = {prefix + flag.upper().replace("-", "_") for flag in ddprun_flags() for prefix in ("DDPRUN_", "PET_")}
    return set(re.findall(r"\w+", code())) | stems | variables | FOREIGN_NAMES


def sections():
    return {key.split(".")[0] for key in keys() if "." in key}


def check_identifiers(page, text):
    """snake_case, CamelCase, VARIABLES and dotted.names."""
    if page in PAGES_OF_OTHERS:
        return
    variable = r"[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]"
    names = set(re.findall(r"`\$?([a-z]\w*_\w+|[A-Z]\w*[a-z]\w*|%s)(?:\(\)|=[^`]*)?`" % variable, text))
    names |= set(re.findall(r"(?<![\w-])((?:%s)_[A-Z0-9_]*[A-Z0-9])\b" % PREFIXES, text))
    for name in names:
        ours = re.match(r"(DDPRUN|PET|TORCHELASTIC|ddprun)_", name)  # check_docs.py checks these
        if not ours and name not in words_of_code():
            yield f"nothing in the code has the name {name}"
    for name in set(re.findall(r"`([a-z_]\w*(?:\.[a-z_]\w*)+)(?:\([^`]*\))?`", text)) - FOREIGN_NAMES:
        known = name in keys() or name in tests() or re.search(r"\.(%s)$" % FILE, name) or is_placeholder(name)
        if not known and name.split(".")[0] not in sections() and name not in code():
            yield f"nothing in the code has the name {name}"


def check_keys_in_braces(_, text):
    """`section: {key: value}`."""
    for section, inside in re.findall(r"`([a-z_]+): \{([^`]*)\}`", text):
        for key in re.findall(r"(?:^|,) *([a-z_]+):", inside):
            if section in sections() and f"{section}.{key}" not in keys():
                yield f"there is no key {section}.{key} of job files"


# ---- words of the tables ----

def listed(words):
    """The words of "`a`, `b` and `c`"."""
    return re.findall(r"`(\w+)`", words)


LIST = r"((?:`\w+`(?:, and |, or |, | and | or )?)+)"


def check_events(_, text):
    named = [name for words in re.findall(r"\bevents? %s" % LIST, text) for name in listed(words)]
    named += re.findall(r"`([a-z_]+)` events?\b", text)
    for name in sorted(set(named) - set(events())):
        yield f"there is no event {name}"


def check_outcomes(_, text):
    named = [name for words in re.findall(r"\boutcomes?(?: is| are| of)? %s" % LIST, text) for name in listed(words)]
    for words in re.findall(r'"outcome": "\w+", ([^"]*)', text):  # a report with the list of all outcomes
        named += re.findall(r"\w+", words)
    for name in sorted(set(named) - set(outcomes())):
        yield f"there is no outcome {name}"
    named = [name for words in re.findall(r"\bjobs? (?:is|state|in the state) %s" % LIST, text) for name in listed(words)]
    for name in sorted(set(named) - set(job_states())):
        yield f"there is no state {name} of jobs"


def check_exit_codes(_, text):
    """Every exit code of a list, and in parentheses."""
    before = r"\b(?:exit codes?|(?:exits?|ends?|exited)(?: the job| itself)? with(?: exit codes?)?)"
    some = before + r" \**(\d+(?:\**(?:, | or |, or | and )\**\d{2,})*)\b(?! \+)"
    codes = {int(value) for numbers in re.findall(some, text) for value in re.findall(r"\d+", numbers)}
    codes |= {int(value) for value in re.findall(r"\((\d+)\)", text) if 64 <= int(value) < 256}
    for value in sorted(codes - exit_codes() - set(range(128 + 1, 128 + 32)) - {0, 1}):
        yield f"there is no exit code {value}"


CHECKS = (check_patterns_of_tests, check_bare_suites, check_bare_files, check_flags_of_commands, check_identifiers,
          check_keys_in_braces, check_events, check_outcomes, check_exit_codes)
