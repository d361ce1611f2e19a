"""A DataLoader with worker processes. "stuck": they hang while their parent is killed."""

import json
import os
import pathlib
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, folder, stuck):
        self.folder = folder
        self.stuck = stuck

    def __len__(self):
        return 16

    def __getitem__(self, index):
        if self.stuck:
            pathlib.Path(self.folder, f"{os.getpid()}.pid").write_text("")
            time.sleep(1000)
        return torch.tensor(float(index))


def main(folder, how):
    rank = int(os.environ["RANK"])
    loader = DataLoader(Numbers(folder, how == "stuck"), batch_size=4, num_workers=2)
    if how == "stuck":
        batches = iter(loader)  # starts the workers
        while len(list(pathlib.Path(folder).glob("*.pid"))) < 4:  # the workers of both ranks
            time.sleep(0.01)
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        next(batches)
    total = sum(batch.sum().item() for batch in loader)
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(total))


if __name__ == "__main__":  # from Python 3.14 on, a DataLoader's processes import this program
    main(sys.argv[1], sys.argv[2])
