#!/usr/bin/python3
"""Writes the index lists of PyTorch's DistributedSampler. Tests compare ddprun's lists with them.

    /usr/bin/python3 tests/python/make_sampler_data.py tests/data/sampler

Needs Debian's python3-torch; the files in the repository were made with 1.13.1.
"""

import json
import pathlib
import sys

import torch
from torch.utils.data.distributed import DistributedSampler

# dataset size, replicas, shuffle, seed, epoch, drop_last
CASES = [
    (10, 3, False, 0, 0, False),
    (10, 3, False, 0, 0, True),
    (10, 3, True, 0, 0, False),
    (10, 3, True, 0, 1, False),
    (10, 3, True, 0, 0, True),
    (12, 4, True, 7, 3, False),
    (12, 4, True, 7, 3, True),
    (1, 1, True, 0, 0, False),
    (1, 4, True, 5, 2, False),
    (2, 7, True, 1, 1, False),
    (3, 8, False, 0, 0, False),
    (3, 8, True, 0, 0, True),
    (100, 7, True, 42, 10, False),
    (100, 7, True, 42, 10, True),
    (257, 2, True, 2**40 + 17, 5, False),
]


def indices(size, replicas, shuffle, seed, epoch, drop_last):
    """The list of each rank."""
    result = []
    for rank in range(replicas):
        sampler = DistributedSampler(range(size), replicas, rank, shuffle, seed, drop_last)
        sampler.set_epoch(epoch)
        result.append(list(sampler))
        assert len(result[-1]) == len(sampler)
    return result


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    names = ("dataset_size", "num_replicas", "shuffle", "seed", "epoch", "drop_last")
    cases = [{**dict(zip(names, case)), "indices": indices(*case)} for case in CASES]
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    (target / "distributed_sampler.json").write_text(
        f'{{\n  "torch": "{torch.__version__}",\n  "cases": [\n    {lines}\n  ]\n}}\n')


if __name__ == "__main__":
    main()
