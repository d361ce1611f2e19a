"""Every rank gathers one object from each rank; the objects have different sizes."""

import json
import pathlib
import sys

import torch.distributed as dist


def main(folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    objects = [None] * dist.get_world_size()
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * (1 + 1000 * rank), "list": [rank]})
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(objects))
    dist.destroy_process_group()


main(sys.argv[1])
