#!/usr/bin/python3
"""How long a training step takes with ddp::DistributedDataParallel, with Python's DistributedDataParallel, and with
simpler methods.

Two ranks run on this machine under ddprun, with Gloo over the loopback device, one thread each, and batches of 64 for
each rank. All contestants use SGD, the same data and the same start, and reset the gradients before each step. Equal
losses after the last step show that contestants computed the same. (On a GPU the losses are only about equal, because
a GPU adds in a changing order.) A round is one job of each contestant; the order of the contestants changes from round
to round. The result of a job is the median of its steps after the warm-up. The table has the median and the extremes
over the rounds. A ratio in the table is the median of the ratios of the rounds, because a disturbance usually affects
both contestants of a round.

Contestants (view: with gradient_as_bucket_view):
  C++ ddp, ddp view        this library
  Python ddp, ddp view     torch.nn.parallel.DistributedDataParallel of python3-torch 1.13, which
                           uses the same libtorch
  C++ naive                one all_reduce for each parameter after backward
  C++ master               gradients gathered on rank 0, averaged there, and sent back
  C++ compute              no communication; two ranks, each on its own
  C++ single               the same in one process alone
  C++ fp16, bf16, PowerSGD with that communication hook; PowerSGD of rank 1
  C++ no page              C++ ddp without its progress page, which the agent watches for hangs

usage: tests/bench/ddp_bench.py [--models mnist,mlp-3m,mlp-25m] [--rounds N] [--bin build/bin]
           [--ddprun PATH] [--python PATH] [--ranks N] [--backend gloo|nccl] [--device cpu|cuda]
           [--only ddp|page]
--only ddp: only C++ ddp and Python's. No goals, because the goals are for two ranks on a CPU with Gloo.
--only page: only C++ ddp and C++ no page, with their goal for mlp-3m.
Needs python3-torch, or a torch that the Python of --python can import. Exit code 1 if a goal is missed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON_WORKER = os.path.join(HERE, "ddp_bench_worker.py")
ALL = None  # as many processes as there are ranks

# (warm-up, measured) steps of a job. Buckets are made anew before the second step.
STEPS = {"mnist": (10, 100), "mlp-3m": (5, 30), "mlp-25m": (3, 7)}

# name: (language, contestant of the worker, processes)
CONTESTANTS = {
    "C++ ddp": ("cpp", "ddp", ALL),
    "Python ddp": ("python", "ddp", ALL),
    "C++ ddp view": ("cpp", "ddp-view", ALL),
    "Python ddp view": ("python", "ddp-view", ALL),
    "C++ naive": ("cpp", "naive", ALL),
    "C++ master": ("cpp", "master", ALL),
    "C++ compute": ("cpp", "compute", ALL),
    "C++ single": ("cpp", "compute", 1),
    "C++ fp16": ("cpp", "fp16", ALL),
    "C++ bf16": ("cpp", "bf16", ALL),
    "C++ PowerSGD": ("cpp", "power-sgd", ALL),
    "C++ no page": ("cpp", "ddp", ALL),
}
WITHOUT_PAGE = "C++ no page"
ALONE = ("C++ compute", "C++ single")  # their loss is that of their own data
COMPRESSED = ("C++ fp16", "C++ bf16", "C++ PowerSGD")  # their loss is not exact

OURS, PYTHONS = ("C++ ddp", "C++ ddp view"), ("Python ddp", "Python ddp view")


def run_job(arguments, model, name):
    """What rank 0 prints in one job; ends the program when the job fails."""
    language, contestant, ranks = CONTESTANTS[name]
    worker = ([arguments.python, PYTHON_WORKER] if language == "python"
              else [os.path.join(arguments.bin, "ddp_bench_worker")])
    warmup, steps = STEPS[model]
    ddprun = arguments.ddprun or os.path.join(arguments.bin, "ddprun")
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                       GLOO_SOCKET_IFNAME="lo")
    if name == WITHOUT_PAGE:
        environment["DDP_PROGRESS_PAGE"] = "off"
    with tempfile.TemporaryDirectory() as logs:
        job = subprocess.run(
            [ddprun, "--log-dir", logs, "--nproc-per-node", str(ranks or arguments.ranks),
             "--"] + worker +
            [model, contestant, str(warmup), str(steps), arguments.backend, arguments.device],
            env=environment, capture_output=True, text=True, timeout=300)
    lines = [line for line in job.stdout.splitlines() if '{"steps_ms"' in line]
    if job.returncode != 0 or len(lines) != 1:
        sys.exit(f"{name}, {model}: exit code {job.returncode}\n{job.stdout}{job.stderr}")
    return json.loads(lines[0][lines[0].index("{"):])


def check_same(model, turns, tolerance):
    """Ends the program unless all contestants have the same loss."""
    losses = {name: turns[name][-1]["loss"] for name in turns
              if name not in ALONE + COMPRESSED}
    right = losses["C++ ddp"]
    if any(abs(loss - right) > tolerance * abs(right) for loss in losses.values()):
        sys.exit(f"{model}: not the same training: {losses}")


def measure(arguments, model):
    """{contestant: its results, one for each round}"""
    only = {None: CONTESTANTS, "ddp": OURS + PYTHONS, "page": ("C++ ddp", WITHOUT_PAGE)}
    names = [name for name in CONTESTANTS if name in only[arguments.only]]
    turns = {name: [] for name in names}
    for i in range(arguments.rounds):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            turn = run_job(arguments, model, name)
            turn["ms"] = statistics.median(turn["steps_ms"])
            turns[name].append(turn)
        check_same(model, turns, 1e-5 if arguments.device == "cpu" else 1e-2)
        print(f"{model}: round {i + 1} of {arguments.rounds}", file=sys.stderr)
    return turns


def ratio(turns, above, below):
    """The median of the rounds' ratios. In each round, the better contestant of a side counts."""
    def best(names, i):
        return min(turns[name][i]["ms"] for name in names)
    return statistics.median(best(above, i) / best(below, i) for i in range(len(turns[above[0]])))


def undisturbed_ratio(turns, above, below):
    """The ratio of undisturbed steps: of the 10th percentiles of each side's steps in all rounds. It
    shows a difference that is smaller than the difference between two rounds."""
    def quick(name):
        return statistics.quantiles([step for turn in turns[name] for step in turn["steps_ms"]],
                                    n=10)[0]
    return quick(above) / quick(below)


def print_table(model, turns):
    parameters = turns["C++ ddp"][0]["parameters"]
    print(f"{model}, {parameters:,} parameters; {len(turns['C++ ddp'])} rounds of "
          f"{STEPS[model][1]} steps")
    print(f"    {'':18} {'ms/step':>9} {'min':>9} {'max':>9} {'× C++ ddp':>10}   "
          "communication hidden")
    plain = turns["C++ ddp"][0]["sent_bytes"]
    for name, measured in turns.items():
        times = [turn["ms"] for turn in measured]
        comm = statistics.median(turn["comm_ms"] for turn in measured)
        hidden = statistics.median(turn["hidden_ms"] for turn in measured)
        share = f"{hidden / comm:6.0%} of {comm:.2f} ms" if comm > 0 else ""
        print(f"    {name:18} {statistics.median(times):9.3f} {min(times):9.3f} {max(times):9.3f} "
              f"{ratio(turns, [name], ['C++ ddp']):10.2f}   {share}")
    for name in ("C++ ddp",) + COMPRESSED:
        if name not in turns or not plain:
            continue
        sent = turns[name][0]["sent_bytes"]
        print(f"    {name:18} sends {sent:12,} bytes per step and rank, × {sent / plain:.3f}")


def check_goals(arguments, model, turns):
    """Prints each goal with the measured value; True if all goals are met."""
    limit = 0.85 if model == "mnist" else 1.0
    goals = []
    if arguments.only != "ddp" and model == "mlp-3m":
        goals.append(("C++ ddp / C++ no page, undisturbed",
                      undisturbed_ratio(turns, OURS[0], WITHOUT_PAGE), "<=", 1.01))
    goals += [] if arguments.only else [
        ("C++ ddp / Python ddp", ratio(turns, OURS[:1], PYTHONS[:1]), "<=", limit),
        ("C++ ddp view / Python ddp view", ratio(turns, OURS[1:], PYTHONS[1:]), "<=", limit),
        ("better of C++ / better of Python", ratio(turns, OURS, PYTHONS), "<=", limit),
        ("C++ naive / C++ ddp", ratio(turns, ["C++ naive"], OURS[:1]), ">=", 1.1),
    ]
    met = True
    for what, value, sign, bound in goals:
        good = value <= bound if sign == "<=" else value >= bound
        met = met and good
        print(f"    {what:34} {value:6.3f}  {sign} {bound:<5} {'PASS' if good else 'FAIL'}")
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--models", default=",".join(STEPS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ddprun", help="default: that of --bin")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", default="gloo", choices=["gloo", "nccl"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", choices=["ddp", "page"])
    arguments = parser.parse_args()
    met = True
    for model in arguments.models.split(","):
        turns = measure(arguments, model)
        print_table(model, turns)
        met = check_goals(arguments, model, turns) and met
        sys.stdout.flush()
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
