#!/usr/bin/python3
"""The Python worker of ettr_bench.py: an ordinary script that reports nothing to its launcher.

usage: ettr_worker.py PROGRESS STEP_MS      under a launcher; its checkpoints are PROGRESS.pt

Trains MNIST's net on made-up images. Makes a checkpoint every 10 steps, and continues from the newest one.
Appends "begin RANK PID" to PROGRESS before it imports anything. Rank 0 also appends "step NUMBER NANOSECONDS" after
each step. A step lasts STEP_MS: the worker sleeps for the rest of it, like a process that waits for its GPU.
"""
import os
import sys
import time


def note(text):
    with open(sys.argv[1], "a", encoding="ascii") as file:
        file.write(text + "\n")


note(f"begin {os.environ['RANK']} {os.getpid()}")

# pylint: disable=wrong-import-position
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from ddp_bench_worker import MnistNet

SAVE_EVERY = 10  # steps


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(MnistNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(32, 1, 28, 28)
    target = torch.zeros(32, dtype=torch.long)
    checkpoint = sys.argv[1] + ".pt"
    step_time = float(sys.argv[2]) / 1000
    step = 0
    if os.path.exists(checkpoint):
        found = torch.load(checkpoint)
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        step = found["step"]
    step_end = time.monotonic()
    while True:
        optimizer.zero_grad()
        functional.nll_loss(model(images), target).backward()
        optimizer.step()
        step += 1
        if dist.get_rank() == 0:
            note(f"step {step} {time.monotonic_ns()}")
            if step % SAVE_EVERY == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "step": step}, checkpoint + ".tmp")
                os.replace(checkpoint + ".tmp", checkpoint)
        step_end = max(step_end + step_time, time.monotonic())
        time.sleep(max(0.0, step_end - time.monotonic()))


main()
