"""The ranks of a job whose agent serves the store: an all-reduce, and a barrier. Argument: the number of ranks."""

import functools
import os
import signal
import sys

import torch
import torch.distributed as dist


# Debian's torch 2.x is built without libuv, and asks for it by default.
if hasattr(dist.TCPStore, "libuvBackend"):
    sys.modules["torch.distributed.rendezvous"].TCPStore = functools.partial(dist.TCPStore, use_libuv=False)


def rank_of_job():
    dist.init_process_group("gloo")
    numbers = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(numbers)
    dist.barrier()
    os.write(1, f"{int(numbers.item())}\n".encode())  # in one write: all ranks share stdout


def main(count):
    # torch is imported once for all ranks.
    for rank in range(int(count)):
        if os.fork() == 0:
            signal.alarm(100)
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=count)
            rank_of_job()
            os._exit(0)
    for _ in range(int(count)):
        if os.wait()[1] != 0:
            sys.exit(1)


main(*sys.argv[1:])
