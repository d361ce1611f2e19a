"""Rank 1 of three enters a collective that does not match the others: another size, or another operation."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
is_odd = dist.get_rank() == 1
if sys.argv[2] == "size":
    dist.all_reduce(torch.ones(3000 if is_odd else 2000))
elif is_odd:
    dist.broadcast(torch.ones(2000), 0)
else:
    dist.all_reduce(torch.ones(2000))
