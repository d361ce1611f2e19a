"""DDP training on Gloo that saves every few steps, loses a worker once, and resumes."""

import json
import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

STEPS = 12
SAVE_EVERY = 4
DIE_AT = 6


def main(folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(7)
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    sampler = DistributedSampler(data, shuffle=True, seed=3)
    batches = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                                                        torch.nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    checkpoint = pathlib.Path(folder, "checkpoint.pt")
    begin = 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["step"]

    losses = []
    for step, (x, y) in enumerate(batches):
        if step >= STEPS:
            break
        if step < begin:
            continue
        if attempt == 0 and step == DIE_AT and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % SAVE_EVERY == 0:
            if rank == 0:
                unfinished = checkpoint.with_suffix(".tmp")
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "step": step + 1}, unfinished)
                os.replace(unfinished, checkpoint)
            dist.barrier()

    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(
        {"attempt": attempt, "begin": begin, "losses": losses, "weights": weights.tolist()}))
    dist.destroy_process_group()


main(sys.argv[1])
