#!/usr/bin/python3
"""The Python worker of recovery_bench.py: trains MNIST's net on made-up images. recovery_worker.cc does the same in
C++, and describes the lines of FILE. This worker writes no line "begin".

usage: recovery_worker.py FILE      under a launcher; its checkpoints are FILE.pt
"""
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from ddp_bench_worker import MnistNet

LEARNING_RATE = 0.01
MOMENTUM = 0.9
SAVE_EVERY = 10  # steps


def save(path, state):
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(MnistNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    images = torch.randn(32, 1, 28, 28)
    target = torch.zeros(32, dtype=torch.long)
    agent = None
    if "DDPRUN_CONTROL_SOCKET" in os.environ:
        agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
    checkpoint = sys.argv[1] + ".pt"
    step = 0
    if os.path.exists(checkpoint):
        found = torch.load(checkpoint)
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        step = found["step"]
    generation = os.environ["TORCHELASTIC_RESTART_COUNT"]
    memory = b""
    first_step = step
    while True:
        optimizer.zero_grad()
        functional.nll_loss(model(images), target).backward()
        optimizer.step()
        step += 1
        with open(sys.argv[1], "a", encoding="ascii") as file:
            file.write(f"step {step} {time.monotonic_ns()} {generation} {dist.get_rank()} {os.getpid()}\n")
        if agent is not None:
            agent.send(f"STEP={step}".encode())  # after a generation without a step, ddprun makes a pause
        if dist.get_rank() == 0 and step % SAVE_EVERY == 0:
            save(checkpoint, {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                              "step": step})
        if step == first_step + 5 and not memory:
            memory = b"m" * (int(os.environ.get("RECOVERY_MEMORY_MB", "0")) << 20)
        if os.path.exists(sys.argv[1] + ".slow"):
            time.sleep(0.1)


main()
