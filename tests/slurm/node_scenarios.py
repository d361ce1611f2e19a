"""Nodes that lose their power."""
import json

import training
from slurm_cluster import check

RANKS = 3
EVERY = 20  # steps between two checkpoints
SCRIPT = ("echo life ${SLURM_RESTART_COUNT:-0} generation $DDPRUN_GENERATION: rank $RANK of $WORLD_SIZE "
          'on $(hostname); exec "$@"')


def _submit(cluster, spares, *options, samples=training.SAMPLES, **keys):
    """Starts MNIST. Waits until it is in its first epoch, some steps after a checkpoint. Returns the job and
    the host of each rank."""
    job_file = {**keys,
                "command": ["bash", "-c", SCRIPT, "train", *training.worker(cluster, EVERY, samples)],
                "checkpoint_dir": "checkpoints", "rendezvous": {"daemon_grace": "3s"},
                "slurm": {"nodes": RANKS, "spare_nodes": spares}}
    with open(cluster.path("job.yaml"), "w", encoding="utf-8") as file:
        json.dump(job_file, file)  # JSON is YAML
    output = cluster.slurm(cluster.ddprun(), "slurm", "job.yaml", "--", "--parsable",
                           "--output=job.out", *options)
    job = cluster.job(output.strip())
    hosts = [job.wait_for_output(rf"life 0 generation 0: rank {rank} of {RANKS} on (n\d)\n").group(1)
             for rank in range(RANKS)]
    cluster.wait_for_step(EVERY + 5)
    return job, hosts


def _end_well(cluster, job, nodes, samples=training.SAMPLES):
    job.expect_end("COMPLETED", "0:0")
    training.expect_interrupted(cluster, job, RANKS, 1, repeated=EVERY + 10,
                                samples=samples)
    cluster.expect_nothing_left(nodes)


def crash_with_a_spare(cluster):
    """A node with a rank loses its power. The spare takes its place; no restart is spent, and the job
    is not requeued."""
    job, hosts = _submit(cluster, 1)
    job.wait_for_output("this one waits as a spare")
    spare = ({"n1", "n2", "n3", "n4"} - set(hosts)).pop()
    cluster.control("crash", hosts[2])
    job.wait_for_output(f"life 0 generation 1: rank 2 of 3 on {spare}\n")
    for rank in range(2):  # the processes of the other ranks stay
        job.wait_for_output(f"generation 1: node {rank} of 3, ranks {rank}-{rank} of 3")
    cluster.declare_down(hosts[2])
    _end_well(cluster, job, [int(node[1]) for node in (hosts[0], hosts[1], spare)])
    check(job.show()["Restarts"] == "0", "it was requeued")


def crash_in_a_range(cluster):
    """A node loses its power, and the job may continue with two nodes. It does so, from the last state."""
    job, _ = _submit(cluster, 0, "--nodes=3", nodes="2:3")
    cluster.control("crash", "n3")
    for rank in range(2):
        job.wait_for_output(f"generation 1: node {rank} of 2, ranks {rank}-{rank} of 2")
    cluster.declare_down("n3")
    job.expect_end("COMPLETED", "0:0")
    for rank in range(2):
        before, after = training.runs(cluster, rank)
        # A step that one of the ranks had finished is not repeated.
        check(EVERY <= after[0] - 1 <= before[-1] + 1, f"rank {rank} went on with {after[0]}: {before[-1]}")
    training.expect_accuracy(job)
    cluster.expect_nothing_left((1, 2))
    check(job.show()["Restarts"] == "0", "it was requeued")


def crash_of_the_batch_host_with_a_spare(cluster):
    """The batch host loses its power, and the job may lose nodes. Slurm lets the job continue, without its
    script and without a rendezvous. The remaining nodes put the job back into the queue."""
    # If n1 is the spare, the ranks train until the daemon's grace time is over.
    samples = 3 * training.SAMPLES
    job, _ = _submit(cluster, 1, samples=samples)
    cluster.control("crash", "n1")
    cluster.declare_down("n1")
    job.wait_for(Restarts="1")
    # The job asks for four nodes.
    cluster.control("boot", "n1")
    cluster.declare_up("n1")
    for rank in range(RANKS):
        job.wait_for_output(rf"life 1 generation \d: rank {rank} of 3 on n\d\n")
    _end_well(cluster, job, (1, 2, 3, 4), samples)
    check(job.show()["Restarts"] == "1", f"restarted {job.show()['Restarts']} times")


def crash_of_the_batch_host(cluster):
    """The node with the script, rank 0 and the rendezvous loses its power, and there is no spare.
    Slurm puts the job back into the queue, and it starts on other nodes."""
    job, _ = _submit(cluster, 0)
    cluster.control("crash", "n1")
    for rank in range(RANKS):
        job.wait_for_output(f"life 1 generation 0: rank {rank} of 3 on n{rank + 2}\n")
    _end_well(cluster, job, (2, 3, 4))
    check(job.show()["Restarts"] == "1", f"restarted {job.show()['Restarts']} times")


def crash_without_a_spare(cluster):
    """A node without the script loses its power, and there is no spare. Slurm puts the job back into the
    queue, and it continues on other nodes from its last checkpoint."""
    job, _ = _submit(cluster, 0)
    cluster.control("crash", "n3")
    cluster.declare_down("n3")
    for rank, node in enumerate(("n1", "n2", "n4")):
        job.wait_for_output(f"life 1 generation 0: rank {rank} of 3 on {node}\n")
    _end_well(cluster, job, (1, 2, 4))
    check(job.show()["Restarts"] == "1", f"restarted {job.show()['Restarts']} times")


# On n3 every worker fails, after the other workers have reported a checkpoint.
FAILS_ON_N3 = """
import os, socket, sys, time
agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
host = socket.gethostname()
print("life", os.environ["DDPRUN_EPOCH"], "rank", os.environ["RANK"], "on", host, flush=True)
if host == "n3":
    while not os.path.exists("told"):
        time.sleep(0.05)
    sys.exit(3)
with open("state", "w") as file:
    file.write("x")
agent.send(b"STEP=7")
agent.send(b"CHECKPOINT=7 " + os.path.abspath("state").encode())
with open("told", "w") as file:
    file.write("x")
while not os.path.exists("stop"):
    time.sleep(0.05)
"""
QUARANTINE = """
command: [worker.py]
restart: {max_restarts: 10, quarantine: 2}
slurm: {nodes: 3}
"""


def quarantine(cluster):
    """Workers on one node fail twice. Too few nodes are left, so the job goes back to the queue, and Slurm does
    not start it on that node again."""
    for name, text in (("worker.py", FAILS_ON_N3), ("job.yaml", QUARANTINE)):
        with open(cluster.path(name), "w", encoding="utf-8") as file:
            file.write(text)
    output = cluster.slurm(cluster.ddprun(), "slurm", "job.yaml", "--", "--parsable",
                           "--output=job.out")
    job = cluster.job(output.strip())
    for node in ("n1", "n2", "n4"):
        job.wait_for_output(rf"life 1 rank \d on {node}\n")
    job.expect_output(r"n3 is left out, for its workers were the root cause 2 times within 3600 s, "
                      r"and 2 nodes of at least 3 remain; the last checkpoint is of step 7")
    with open(cluster.path("stop"), "w", encoding="utf-8"):
        pass
    job.expect_end("COMPLETED", "0:0")
    cluster.expect_nothing_left()
    shown = job.show()
    check((shown["Restarts"], shown["ExcNodeList"]) == ("1", "n3"), shown)
