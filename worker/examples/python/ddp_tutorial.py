"""Trains a linear model on 2,048 random samples, with the code of PyTorch's tutorials for DDP.

The training survives killed workers and lost nodes, without a shared disk. For this it needs only the
lines that are marked `# ddprun`.

    ddprun --nproc-per-node 2 --max-restarts 3 worker/examples/python/ddp_tutorial.py 20

It also runs under torchrun: call `ddprun python-module DIR`, and put DIR on PYTHONPATH.
"""
import argparse
import os

import ddprun  # ddprun
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def make_dataset(size):
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.rand((size, 20), generator=generator),
                         torch.rand((size, 1), generator=generator))


class Trainer:
    def __init__(self, dataset, batch_size):
        gpu = torch.cuda.is_available()
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else "cpu"
        torch.manual_seed(0)
        model = torch.nn.Linear(20, 1).to(self.device)
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.sampler = ddprun.DistributedSampler(dataset)  # ddprun
        self.loader = DataLoader(dataset, batch_size, sampler=self.sampler)
        self.checkpointer = ddprun.Checkpointer(self.model, self.optimizer, sampler=self.sampler)  # ddprun
        self.checkpointer.load_latest()  # ddprun

    def run_batch(self, inputs, targets):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        self.checkpointer.step()  # ddprun
        return loss

    def train(self, epochs):
        for epoch in range(self.checkpointer.state.epoch, epochs):  # ddprun
            self.sampler.set_epoch(epoch)
            loss = None
            for inputs, targets in self.loader:
                loss = self.run_batch(inputs.to(self.device), targets.to(self.device))
            if loss is not None and dist.get_rank() == 0:
                print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
        self.checkpointer.close()  # ddprun


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("epochs", type=int)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--output", help="a file for the weights")
    arguments = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    trainer = Trainer(make_dataset(2048), arguments.batch_size)
    trainer.train(arguments.epochs)
    if arguments.output and dist.get_rank() == 0:
        torch.save(trainer.model.module.state_dict(), arguments.output)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
