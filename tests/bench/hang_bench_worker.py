#!/usr/bin/python3
"""The training of hang_bench.py: an unmodified script whose rank 1 sleeps for ever in its data loader.

usage: hang_bench_worker.py FILE      under a launcher; rank 1 writes the time at which it falls asleep
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

GOOD_STEPS = 100  # of each rank, before one sleeps


def download(index):
    if dist.get_rank() == 1 and index >= 2 * GOOD_STEPS * 8:
        with open(sys.argv[1] + ".tmp", "w", encoding="ascii") as file:
            file.write(str(time.monotonic()))
        os.replace(sys.argv[1] + ".tmp", sys.argv[1])
        while True:
            time.sleep(3600)
    time.sleep(0.005)
    return torch.full((32,), float(index % 7)), index % 10


class Shards(Dataset):
    def __len__(self):
        return 2 * GOOD_STEPS * 8 + 1000

    def __getitem__(self, index):
        return download(index)


def train():
    model = DistributedDataParallel(torch.nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = Shards()
    for inputs, target in DataLoader(data, batch_size=8, num_workers=0,
                                     sampler=DistributedSampler(data, shuffle=False)):
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), target).backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
train()
