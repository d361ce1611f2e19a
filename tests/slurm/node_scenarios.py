"""Nodes that lose their power."""
from slurm_cluster import check

JOB = """
command: [bash, -c, 'echo life ${{SLURM_RESTART_COUNT:-0}} generation $DDPRUN_GENERATION: rank $RANK
  of $WORLD_SIZE on $(hostname); while [ ! -e stop ]; do sleep 0.05; done']
slurm: {{nodes: 3, spare_nodes: {spares}}}
"""


def _submit(cluster, spares):
    with open(cluster.path("job.yaml"), "w", encoding="utf-8") as file:
        file.write(JOB.format(spares=spares))
    output = cluster.slurm(cluster.ddprun(), "slurm", "job.yaml", "--", "--parsable",
                           "--output=job.out")
    job = cluster.job(output.strip())
    hosts = [job.wait_for_output(rf"life 0 generation 0: rank {rank} of 3 on (n\d)\n").group(1)
             for rank in range(3)]
    return job, hosts


def _end_well(cluster, job, nodes):
    with open(cluster.path("stop"), "w", encoding="utf-8"):
        pass
    job.expect_end("COMPLETED", "0:0")
    cluster.expect_nothing_left(nodes)


def crash_with_a_spare(cluster):
    """A node with a rank loses its power: the spare takes its place; no restart is spent, and the job
    is not requeued."""
    job, hosts = _submit(cluster, spares=1)
    job.wait_for_output("this one waits as a spare")
    spare = ({"n1", "n2", "n3", "n4"} - set(hosts)).pop()
    cluster.control("crash", hosts[2])
    for rank, node in enumerate((hosts[0], hosts[1], spare)):
        job.wait_for_output(f"life 0 generation 1: rank {rank} of 3 on {node}\n")
    _end_well(cluster, job, [int(node[1]) for node in (hosts[0], hosts[1], spare)])
    check(job.show()["Restarts"] == "0", "it was requeued")


def crash_of_the_batch_host(cluster):
    """The node with the script, rank 0 and the rendezvous loses its power, and there is no spare:
    Slurm puts the job back into the queue, and it starts on other nodes."""
    job, _ = _submit(cluster, spares=0)
    cluster.control("crash", "n1")
    for rank in range(3):
        job.wait_for_output(f"life 1 generation 0: rank {rank} of 3 on n{rank + 2}\n")
    _end_well(cluster, job, (2, 3, 4))
    check(job.show()["Restarts"] == "1", f"restarted {job.show()['Restarts']} times")
