#!/usr/bin/python3
"""A rank of stacks_bench.py that computes; stacks_bench.py describes its work.

usage: stacks_bench_worker.py FOLDER      under a launcher, until SIGTERM

Appends the time at which each step is done to FOLDER/RANK.steps (doubles of CLOCK_MONOTONIC), and
writes its pid into FOLDER/RANK.pid after some steps.
"""
import os
import struct
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from ddp_bench_worker import MODELS

AT_WORK = 20  # steps


def say_at_work(path):
    with open(path + ".tmp", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.replace(path + ".tmp", path)


def main(folder):
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    dist.init_process_group("gloo")
    make, shape = MODELS["mlp-3m"]
    model = DistributedDataParallel(make())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.rand([64] + shape)
    target = torch.randint(10, (64,))
    mine = os.path.join(folder, str(dist.get_rank()))
    with open(mine + ".steps", "wb", buffering=0) as steps:
        for step in range(sys.maxsize):
            optimizer.zero_grad(set_to_none=True)
            functional.nll_loss(model(inputs), target).backward()
            optimizer.step()
            steps.write(struct.pack("d", time.monotonic()))
            if step == AT_WORK:
                say_at_work(mine + ".pid")


main(sys.argv[1])
