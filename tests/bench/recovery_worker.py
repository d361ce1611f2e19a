#!/usr/bin/python3
"""The Python worker of recovery_bench.py; what it does: recovery_worker.cc.

usage: recovery_worker.py FILE      under a launcher
"""
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

LEARNING_RATE = 0.01


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                        nn.Linear(1024, 10))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    images = torch.randn(64, 784)
    target = torch.zeros(64, dtype=torch.long)
    agent = None
    if "DDPRUN_CONTROL_SOCKET" in os.environ:
        agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
    first = True
    while True:
        optimizer.zero_grad()
        functional.cross_entropy(model(images), target).backward()
        optimizer.step()
        if agent is not None:
            agent.send(b"STEP=1")  # a generation without one is followed by a pause
        if first:
            first = False
            generation = os.environ["TORCHELASTIC_RESTART_COUNT"]
            with open(sys.argv[1], "a", encoding="ascii") as file:
                file.write(f"{generation} {dist.get_rank()} {os.getpid()} {time.monotonic_ns()}\n")
        time.sleep(0.02)  # leaves the box to what is measured next


main()
