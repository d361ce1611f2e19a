"""A PyTorch worker that reports nothing to its agent: all-reduces until a peer is gone.

usage: python_worker.py STEP_LOG_FOLDER
"""
import os
import sys

import torch
import torch.distributed as dist

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
dist.init_process_group("gloo")
with open(os.path.join(folder, f"rank{dist.get_rank()}.log"), "a", encoding="ascii") as log:
    step = 0
    while True:
        tensor = torch.ones(100_000)
        dist.all_reduce(tensor)
        step += 1
        log.write(f"{step}\n")
        log.flush()
