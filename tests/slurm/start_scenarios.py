"""`srun ddprun COMMAND` without any flag, and what happens when its processes are killed."""
import re

import training
from slurm_cluster import NODES, check, read


def zero_flags(cluster):
    """MNIST on four nodes with one worker each: it trains, and ranks follow SLURM_NODEID."""
    worker = ["bash", "-c", "'echo node $SLURM_NODEID on $(hostname): rank $RANK of $WORLD_SIZE, "
              "group rank $GROUP_RANK, epoch $TORCHELASTIC_RUN_ID; exec \"$@\"'", "mnist",
              *cluster.mnist("--epochs", "1", "--batch-size", "8", train=6000)]
    job = cluster.submit(f"srun {cluster.ddprun()} {' '.join(worker)}\n")
    job.expect_end("COMPLETED", "0:0")
    for node in range(NODES):
        job.expect_output(rf"node {node} on n{node + 1}: rank {node} of {NODES}, "
                          rf"group rank {node}, epoch {job.id}\n")
    accuracy = float(re.search(r"test accuracy ([\d.]+)", job.output()).group(1))
    check(accuracy > 0.9, f"accuracy {accuracy}")
    cluster.expect_nothing_left()


def taken_port(cluster):
    """Another program listens on the port that follows from the job's id, and answers nobody."""
    job = cluster.submit(f"""
python3 -c '
import os, socket
listener = socket.create_server(("", 10000 + int(os.environ["SLURM_JOB_ID"]) % 5000 * 4))
print("taken", flush=True)
listener.accept()[0].recv(1)
while True: listener.accept()' &
while ! grep -q taken job.out; do :; done
srun {cluster.ddprun()} --rdzv-conf connect_timeout=100 -- bash -c 'echo rank $RANK'
ended=$?
kill $!
exit $ended
""")
    job.expect_end("COMPLETED", "0:0")
    for rank in range(NODES):
        job.expect_output(rf"rank {rank}\n")
    cluster.expect_nothing_left()


def munged_away(cluster):
    """No munged listens on the socket that the job uses: every node ends within 2 s and says why. (The default
    socket is that of AuthInfo in slurm.conf; nobody listens on MUNGE's default socket on these nodes.)"""
    # Four starts at once on a busy machine may take longer, so one of three jobs has to be in time.
    took = []
    while not (took and max(took[-1]) < 2000):
        check(len(took) < 3, f"{took} ms")
        took.append(_without_munged(cluster))


def _without_munged(cluster):
    """Runs a job without munged. Returns how long each node's ddprun ran, in ms."""
    job = cluster.submit(f"""srun --wait=0 --kill-on-bad-exit=0 bash -c '
began=${{EPOCHREALTIME/./}}
{cluster.ddprun()} --munge-socket /nowhere true
code=$?
echo node $SLURM_NODEID: code $code, $(( (${{EPOCHREALTIME/./}} - began) / 1000 )) ms
exit $code'
""")
    job.expect_end("FAILED", "77:0")
    took = [int(ms) for ms in re.findall(r"node \d: code 77, (\d+) ms", job.output())]
    check(len(took) == NODES, job.output())
    for node in range(NODES):
        job.expect_output(rf"munged does not run on n{node + 1}, or its socket is not /nowhere")
    check(job.output().count("starting the rendezvous there") <= 1, "on one port")
    cluster.expect_nothing_left()
    return took


def several_tasks_on_a_node(cluster):
    """Each task would be a ddprun of its own. ddprun refuses this, and says what to write instead."""
    job = cluster.submit(f"srun --ntasks-per-node=2 {cluster.ddprun()} true\n", "--ntasks-per-node=2")
    job.expect_end("FAILED", "64:0")
    job.expect_output(r"srun --ntasks-per-node=1 ddprun --nproc-per-node N COMMAND")


def different_nodes(cluster):
    """Nodes with different numbers of GPUs. Each node learns its number from Slurm."""
    job = cluster.submit("srun bash -c 'export SLURM_GPUS_ON_NODE=$((SLURM_NODEID % 2 + 1)); exec "
                         f"{cluster.ddprun()} bash -c \"echo rank \\$RANK of \\$WORLD_SIZE, "
                         "local \\$LOCAL_RANK of \\$LOCAL_WORLD_SIZE, node \\$SLURM_NODEID\"'\n")
    job.expect_end("COMPLETED", "0:0")
    rank = 0
    for node in range(NODES):
        for local in range(node % 2 + 1):
            job.expect_output(f"rank {rank} of 6, local {local} of {node % 2 + 1}, node {node}\n")
            rank += 1
    cluster.expect_nothing_left()


EVERY = 20  # steps between two checkpoints


def _train(cluster, *flags):
    worker = " ".join(training.worker(cluster, EVERY))
    job = cluster.submit(f"srun --wait=0 --kill-on-bad-exit=0 {cluster.ddprun()} --checkpoint-dir "
                         f"checkpoints {' '.join(flags)} -- {worker}\n")
    cluster.wait_for_step(EVERY + 5)
    return job


def _end_well(cluster, job, times):
    job.expect_end("COMPLETED", "0:0")
    training.expect_interrupted(cluster, job, NODES, times, repeated=EVERY + 1)
    cluster.expect_nothing_left()


def killed_worker(cluster):
    """SIGKILL of a worker: one restart, from a state that all ranks have."""
    job = _train(cluster, "--max-restarts", "1")
    cluster.kill("n3", "^mnist_ddp\\|")
    _end_well(cluster, job, 1)
    job.expect_output(r"rank 2 .* on n3: SIGKILL")


def killed_agents(cluster):
    """SIGKILL of agents, also of the agent beside the rendezvous. Their task shims start them again. The
    rendezvous and the job continue, and --max-restarts counts nothing."""
    job = _train(cluster)
    rendezvous = cluster.pid("n1", "\\|ddprun rendezvous")
    cluster.kill("n3", "^ddprun\\|.*/ddprun ")
    training.wait_for_run(cluster, 1)
    cluster.kill("n1", "^ddprun\\|.*/ddprun ")
    _end_well(cluster, job, 2)
    check(not read(f"/proc/{rendezvous}/comm"), "the rendezvous outlives the job")
    check(job.output().count("starting the rendezvous there") == 1, "one rendezvous for all")
    job.expect_output(r"agent \(pid \d+\) was killed by signal 9 \(Killed\); it is started again")


def doctor(cluster):
    """`ddprun doctor` reports on every node. A node that fails the preflight stays out of the job."""
    job = cluster.submit(f"srun {cluster.ddprun()} doctor --json bash >doctor.json\n"
                         f"srun -n1 -N1 {cluster.ddprun()} doctor --token-file none; echo code $?\n"
                         "srun --wait=0 --kill-on-bad-exit=0 bash -c '[[ $(hostname) != n3 ]] || "
                         f"ulimit -n 200; exec {cluster.ddprun()} --preflight --nnodes 3 "
                         "bash -c \"echo rank \\$RANK of \\$WORLD_SIZE on \\$(hostname)\"'\n")
    # srun reports this for the one node that stayed out.
    job.expect_end("FAILED", "69:0")
    said = read(cluster.path("doctor.json"))
    check(said.count('"ok": true') == NODES and said.count('"name": "ports"') == NODES, said)
    job.expect_output(r"failure +credentials .*none")
    job.expect_output(r"\ncode 1\n")
    job.expect_output(r"this node stays out: preflight: files: at most 200 open files")
    for rank, node in enumerate(("n1", "n2", "n4")):
        job.expect_output(rf"rank {rank} of 3 on {node}\n")
    job.expect_output(r"error: n3: task 2: Exited with exit code 69")
    cluster.expect_nothing_left()


def unfit_first_node(cluster):
    """The node that runs the rendezvous fails the preflight. The rendezvous still runs there, and a spare takes
    the node's place in the job. Without a spare, all nodes end at once and say why."""
    unfit = ("srun --wait=0 --kill-on-bad-exit=0 bash -c '[[ $(hostname) != n1 ]] || ulimit -n 200; "
             f"exec {cluster.ddprun()} --preflight --nnodes ")
    job = cluster.submit(unfit + "3 bash -c \"echo rank \\$RANK of \\$WORLD_SIZE on \\$(hostname)\"'\n"
                         "echo without a spare\n" + unfit + "4 true'\n")
    job.expect_end("FAILED", "69:0")
    for rank, node in enumerate(("n2", "n3", "n4")):
        job.expect_output(rf"rank {rank} of 3 on {node}\n")
    second = job.output().split("without a spare\n")[1]
    why = (r"n1 is left out, for it is not fit \(preflight: files: at most 200 open files.*\), and 3 "
           r"nodes of at least 4 remain")
    check(len(re.findall(rf"job {job.id} failed: {why}", second)) == NODES - 1, second)
    cluster.expect_nothing_left()
