#!/usr/bin/python3
"""The workers of stacks_bench.py.

usage: stacks_bench_worker.py sleep THREADS FOLDER     so many threads wait, until SIGTERM
       stacks_bench_worker.py train FOLDER             trains, until SIGTERM, and appends the time at
                                                       which each step is done to FOLDER/RANK.steps
Under a launcher. Each makes FOLDER/RANK.pid once it is at work.
"""
import os
import struct
import sys
import threading
import time


def say_at_work(folder):
    path = os.path.join(folder, f"{os.environ['RANK']}.pid")
    with open(path + ".tmp", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.replace(path + ".tmp", path)


def sleep(threads, folder):
    never = threading.Event()
    for _ in range(threads - 1):
        threading.Thread(target=never.wait, daemon=True).start()
    say_at_work(folder)
    never.wait()


def train(folder):
    import torch
    import torch.distributed as dist
    from torch.nn import functional
    from torch.nn.parallel import DistributedDataParallel

    from ddp_bench_worker import MODELS

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    dist.init_process_group("gloo")
    make, shape = MODELS["mlp-3m"]
    model = DistributedDataParallel(make())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.rand([64] + shape)
    target = torch.randint(10, (64,))
    with open(os.path.join(folder, f"{dist.get_rank()}.steps"), "wb", buffering=0) as steps:
        for step in range(sys.maxsize):
            optimizer.zero_grad(set_to_none=True)
            functional.nll_loss(model(inputs), target).backward()
            optimizer.step()
            steps.write(struct.pack("d", time.monotonic()))
            if step == 20:
                say_at_work(folder)


if sys.argv[1] == "sleep":
    sleep(int(sys.argv[2]), sys.argv[3])
else:
    train(sys.argv[2])
