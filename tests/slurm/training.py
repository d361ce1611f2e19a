"""A training whose step log shows where it was interrupted, and from which step it continued."""
import os
import re

from slurm_cluster import check, read, wait_until

SAMPLES = 3000
BATCH = 4
EPOCHS = 2


def steps_of(nodes, samples=SAMPLES):
    """The number of steps of the whole training with this number of nodes and one rank on each."""
    return EPOCHS * -(-samples // (nodes * BATCH))


# Without the line "started", two lives of generation 0 with consecutive steps would look like one.
SCRIPT = """#!/bin/sh
mkdir -p steps
echo started >>steps/rank$RANK.log
exec "$@"
"""


def worker(cluster, every, samples=SAMPLES):
    """The command of a worker: MNIST. An epoch takes about 3 s, so that every signal comes in mid-epoch."""
    script = cluster.path("train.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write(SCRIPT)
    os.chmod(script, 0o755)
    return [script] + cluster.mnist("--epochs", str(EPOCHS), "--batch-size", str(BATCH),
                         "--checkpoint-every", str(every), train=samples)


def runs(cluster, rank=0):
    """The steps that this rank made: one list for each time that it was started."""
    lists = []
    generation = None
    for line in read(cluster.path(f"steps/rank{rank}.log")).splitlines():
        if line == "started":
            generation = None
            continue
        now, step = (int(word) for word in line.split()[0:3:2])
        if now != generation or step <= lists[-1][-1]:
            lists.append([])
        lists[-1].append(step)
        generation = now
    return lists


def wait_for_run(cluster, number, rank=0):
    """Waits until this rank was interrupted this many times and then made a step."""
    wait_until(lambda: len(runs(cluster, rank)) > number, lambda: f"{number} interruptions")


def expect_accuracy(job, least=0.85):
    accuracy = float(re.findall(r"test accuracy ([\d.]+)", job.output())[-1])
    check(accuracy > least, f"accuracy {accuracy}")


def expect_interrupted(cluster, job, nodes, times, repeated, samples=SAMPLES):
    """Every rank was interrupted `times` times, in mid-epoch. Each time it continued from a state, not from the
    start. It repeated at most `repeated` steps and left out none. A rank that was killed may not have logged its
    last step. If another rank has finished that step, no rank repeats it."""
    total = steps_of(nodes, samples)
    ranks = [runs(cluster, rank) for rank in range(nodes)]
    for rank, lists in enumerate(ranks):
        check(len(lists) == times + 1, f"rank {rank} started {len(lists)} times: {lists}")
        made = {step for steps in lists for step in steps}
        for before, after, all_before in zip(lists, lists[1:], zip(*ranks)):
            newest = max(steps[-1] for steps in all_before)
            check(newest <= before[-1] + 1, f"rank {rank} ended with {before[-1]}, another with {newest}")
            check(before[-1] % (total // EPOCHS) != 0, f"step {before[-1]} is the end of an epoch")
            check(before[-1] - repeated < after[0] <= newest + 1 and after[0] > 1,
                  f"rank {rank} went on with {after[0]} after {before[-1]}, others after {newest}")
            made.add(newest)
        check(made == set(range(1, total + 1)), f"rank {rank} made {sorted(made)} of {total}")
    expect_accuracy(job)
