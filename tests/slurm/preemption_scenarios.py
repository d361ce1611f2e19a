"""A job that is warned, preempted, requeued, out of time or cancelled; scripts/ddprun.sbatch runs it."""
import json
import os
import re

import training
from slurm_cluster import NODES, ROOT, check, read

EVERY = 1000  # steps: no checkpoint but those that are asked for
TOTAL = training.steps_of(NODES)


def _submit(cluster, *options, every=EVERY, flags=()):
    """MNIST under the wrapper, with no flag of ddprun but where its checkpoints are."""
    worker = training.worker(cluster, every)
    script = os.path.join(ROOT, "scripts/ddprun.sbatch")
    output = cluster.slurm("env", "DDPRUN=" + cluster.ddprun(), "sbatch", "--parsable",
                           f"--nodes={NODES}", "--output=job.out", *options, script,
                           "--checkpoint-dir", cluster.path("checkpoints"), *flags, "--", *worker)
    return cluster.job(output.strip())


def _report(cluster, job, life=0):
    return json.loads(read(cluster.path(f"slurm-{job.id}.report.{life}.json")))


def _expect_resumed_without_loss(cluster, job, ranks=NODES, lives=2):
    """After a checkpoint that every rank made at the same step, in mid-epoch, the training goes on
    with the next step, and to its end."""
    total = training.steps_of(ranks)
    check(job.show()["Restarts"] == str(lives - 1), f"restarted {job.show()['Restarts']} times")
    check(_report(cluster, job)["outcome"] == "preempted", _report(cluster, job))
    check(_report(cluster, job)["exit_code"] == 75, _report(cluster, job))
    saved = int(re.search(r"the state of step (\d+) is saved", job.output()).group(1))
    check(saved % (total // 2) != 0, f"step {saved} is the end of an epoch")
    job.expect_output(rf"resumes at step {saved} ")
    for rank in range(ranks):
        steps = cluster.steps(rank)
        check(sorted(set(steps)) == list(range(1, total + 1)), f"rank {rank} made {steps}")
        again = [step for step in set(steps) if steps.count(step) > 1]
        # Steps that were made after the one that was agreed on, until all had stopped.
        check(all(step > saved for step in again), f"rank {rank}: {again} were made again")
    training.expect_accuracy(job)
    cluster.expect_nothing_left()


def warning(cluster):
    """USR1 to the script, as --signal=B:USR1@120 sends it: one checkpoint, requeue, resume."""
    job = _submit(cluster)
    cluster.wait_for_step(20)
    cluster.slurm("scancel", "--batch", "--signal=USR1", job.id)
    job.wait_for(Restarts="1")
    job.expect_end("COMPLETED", "0:0")
    _expect_resumed_without_loss(cluster, job)


def preemption(cluster):
    """SIGTERM to every process of the steps, as Slurm preempts: the same, though the script is not
    told."""
    job = _submit(cluster)
    cluster.wait_for_step(20)
    cluster.slurm("scancel", "--signal=TERM", job.id)
    job.expect_end("COMPLETED", "0:0")
    _expect_resumed_without_loss(cluster, job)


def preemption_with_a_spare(cluster):
    """The same with a node that waits as a spare, which only goes: its end is not the job's."""
    job = _submit(cluster, flags=("--nnodes", "3"))
    job.wait_for_output("this one waits as a spare")
    cluster.wait_for_step(20)
    cluster.slurm("scancel", "--signal=TERM", job.id)
    job.wait_for(Restarts="1")
    job.expect_end("COMPLETED", "0:0")
    _expect_resumed_without_loss(cluster, job, 3)


def preemption_of_a_range(cluster):
    """The same where the job could go on with fewer nodes: all of them are told, so it is saved once,
    and nothing is formed in between."""
    job = _submit(cluster, flags=("--nnodes", "1:4"))
    cluster.wait_for_step(20)
    cluster.slurm("scancel", "--signal=TERM", job.id)
    job.wait_for(Restarts="1")
    job.expect_end("COMPLETED", "0:0")
    _expect_resumed_without_loss(cluster, job)
    check("generation 1:" not in job.output(), "a generation was formed in between")


def preemption_at_the_start(cluster):
    """Of a job that was requeued, before its workers have come to a step: it is requeued again, for what
    there is on the disk is not lost."""
    job = _submit(cluster)
    cluster.wait_for_step(20)
    cluster.slurm("scancel", "--signal=TERM", job.id)
    job.wait_for(Restarts="1")
    job.wait_for(JobState="RUNNING")
    job.wait_for_output(r"(?s)goes back to the queue.*starting the rendezvous there")
    cluster.slurm("scancel", "--signal=TERM", job.id)
    job.wait_for(Restarts="2")
    job.expect_end("COMPLETED", "0:0")
    check(_report(cluster, job, 1)["outcome"] == "preempted", _report(cluster, job, 1))
    _expect_resumed_without_loss(cluster, job, lives=3)


def requeue(cluster):
    """`scontrol requeue`: Slurm ends the job, and KillWait (5 s) is enough for a checkpoint."""
    job = _submit(cluster)
    cluster.wait_for_step(20)
    cluster.slurm("scontrol", "requeue", job.id)
    job.expect_end("COMPLETED", "0:0")
    _expect_resumed_without_loss(cluster, job)


def cancel(cluster):
    """`scancel` is the user's: it is not requeued, and its report says what was saved."""
    job = _submit(cluster)
    cluster.wait_for_step(20)
    cluster.slurm("scancel", job.id)
    job.expect_end("CANCELLED", "75:0")
    cluster.expect_nothing_left()
    check(job.show()["Restarts"] == "0", "it was requeued")
    told = _report(cluster, job)
    check(told["outcome"] == "preempted", told)
    saved = int(re.search(r"the state of step (\d+) is saved", told["reason"]).group(1))
    check(20 <= saved <= TOTAL // 2, f"step {saved} was not in mid-epoch")
    check(os.path.exists(cluster.path(f"checkpoints/step-{saved:012d}.safetensors")), told)


def too_short_a_warning(cluster):
    """There is no time for a checkpoint: the job resumes from the last one, or from a later state in the
    memory of the node, where Slurm starts it there again."""
    job = _submit(cluster, every=10, flags=("--save-timeout", "0s"))
    cluster.wait_for_step(25)
    cluster.slurm("scancel", "--batch", "--signal=USR1", job.id)
    job.expect_end("COMPLETED", "0:0")
    lives = training.runs(cluster)
    check(len(lives) == 2, f"{len(lives)} lives")
    last = int(re.search(r"the last one is of step (\d+)", job.output()).group(1))
    check(last < lives[1][0] <= lives[0][-1] + 1, f"resumed with step {lives[1][0]}, not after {last}")
    check(lives[1][-1] == TOTAL, f"ended with step {lives[1][-1]}")
    cluster.expect_nothing_left()


def another_life(cluster):
    """A script that is left of another life of the job, as its restart count tells, does not put the job
    back into the queue, whatever its own part was."""
    with open(cluster.path("preempted"), "w", encoding="utf-8") as file:
        file.write("#!/bin/bash\necho '  \"outcome\": \"preempted\",' >\"$DDPRUN_REPORT\"\nexit 75\n")
    os.chmod(cluster.path("preempted"), 0o755)
    script = os.path.join(ROOT, "scripts/ddprun.sbatch")
    job = cluster.submit(f"export DDPRUN=./preempted SLURM_RESTART_COUNT=1; exec {script}\n")
    job.expect_end("FAILED", "75:0")
    check(job.show()["Restarts"] == "0", "it was requeued")


def time_limit(cluster):
    """Slurm's own warning before the time limit, of a training that would go on for ever: one
    checkpoint, requeue, and the next life makes 30 steps more."""
    worker = " ".join(cluster.mnist("--epochs", "100000", "--batch-size", "8",
                                    "--checkpoint-every", str(EVERY * TOTAL)))
    command = (f"last=$(ls checkpoints | sed -n 's/^step-0*\\([0-9]*\\).*/\\1/p' | tail -n 1); "
               f"exec {worker} --max-steps $((last ? last + 30 : 0))")
    script = os.path.join(ROOT, "scripts/ddprun.sbatch")
    # Slurm looks every 30 s whether it is time for a warning, and gives it that much earlier.
    output = cluster.slurm("env", "DDPRUN=" + cluster.ddprun(), "sbatch", "--parsable", "--time=1",
                           "--signal=B:USR1@10", f"--nodes={NODES}", "--output=job.out", script,
                           "--checkpoint-dir", cluster.path("checkpoints"), "--", "bash", "-c",
                           command)
    job = cluster.job(output.strip())
    job.expect_end("COMPLETED", "0:0", 150)
    saved = int(re.search(r"the state of step (\d+) is saved", job.output()).group(1))
    job.expect_output(rf"resumes at step {saved} ")
    for rank in range(NODES):
        lives = training.runs(cluster, rank)
        check(lives[-1][-1] == saved + 30 and len(lives) <= 2, f"rank {rank} made {lives[-1]}")
        check(saved in lives[0] and saved + 1 in lives[-1], f"rank {rank}: {saved} of {lives}")
    training.expect_accuracy(job)
    check(job.show()["Restarts"] == "1", "requeued once")
    cluster.expect_nothing_left()
