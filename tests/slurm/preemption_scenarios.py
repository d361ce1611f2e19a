"""A job that scripts/ddprun.sbatch runs is warned, preempted, requeued, out of time or cancelled."""
import json
import os
import re

import training
from slurm_cluster import NODES, ROOT, check, read

EVERY = 1000  # steps: no checkpoint except the requested ones
TOTAL = training.steps_of(NODES)


def _submit(cluster, *options, every=EVERY, flags=()):
    """MNIST under the wrapper. The only flag of ddprun is the folder of the checkpoints."""
    worker = training.worker(cluster, every)
    script = os.path.join(ROOT, "scripts/ddprun.sbatch")
    output = cluster.slurm("env", "DDPRUN=" + cluster.ddprun(), "sbatch", "--parsable",
                           f"--nodes={NODES}", "--output=job.out", *options, script,
                           "--checkpoint-dir", cluster.path("checkpoints"), *flags, "--", *worker)
    return cluster.job(output.strip())


def _report(cluster, job, life=0):
    return json.loads(read(cluster.path(f"slurm-{job.id}.report.{life}.json")))


def _expect_resumed_without_loss(cluster, job, ranks=NODES, lives=2):
    """Every rank made a checkpoint at the same step, in mid-epoch. The training continues with the next
    step, and to its end."""
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
        # Between the agreed step and the stop of all ranks, a rank may have made further steps.
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
    """SIGTERM to every process of the steps, as Slurm does when it preempts. The result is the same, but
    the script gets no signal."""
    job = _submit(cluster)
    cluster.wait_for_step(20)
    cluster.slurm("scancel", "--signal=TERM", job.id)
    job.expect_end("COMPLETED", "0:0")
    _expect_resumed_without_loss(cluster, job)


def preemption_with_a_spare(cluster):
    """A preemption with a node that waits as a spare. The spare ends; this does not end the job."""
    job = _submit(cluster, flags=("--nnodes", "3"))
    job.wait_for_output("this one waits as a spare")
    cluster.wait_for_step(20)
    cluster.slurm("scancel", "--signal=TERM", job.id)
    job.wait_for(Restarts="1")
    job.expect_end("COMPLETED", "0:0")
    _expect_resumed_without_loss(cluster, job, 3)


def preemption_of_a_range(cluster):
    """A preemption of a job that could continue with fewer nodes. All nodes get the signal, so the job saves
    once, and no generation forms in between."""
    job = _submit(cluster, flags=("--nnodes", "1:4"))
    cluster.wait_for_step(20)
    cluster.slurm("scancel", "--signal=TERM", job.id)
    job.wait_for(Restarts="1")
    job.expect_end("COMPLETED", "0:0")
    _expect_resumed_without_loss(cluster, job)
    check("generation 1:" not in job.output(), "a generation was formed in between")


def preemption_at_the_start(cluster):
    """A requeued job is preempted before its workers have made a step. It is requeued again, because its
    checkpoint on disk is not lost."""
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
    """The user cancels the job (`scancel`): it is not requeued, and its report says what was saved."""
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
    """There is no time for a checkpoint. The job resumes from the last checkpoint. If Slurm starts it on the
    same node, it may resume from a later state in the node's memory."""
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
    """A script of another life of the job still runs; its restart count shows this. It does not put the job
    back into the queue, although its ddprun was preempted."""
    with open(cluster.path("preempted"), "w", encoding="utf-8") as file:
        file.write("#!/bin/bash\necho '  \"outcome\": \"preempted\",' >\"$DDPRUN_REPORT\"\nexit 75\n")
    os.chmod(cluster.path("preempted"), 0o755)
    script = os.path.join(ROOT, "scripts/ddprun.sbatch")
    job = cluster.submit(f"export DDPRUN=./preempted SLURM_RESTART_COUNT=1; exec {script}\n")
    job.expect_end("FAILED", "75:0")
    check(job.show()["Restarts"] == "0", "it was requeued")


def time_limit(cluster):
    """Slurm itself warns a training that would run for ever before its time limit: one checkpoint,
    requeue, and the next life makes 30 more steps."""
    worker = " ".join(cluster.mnist("--epochs", "100000", "--batch-size", "8",
                                    "--checkpoint-every", str(EVERY * TOTAL)))
    command = (f"last=$(ls checkpoints | sed -n 's/^step-0*\\([0-9]*\\).*/\\1/p' | tail -n 1); "
               f"exec {worker} --max-steps $((last ? last + 30 : 0))")
    script = os.path.join(ROOT, "scripts/ddprun.sbatch")
    # Slurm looks every 30 s whether to send the warning, so it sends the warning up to 30 s earlier.
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
