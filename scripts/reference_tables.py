"""Makes the sections of docs/reference.md on events, metrics, exit codes and the variables that ddprun reads, for
scripts/generated_pages.py."""

import re

from code_tables import ddprun_flags, events, read, rows_of, string_of, variables, variables_read

JOB_EVENT = "rendezvous/core/job_event.h"
OUTCOME = "rendezvous/core/outcome.h"
EXIT_CODES = "rendezvous/core/exit_codes.h"
COMMAND_EXIT_CODES = "launcher/manual/command_exit_codes.h"
METRICS = "rendezvous/metrics/metric_table.h"
THIS_FILE = "scripts/reference_tables.py"


class CannotMake(Exception):
    """A page cannot be made from the sources. The text says what to do first."""


def table(head, rows):
    """The lines of a table."""
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def enumerators(path, name):
    """[(enumerator, the comment behind it)] of an enum class."""
    found = []
    for line in re.search(r"enum class " + name + r" \{\n(.*?)\n *\};", read(path), re.S).group(1).split("\n"):
        enumerator, _, comment = (part.strip() for part in line.partition("//"))
        if enumerator:
            found.append((enumerator.rstrip(","), comment))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]} {comment}")
    return found


# ---- events ----

def fields_of_events():
    return {field for path, pattern in (("rendezvous/json/event_json.cc", r'line\.\w+\("(\w+)"'),
                                        ("rendezvous/json/restart_times_json.cc", r'\{"(\w+)",'))
            for field in re.findall(pattern, read(path))}


def event_rows():
    """(name, when, fields), from the comments of JobEvent::Kind."""
    for name, (kind, comment) in zip(events(), enumerators(JOB_EVENT, "Kind")):
        when, _, fields = comment.partition(": ")
        if not fields:
            raise CannotMake(f"{JOB_EVENT}: the comment of {kind} is not `WHEN: FIELDS`")
        for field in re.findall(r"`(\w+)`", fields):
            if field not in fields_of_events():
                raise CannotMake(f"{JOB_EVENT}: {kind} names the field {field}, and no event has it in rendezvous/json")
        yield f"`{name}`", when, re.sub(r"\bk[A-Z]\w+", value_of_constant, fields)


def value_of_constant(match):
    return re.search(match.group() + r" = (\d+);", read(JOB_EVENT)).group(1)


# ---- metrics ----

SERVED_BY = {"Place::kDaemon": "the rendezvous", "Place::kAgent": "an agent"}


def metric_rows():
    """(name, type, who serves it, labels, help)."""
    for _, (name, kind, place, labels, text) in rows_of(read(METRICS), "kMetrics"):
        yield (f"`{string_of(name)}`", kind.rpartition("::k")[2].lower(), SERVED_BY[place],
               ", ".join(f"`{label}`" for label in string_of(labels).split()), string_of(text))


# ---- exit codes ----

def outcome_rows():
    """(word, meaning)."""
    rows = [row for _, row in rows_of(read(OUTCOME), "kOutcomes")]
    words = {outcome.rpartition("::")[2]: string_of(word) for outcome, word in rows}
    for outcome, comment in enumerators(OUTCOME, "Outcome"):
        if not comment:
            raise CannotMake(f"{OUTCOME}: {outcome} has no comment behind it")
        yield f"`{words[outcome]}`", comment


def exit_code_rows():
    """(code, outcomes, meaning)."""
    known = {word.strip("`") for word, _ in outcome_rows()}
    for _, row in rows_of(read(EXIT_CODES), "kExitCodes"):
        code, outcomes, text = (string_of(argument) for argument in row)
        words = [word for word in outcomes.split(", ") if word]
        for word in words:
            if word not in known:
                raise CannotMake(f"{EXIT_CODES}: the row {code} names the outcome {word}, and {OUTCOME} lacks it")
        yield code, ", ".join(f"`{word}`" for word in words), text


def command_exit_code_rows():
    """(code, commands, meaning)."""
    for _, row in rows_of(read(COMMAND_EXIT_CODES), "kCommandExitCodes"):
        code, commands, text = (string_of(argument) for argument in row)
        yield code, ", ".join(f"`{command}`" for command in commands.split()) or "every subcommand", text


# ---- variables that ddprun reads ----

SLURM = "([slurm.md](slurm.md#without-any-flag))"
POD = "([kubernetes.md](kubernetes.md#without-any-flag))"
NCCL = "libtorch's. With libtorch 2.x the C++ library sets it if you have not ([gpu.md](gpu.md#a-lost-rank))."
# The sources have no table of these variables. read_variable_rows() compares their names with the sources.
READ_VARIABLES = {
    "DDPRUN_STATE_HOME": "The [state home](security.md#the-state-home). Not set: /tmp/ddprun-UID.",
    "TMPDIR": "Folder for the agent's sockets and Python module. Not set: `TMP`, else `TEMP`, else `TEMPDIR`, else /tmp.",
    "TMP": "See `TMPDIR`.",
    "TEMP": "See `TMPDIR`.",
    "TEMPDIR": "See `TMPDIR`.",
    "PATH": "Folders in which `ddprun` searches a command without a slash.",
    "PYTHON_EXEC": "Interpreter of Python programs. Not set: python3.",
    "PYTHONPATH": "`ddprun` puts a folder before it for Python workers ([python.md](python.md#how-the-module-gets-in)).",
    "USER": "Default of `ddprun certs --name`.",
    "TERM": "Not set, or `dumb`: the console shows no colours ([logs.md](logs.md#console)).",
    "NO_COLOR": "Not empty: the console shows no colours.",
    "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "Prefix of the workers' lines on the console ([logs.md](logs.md#console)).",
    "TORCHELASTIC_ERROR_FILE": "In the environment of `ddprun`: file to which it copies the error file of the root cause "
                               "([from-torchrun.md](from-torchrun.md#environment-of-a-worker)).",
    "CUDA_VISIBLE_DEVICES": "GPUs that count ([gpu.md](gpu.md#which-gpus-count)).",
    "SLURM_JOB_ID": f"Job id of a Slurm job {SLURM}.",
    "SLURM_RESTART_COUNT": f"Requeue number of a Slurm job {SLURM}.",
    "SLURM_NODEID": f"Node rank in a Slurm step {SLURM}.",
    "SLURM_STEP_NUM_NODES": f"Number of nodes of a Slurm step {SLURM}.",
    "SLURM_STEP_NODELIST": f"Hosts of a Slurm step. The first one has the rendezvous {SLURM}.",
    "SLURM_STEP_TASKS_PER_NODE": f"Tasks of a Slurm step. Each node must have one {SLURM}.",
    "SLURM_GPUS_ON_NODE": f"Workers per node in a Slurm step {SLURM}.",
    "SLURMD_NODENAME": f"Slurm's name of this node {SLURM}.",
    "SLURM_CONF": "Path of slurm.conf. `AuthInfo` in this file names the socket of [MUNGE](security.md#munge).",
    "JOB_COMPLETION_INDEX": f"Index of a pod in an Indexed Job {POD}.",
    "JOBSET_NAME": f"Name of the JobSet, the first part of the job id {POD}.",
    "JOBSET_UID": f"Uid of the JobSet. Its first letters end the job id {POD}.",
    "JOBSET_RESTART_ATTEMPT": f"Requeue number in a JobSet {POD}.",
    "KUBERNETES_SERVICE_HOST": f"Not empty: this process runs in a pod {POD}.",
    "CREDENTIALS_DIRECTORY": "systemd's folder for `LoadCredential=`. A [token](security.md#a-token) there may have mode 0440.",
    "NOTIFY_SOCKET": "systemd's socket. The rendezvous reports there that it is ready "
                     "([operations.md](operations.md#installing-it)).",
    "GRPC_VERBOSITY": "gRPC's. If it or `GRPC_TRACE` is set, gRPC prints.",
    "GRPC_TRACE": "gRPC's. If it or `GRPC_VERBOSITY` is set, gRPC prints.",
    "DDPRUN_RENDEZVOUS_OUSTED": "Internal: how often in a row another rendezvous has taken over from this one.",
    "DDPRUN_SPEAKER": "Internal, of the Python module: the process that reports for this worker ([python.md](python.md)).",
    "DDP_PROGRESS_PAGE": "`off`: the C++ library reports no progress through shared memory. To measure its cost.",
    "GLOO_SOCKET_IFNAME": "Gloo's network interfaces in the C++ library, separated by commas.",
    "NCCL_HOSTID": "NCCL's. If it is set, a node may have more ranks than GPUs in the C++ library "
                   "([gpu.md](gpu.md#ranks-that-share-a-gpu-with-nccl)).",
    "TORCH_NCCL_BLOCKING_WAIT": NCCL,
    "NCCL_BLOCKING_WAIT": "Older name of `TORCH_NCCL_BLOCKING_WAIT`.",
    "TORCH_NCCL_ENABLE_MONITORING": NCCL,
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": NCCL,
    "TORCH_NCCL_DUMP_ON_TIMEOUT": NCCL,
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": NCCL[:-1] + ". Not if `TORCH_NCCL_DUMP_ON_TIMEOUT` is set.",
}


def is_of_flag(variable):
    prefix, _, rest = variable.partition("_")
    return prefix in ("DDPRUN", "PET") and rest.lower().replace("_", "-") in ddprun_flags()


def read_variable_rows():
    """(name, meaning). The variables of workers are in their own table."""
    of_workers = {name for name, _, _ in variables()}
    for name in sorted(variables_read() - of_workers - READ_VARIABLES.keys()):
        if not is_of_flag(name):
            raise CannotMake(f"{THIS_FILE}: a source reads the variable {name}, and READ_VARIABLES lacks it")
    for name, text in READ_VARIABLES.items():
        if name not in variables_read():
            raise CannotMake(f"{THIS_FILE}: READ_VARIABLES has {name}, and no source reads it")
        yield f"`{name}`", text


def sections():
    """The lines of the sections, from "Variables that ddprun reads" on."""
    return ["", "## Variables that ddprun reads", "",
            "Besides the variables of flags. The worker libraries also read the variables of a worker, above.", "",
            *table("| variable | meaning |", read_variable_rows()),
            "", "## Events", "",
            "`ddprun events` prints them. [jobs.md](jobs.md#events-1) explains the fields, and has those of every event. An",
            "event with `host` also has `agent`.", "",
            *table("| event | when | fields |", event_rows()),
            "", "## Metrics", "",
            "[metrics.md](metrics.md) explains how to scrape them.", "",
            *table("| metric | type | served by | labels | meaning |", metric_rows()),
            "", "## Exit codes", "",
            "[exit-codes.md](exit-codes.md) explains them. The outcome is in the [report](exit-codes.md#--report-file). A row",
            "without an outcome has no report.", "",
            *table("| code | outcome | meaning |", exit_code_rows()),
            "", "### Outcomes", "",
            *table("| outcome | meaning |", outcome_rows()),
            "", "### Exit codes of subcommands", "",
            *table("| code | subcommands | meaning |", command_exit_code_rows())]
