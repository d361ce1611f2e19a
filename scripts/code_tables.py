"""Reads the tables in the sources without a build: flags, keys of job files, variables, control messages,
events, states, outcomes, metrics, exit codes, tests. For scripts/check_docs.py."""

import functools
import json
import os
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# ---- the repository ----

@functools.lru_cache(maxsize=None)
def tracked_files():
    """Tracked and new files, as paths from ROOT. Without a git repository, as in a tarball: all files outside of the
    build folders."""
    if not os.path.exists(os.path.join(ROOT, ".git")) or shutil.which("git") is None:
        return [os.path.relpath(os.path.join(folder, name), ROOT)
                for folder, _, names in os.walk(ROOT) for name in names
                if not re.search(r"/(build[^/]*|\.git|__pycache__)(/|$)", folder[len(ROOT):])]
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                             cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [path for path in listing if path and os.path.exists(os.path.join(ROOT, path))]


@functools.lru_cache(maxsize=None)
def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def cmake_files():
    """Without comments."""
    return "\n".join(re.sub(r"#.*", "", read(path)) for path in tracked_files() if path.endswith("CMakeLists.txt"))


@functools.lru_cache(maxsize=None)
def code():
    """All text files but the pages, as one string."""
    skipped = re.compile(r"\.md$|\.png$|^tests/(fuzz/corpus|data)/|^LICENSE$")
    return "\n".join(read(path) for path in tracked_files() if not skipped.search(path))


# ---- the tables in the sources ----

def string_of(expression):
    """The value of adjacent C++ string literals; None if it is no string."""
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"', expression)
    return None if not parts else "".join(parts).replace('\\"', '"').replace("\\n", "\n")


def split_arguments(text):
    """Splits at the commas outside of strings and brackets."""
    arguments, depth, quoted, start, index = [], 0, False, 0, 0
    while index < len(text):
        char = text[index]
        if char == "\\":
            index += 1
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "({[":
            depth += 1
        elif not quoted and char in ")}]":
            depth -= 1
        elif not quoted and char == "," and depth == 0:
            arguments.append(text[start:index].strip())
            start = index + 1
        index += 1
    return [argument for argument in arguments + [text[start:].strip()] if argument]


def rows_of(source, name):
    """The rows of the array `name`: (constructor or "", arguments)."""
    match = re.search(r"\b" + name + r"\[\] = \{(.*?)\n\};", source, re.S)
    body = re.sub(r"^\s*//.*$", "", match.group(1), flags=re.M)
    for row in split_arguments(body):
        inner = re.match(r"(\w*)\s*[({](.*)[)}]$", row, re.S)
        yield inner.group(1), split_arguments(inner.group(2))


# For each constructor of a row in flags.cc: the positions of the name of the value, the key and the help. None: it has
# no such argument.
ROW_SHAPES = {"Sets": (2, 3, 4), "SetsTo": (None, 1, 3), "MaySet": (1, 2, 4), "SetsSeconds": (None, 1, 2),
              "Option": (2, None, 3), "Immediate": (None, None, 2), "Refused": (2, None, 3), "": (2, 4, 6)}


def flags_of(path, table):
    """The flags of a table: dicts with name, letter, value, key, help, refused."""
    flags = []
    for constructor, arguments in rows_of(read(path), table):
        value, key, text = ROW_SHAPES[constructor]
        def field(index):
            return "" if index is None else string_of(arguments[index]) or ""
        letter = re.fullmatch(r"'(.)'", arguments[1])
        flags.append({"name": string_of(arguments[0]), "letter": letter.group(1) if letter else "",
                      "value": field(value) or ("SECONDS" if constructor == "SetsSeconds" else ""), "key": field(key),
                      "help": field(text), "refused": constructor == "Refused"})
    return flags


CLI_CC = "launcher/config/flags/cli.cc"
FLAGS_CC = "launcher/config/flags/flags.cc"
OPERATORS_CC = "launcher/config/flags/operator_options.cc"


@functools.lru_cache(maxsize=None)
def flag_tables():
    """[(title, flags)], in the order of --help."""
    groups = re.search(r"kRunGroups\[\] = \{(.*?)\};", read(FLAGS_CC), re.S).group(1)
    tables = []
    for title, table in re.findall(r'\{\s*"([^"]*)",\s*(k\w+)\}', groups):
        if table == "kEverydayFlags":
            title = "What everybody uses"
        elif table == "kRefusedFlags":
            title = "Refused"
        tables.append((f"`ddprun`: {title.split(',')[0]}", flags_of(FLAGS_CC, table)))
    for table in re.findall(r"\bFlagSpec k(\w+)Flags\[\]", read(FLAGS_CC)):
        if f"k{table}Flags" not in groups:  # of a subcommand: kPythonModuleFlags
            command = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", table).lower()
            tables.append((f"`ddprun {command}`", flags_of(FLAGS_CC, f"k{table}Flags")))
    tables.append(("`ddprun status`, `stop`, `drain`, `events`, `stacks`, `logs`, `page` and `top`",
                   flags_of(OPERATORS_CC, "kCommonFlags")))
    for table in re.findall(r"\bFlagSpec k(\w+)Flags\[\]", read(OPERATORS_CC)):
        if table != "Common":
            tables.append((f"`ddprun {table.lower()}`, in addition", flags_of(OPERATORS_CC, f"k{table}Flags")))
    return tables


@functools.lru_cache(maxsize=None)
def ddprun_flags():
    return {flag["name"] for _, flags in flag_tables() for flag in flags}


@functools.lru_cache(maxsize=None)
def commands_flags():
    """{subcommand: {flag: name of its value}}; "" is `ddprun` without one."""
    found = {name: {"help": "", "version": ""} for name in ["", *subcommands()]}
    for title, flags in flag_tables():
        words = re.findall(r"`([a-z -]+)`", title.split(":")[0])
        for name in (word.removeprefix("ddprun").strip() for word in words):
            found[name] |= {flag["name"]: flag["value"] for flag in flags}
    found["doctor"] |= {**found[""], "etcd": "ENDPOINTS"}  # DoctorFlags()
    return found


@functools.lru_cache(maxsize=None)
def keys():
    """{path: schema} of job files, in the order of the schema."""
    found = {}

    def visit(prefix, schema):
        for name, value in schema["properties"].items():
            if "properties" in value:
                visit(f"{prefix}{name}.", value)
            else:
                found[prefix + name] = value
    visit("", json.loads(read("configs/ddprun.schema.json")))
    return found


@functools.lru_cache(maxsize=None)
def texts_of_keys():
    """The strings of the sources of launcher/config: those of the schema are among them."""
    literal = r'"(?:[^"\\\n]|\\.)*"'
    sources = "\n".join(read(path) for path in tracked_files() if re.match(r"launcher/config/.*\.(cc|h)$", path))
    return {string_of(text) for text in re.findall(r"%s(?:\s*%s)*" % (literal, literal), sources)}


@functools.lru_cache(maxsize=None)
def variables():
    """[(name, scope, key)] of worker/contract/environment.h."""
    source = read("worker/contract/environment.h")
    names = dict(re.findall(r'inline constexpr char (k\w+)\[\] = "(\w+)"', source))
    return [(names[arguments[0]], arguments[1].rpartition("::")[2],
             string_of(arguments[3]) if len(arguments) > 3 else "") for _, arguments in rows_of(source, "kVariables")]


@functools.lru_cache(maxsize=None)
def events():
    body = re.search(r"kEventNames\[\] = \{(.*?)\};", read("rendezvous/core/job_event.h"), re.S).group(1)
    return re.findall(r'"(\w+)"', body)


def outcomes():
    return re.findall(r'\{Outcome::k\w+, "(\w+)"\}', read("rendezvous/core/outcome.h"))


def job_states():
    return re.findall(r'case JobState::k\w+:\s*return "(\w+)"', read("rendezvous/core/job_status.cc"))


@functools.lru_cache(maxsize=None)
def metrics():
    return re.findall(r'^    \{"(ddprun_\w+)"', read("rendezvous/metrics/metric_table.h"), re.M)


@functools.lru_cache(maxsize=None)
def exit_codes():
    return {int(code) for code in re.findall(r"kExit\w+ =\s*(\d+)", read("rendezvous/core/exit_codes.h"))}


@functools.lru_cache(maxsize=None)
def control_messages():
    """Keys of messages between worker and agent; values and phases are lower case."""
    return re.findall(r'inline constexpr char k\w+\[\] = "([A-Z_]+)"', read("worker/contract/control.h"))


def python_test(path):
    """CTest's name of a file of Python's tests; "" if it has none of its own."""
    match = re.fullmatch(r"tests/(python|docs)/test_(\w+)\.py", path)
    return f"{match.group(1)}.{match.group(2)}" if match else ""


@functools.lru_cache(maxsize=None)
def cmake_tests():
    """[(name, command)] of CTest."""
    return re.findall(r"add_test\(NAME (\S+)\s+COMMAND (.*?)\)\n", cmake_files(), re.S)


@functools.lru_cache(maxsize=None)
def registered_tests():
    """CTest's names, with the names that loops over lists of words make."""
    found = set()
    for path in tracked_files():
        if not path.endswith("CMakeLists.txt"):
            continue
        text = re.sub(r"#.*", "", read(path))
        lists = {}
        for name, words in re.findall(r"\bset\((\w+)\s+([^)]*)\)", text):
            lists[name] = words.split()
        for name, words in re.findall(r"\blist\(APPEND\s+(\w+)\s+([^)]*)\)", text):
            lists.setdefault(name, []).extend(words.split())
        found |= set(re.findall(r"add_test\(NAME ([\w.-]+)\s", text))
        for variable, words, body in re.findall(r"foreach\((\w+)\s+([^)]*)\)(.*?)endforeach", text, re.S):
            values = [value for word in words.split() for value in lists.get(word.strip("${}"), [word])]
            for name in re.findall(r"add_test\(NAME (\S+)\s", body):
                found |= {name.replace("${%s}" % variable, value) for value in values}
    return found


def tests_of(path):
    """The suites in a file, and the tests of CTest that run it."""
    if path.endswith("_test.cc"):
        return sorted(set(re.findall(r"^TEST(?:_[FP])?\(\s*(\w+),", read(path), re.M)))
    if python_test(path):
        return [python_test(path)]
    name = os.path.basename(path)
    stem, extension = os.path.splitext(name)
    word = stem if extension == ".cc" or stem.startswith("test_") else name
    return sorted({test.split("${")[0].rstrip(".") for test, command in cmake_tests()
                   if word in re.findall(r"(?<![:\w])[\w.]+", command)})


def subcommands():
    """[name] of `ddprun NAME`, in the order of the table."""
    table = re.search(r"kSubcommands\[\] = \{(.*?)\n\};", read(CLI_CC), re.S).group(1)
    return re.findall(r'^\s*\{\s*"([a-z-]+)"', table, re.M)


@functools.lru_cache(maxsize=None)
def variables_read():
    """Variables of the environment that the product's sources name, and DDPRUN_* variables that scripts read."""
    names = set()
    ours = r"(?:DDP|DDPRUN|PET|TORCHELASTIC|SLURM|SLURMD|JOBSET|NCCL|TORCH_NCCL)_[A-Z0-9_]*[A-Z0-9]"
    prefixes = r"[\"'](%s)[\"']" % ours
    calls = r'(?:getenv|Environment|Variable|environ\.get)\(\s*(?:host, )?"([A-Z][A-Z0-9_]+)"'
    for path in tracked_files():
        if re.match(r"(\.ci|packaging|scripts)/", path):
            names |= set(re.findall(r"\$\{?(DDPRUN_[A-Z0-9_]*[A-Z0-9])", read(path)))
        if re.match(r"(launcher|rendezvous|worker)/.*\.(cc|h|py)$", path):
            text = read(path)
            names |= set(re.findall(prefixes, text)) | set(re.findall(calls, text))
            names |= set(re.findall(r'starts_with\("(PATH)="\)', text))
            if "temp_directory_path(" in text:  # this function of std::filesystem reads them
                names |= {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}
    return names


@functools.lru_cache(maxsize=None)
def tests():
    """Suites and Suite.Name of C++ tests, classes and methods of Python's, and CTest's names."""
    found = set()
    for path in tracked_files():
        if not re.match(r"tests/.*\.(cc|py)$", path):
            continue
        text = read(path)
        if path.endswith(".cc"):
            for suite, name in re.findall(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", text, re.M):
                found |= {suite, f"{suite}.{name}"}
            found |= {instance for instance in re.findall(r"INSTANTIATE_TEST_SUITE_P\(\s*(\w+)", text)}
        else:
            suite = ""
            for kind, name in re.findall(r"^(class|    def|def) (\w+)", text, re.M):
                if kind == "class":
                    suite = name
                    found.add(name)
                elif kind == "    def":
                    found.add(f"{suite}.{name}")
                elif path.startswith("tests/slurm/"):
                    found.add(f"Slurm.{name.removeprefix('test_')}")
            if python_test(path):
                found.add(python_test(path))
    for name, _ in cmake_tests():
        whole = name.split("${")[0].rstrip(".")
        found |= {whole, whole.split(".")[0]}
    cases = json.loads(read("tests/python/parity_cases.json"))
    return found | {"parity:" + case["name"] for case in cases}
