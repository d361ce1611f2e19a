"""An unmodified training: in the first generation rank 1 never returns from loading the data of its step 5."""

import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

out = pathlib.Path(sys.argv[1])


def read_the_next_shard(n):
    first = out / "hung.json"
    if dist.get_rank() == 1 and n == 5 and not first.exists():
        first.write_text(json.dumps(os.getpid()))
        time.sleep(1000)
    return torch.ones(2, 4)


def train():
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(10):
        data = read_the_next_shard(n)
        optimizer.zero_grad()
        model(data).sum().backward()
        optimizer.step()


dist.init_process_group("gloo")
train()
