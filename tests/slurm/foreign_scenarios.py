"""Batch scripts written for torchrun; only the word torchrun is replaced."""
import os

from slurm_cluster import NODES

TRAIN = """\
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:], flush=True)
"""


def _run(cluster, script, per_node, arguments):
    for name in ("multinode_torchrun.py", "train.py"):
        with open(cluster.path(name), "w", encoding="utf-8") as file:
            file.write(TRAIN)
    folder = cluster.path("bin")
    os.mkdir(folder)
    with open(os.path.join(folder, "ddprun"), "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {cluster.ddprun()} "$@"\n')
    os.chmod(os.path.join(folder, "ddprun"), 0o755)
    # Only the command `torchrun` is replaced: multinode_torchrun.py is the script's own name.
    script = script.replace("torchrun ", "ddprun ")
    job = cluster.submit(f"export PATH={folder}:$PATH\n{script}")
    job.expect_end("COMPLETED", "0:0")
    for rank in range(NODES * per_node):
        job.expect_output(f"rank {rank} of {NODES * per_node}{arguments}\n")
    cluster.expect_nothing_left()


def script_of_the_ddp_tutorial(cluster):
    """PyTorch's examples, distributed/ddp-tutorial-series/slurm/sbatch_run.sh."""
    _run(cluster, """
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)

echo Node IP: $head_node_ip
export LOGLEVEL=INFO

srun torchrun \\
--nnodes 4 \\
--nproc_per_node 1 \\
--rdzv_id $RANDOM \\
--rdzv_backend c10d \\
--rdzv_endpoint $head_node_ip:29500 \\
multinode_torchrun.py 50 10
""", 1, " 50 10")


def script_with_the_first_host(cluster):
    """The form in the documentation of computing centres: the batch host is the endpoint."""
    _run(cluster, """
export RDZV_HOST=$(hostname)
export RDZV_PORT=29400
srun torchrun \\
    --nnodes=$SLURM_JOB_NUM_NODES \\
    --nproc_per_node=2 \\
    --rdzv_id=$SLURM_JOB_ID \\
    --rdzv_backend=c10d \\
    --rdzv_endpoint=$RDZV_HOST:$RDZV_PORT \\
    train.py --epochs 3
""", 2, " --epochs 3")


def script_with_master_addr(cluster):
    """The form of Hugging Face's guides: static mode, with a node rank."""
    _run(cluster, """
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export MASTER_PORT=9901
srun bash -c 'torchrun \\
 --nproc_per_node 2 --nnodes $SLURM_NNODES --node_rank $SLURM_PROCID \\
 --master_addr $MASTER_ADDR --master_port $MASTER_PORT \\
 train.py'
""", 2, "")
