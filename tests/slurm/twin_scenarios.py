"""Slurm requeues a job whose nodes are cut off, and runs it on other nodes, while the old processes still run."""
import json
import os
import re
import struct

from slurm_cluster import ROOT, check, read, wait_until

SPINNER = ("echo life ${SLURM_RESTART_COUNT:-0} generation $DDPRUN_GENERATION: rank $RANK of "
           "$WORLD_SIZE on $(hostname); while [ ! -e stop ]; do sleep 0.05; done")


def _submit(cluster, *words, ddprun=None):
    """Submits a job on three of the four nodes, under the wrapper."""
    script = os.path.join(ROOT, "scripts/ddprun.sbatch")
    output = cluster.slurm("env", "DDPRUN=" + (ddprun or cluster.ddprun()), "sbatch", "--parsable", "--nodes=3",
                           "--output=job.out", script, *words)
    return cluster.job(output.strip())


def _life_of(path):
    """Which life of its job has made this checkpoint, as the checkpoint says."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return int(header["__metadata__"]["ddprun_epoch"])


def twin(cluster):
    """The batch host is cut off. It continues to train alone (the twin), because the job may have one node. Slurm
    starts the job again on the other nodes. From then on the twin saves nothing, and ends by itself. Its script
    does not affect the new life of the job."""
    checkpoints = cluster.path("checkpoints")
    worker = cluster.mnist("--epochs", "100000", "--batch-size", "8", "--checkpoint-every", "20")
    trace = f"exec {' '.join(worker)} --trace-samples trace.${{SLURM_RESTART_COUNT:-0}}"
    job = _submit(cluster, "--nnodes", "1:3", "--checkpoint-dir", checkpoints, "--", "bash", "-c",
                  trace)
    cluster.wait_for_step(30)
    cluster.control("cut", "n1")
    job.wait_for_output(r"generation 1: node 0 of 1, ranks 0-0 of 1")  # the twin continues to train
    cluster.declare_down("n1")
    job.wait_for(Restarts="1")
    job.wait_for_output(r"requeue number 0 of job \d+ is over: it was started again, and .* "
                        r"belongs to requeue number 1")
    wait_until(lambda: not any("ddp" in read(f"/proc/{pid}/comm") for pid in cluster.pids("n1")),
               lambda: f"the twin's end: {cluster.pids('n1')}")
    job.expect_output(r"exit code 77; logs of n1")

    def saved_again():
        try:
            lives = {_life_of(os.path.join(checkpoints, name)) for name in os.listdir(checkpoints)
                     if name.endswith(".safetensors")}
        except FileNotFoundError:  # a newer checkpoint has replaced it
            return False
        return lives == {1}
    wait_until(saved_again, "checkpoints of the next life alone")
    cluster.control("restore", "n1")
    owner = read(os.path.join(checkpoints, "owner"))
    check(re.fullmatch(rf"1 0 {job.id}\nrun=[0-9a-f]{{16}} host=\S+ pid=\d+ started=\d+ machine=\S+ "
                       rf"slurm={job.id} state=held\n", owner), f"the owner of the folder: {owner}")
    resumed = int(re.findall(r"resumes at step (\d+)", job.output())[-1])
    for rank in range(3):
        steps = [int(line.split()[2])
                 for line in read(cluster.path(f"trace.1/rank{rank}.log")).splitlines()]
        check(steps == list(range(resumed + 1, resumed + 1 + len(steps))) and len(steps) > 1,
              f"rank {rank} resumed at {resumed} and made {steps}")
    # Up to the step `resumed`, the steps are those of the first life. It made no later step.
    before = read(cluster.path("trace.0/rank0.log"))
    check({int(line.split()[2]) for line in before.splitlines()} >= set(range(1, resumed + 1)),
          f"steps up to {resumed} are missing:\n{before}")
    # Slurm ends the script of the first life when n1 is back.
    cluster.declare_up("n1")
    wait_until(lambda: not cluster.pids("n1"), lambda: f"left on n1: {cluster.pids('n1')}", 90)
    check(read(cluster.path("trace.0/rank0.log")) == before, "the twin has made more steps")
    shown = job.show()
    check((shown["JobState"], shown["Restarts"]) == ("RUNNING", "1"), shown)
    cluster.slurm("scancel", job.id)
    job.expect_end("CANCELLED", "75:0")
    cluster.expect_nothing_left()


def cut_node(cluster):
    """A node is cut off. Slurm starts the job again without it, and the rendezvous is on the same host as before.
    When the link is back (but not yet to Slurm), the rendezvous refuses the agent of the earlier life."""
    # Slurm passes on nothing that a node prints while it is cut off. So each node writes a report.
    with open(cluster.path("ddprun"), "w", encoding="utf-8") as file:
        file.write("#!/bin/bash\nunset DDPRUN_REPORT\n"
                   f'exec {cluster.ddprun()} --report "$(hostname).json" "$@"\n')
    os.chmod(cluster.path("ddprun"), 0o755)
    job = _submit(cluster, "--", "bash", "-c", SPINNER, ddprun=cluster.path("ddprun"))
    for rank in range(3):
        job.wait_for_output(f"life 0 generation 0: rank {rank} of 3 on n{rank + 1}\n")
    cluster.control("cut", "n3")
    cluster.declare_down("n3")
    for rank, node in enumerate(("n1", "n2", "n4")):
        job.wait_for_output(rf"life 1 generation \d: rank {rank} of 3 on {node}\n")
    check(cluster.pids("n3"), "nothing of the life before is left")
    cluster.control("hide", "n3")
    cluster.control("restore", "n3")
    told = json.loads(wait_until(lambda: read(cluster.path("n3.json")), "the report of n3's agent"))
    check((told["outcome"], told["exit_code"]) == ("refused", 77), told)
    check(re.fullmatch(rf"requeue number 0 of job {job.id} is over: it was started again, as requeue number 1",
                       told["reason"]), told)
    cluster.control("unhide", "n3")
    cluster.declare_up("n3")
    with open(cluster.path("stop"), "w", encoding="utf-8"):
        pass
    job.expect_end("COMPLETED", "0:0")
    check(job.show()["Restarts"] == "1", "it was requeued once more")
    cluster.expect_nothing_left()
