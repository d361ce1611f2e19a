"""Commands of PyTorch's documentation of torchrun; only the word torchrun is replaced. They are from docs.pytorch.org,
"torchrun (Elastic Launch)" and "Quickstart" of torch.distributed.elastic. tests/slurm/foreign_scenarios.py has the
commands of Slurm scripts."""
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

import launchers

# One step of DistributedDataParallel, as in PyTorch's tutorial.
SCRIPT = """\
import json, os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.ones(2, 4)).sum().backward()
with open(os.path.join(sys.argv[1], f"rank{dist.get_rank()}.json"), "w") as file:
    json.dump(dist.get_world_size(), file)
dist.barrier()
dist.destroy_process_group()
"""

COMMANDS = {
    "single-node multi-worker": """
        torchrun
            --standalone
            --nnodes=1
            --nproc-per-node=$NUM_TRAINERS
            YOUR_TRAINING_SCRIPT.py out""",
    "stacked single-node multi-worker": """
        torchrun
            --rdzv-backend=c10d
            --rdzv-endpoint=localhost:0
            --nnodes=1
            --nproc-per-node=$NUM_TRAINERS
            YOUR_TRAINING_SCRIPT.py out""",
    "fault tolerant": """
        torchrun
            --nnodes=$NUM_NODES
            --nproc-per-node=$NUM_TRAINERS
            --max-restarts=3
            --rdzv-id=$JOB_ID
            --rdzv-backend=c10d
            --rdzv-endpoint=$HOST_NODE_ADDR
            YOUR_TRAINING_SCRIPT.py out""",
    "elastic": """
        torchrun
            --nnodes=1:4
            --nproc-per-node=$NUM_TRAINERS
            --max-restarts=3
            --rdzv-id=$JOB_ID
            --rdzv-backend=c10d
            --rdzv-endpoint=$HOST_NODE_ADDR
            YOUR_TRAINING_SCRIPT.py out""",
}


class ForeignCommandsTest(unittest.TestCase):
    def run_on(self, nodes, trainers, name):
        """Runs the command once for each node, all on this host, and requires that all ranks have trained
        together."""
        launchers.require_torch(self)
        with socket.socket() as free, tempfile.TemporaryDirectory(prefix="ddprun-python-") as path:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            folder = pathlib.Path(path)
            (folder / "out").mkdir()
            (folder / "YOUR_TRAINING_SCRIPT.py").write_text(SCRIPT)
            (folder / "ddprun").symlink_to(os.environ["DDPRUN"])
            command = " ".join(COMMANDS[name].split()).replace("torchrun", "ddprun", 1)
            environment = launchers._environment({
                "PATH": f"{folder}:{os.environ['PATH']}", "NUM_TRAINERS": str(trainers),
                "NUM_NODES": str(nodes), "JOB_ID": "101", "HOST_NODE_ADDR": f"localhost:{port}"})
            agents = [subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True) for _ in range(nodes)]
            said = [agent.communicate(timeout=launchers.HANG)[0] for agent in agents]
            self.assertEqual([agent.returncode for agent in agents], [0] * nodes, "\n".join(said))
            results = [json.loads(file.read_text()) for file in (folder / "out").glob("*.json")]
            self.assertEqual(results, [nodes * trainers] * (nodes * trainers), "\n".join(said))

    def test_single_node_multi_worker(self):
        self.run_on(1, 2, "single-node multi-worker")

    def test_stacked_single_node_multi_worker(self):
        self.run_on(1, 2, "stacked single-node multi-worker")

    def test_fault_tolerant(self):
        self.run_on(2, 1, "fault tolerant")

    def test_elastic(self):
        self.run_on(4, 1, "elastic")


if __name__ == "__main__":
    unittest.main()
