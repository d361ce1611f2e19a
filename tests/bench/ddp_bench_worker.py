#!/usr/bin/python3
"""Python's contestants of ddp_bench.py. ddp_bench_worker.cc describes the work and the output.

usage: ddp_bench_worker.py MODEL ddp|ddp-view WARMUP STEPS [BACKEND DEVICE]     under a launcher
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

BATCH = 64
LEARNING_RATE = 0.01
SEED = 7


class MnistNet(nn.Module):
    """worker/examples/mnist/net.cc"""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 5, bias=False)
        self.norm2 = nn.BatchNorm2d(32)
        self.hidden = nn.Linear(32 * 4 * 4, 128)
        self.dropout = nn.Dropout(0.25)
        self.out = nn.Linear(128, 10)

    def forward(self, images):
        x = torch.max_pool2d(self.conv1(images), 2)
        x = torch.relu(self.norm1(x))
        x = torch.max_pool2d(self.conv2(x), 2)
        x = torch.relu(self.norm2(x))
        x = torch.relu(self.hidden(x.flatten(1)))
        return torch.log_softmax(self.out(self.dropout(x)), 1)


def perceptron(width):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10), nn.LogSoftmax(1))


MODELS = {
    "mlp-3m": (lambda: perceptron(1000), [1000]),
    "mlp-25m": (lambda: perceptron(2900), [2900]),
    "mnist": (MnistNet, [1, 28, 28]),
}


def statistics(model, steps_begun):
    """(steps measured, ms of communication in them, ms of it that backward hid)"""
    measured = max(0, steps_begun - 1)  # a step is measured when the next one begins
    data = model._get_ddp_logging_data()
    return (measured, measured * data.get("avg_backward_comm_time", 0) / 1e6,
            measured * data.get("avg_backward_compute_comm_overlap_time", 0) / 1e6)


def train(name, contestant, warmup, steps, device):
    torch.manual_seed(SEED)
    make, shape = MODELS[name]
    net = make().to(device)
    model = DistributedDataParallel(net, gradient_as_bucket_view=contestant == "ddp-view")
    model._set_ddp_runtime_logging_sample_rate(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    torch.manual_seed(SEED + 1 + dist.get_rank())
    inputs = torch.rand([BATCH] + shape).to(device)
    target = torch.randint(10, (BATCH,)).to(device)

    steps_ms = []
    for step in range(warmup + steps):
        if step == warmup:
            before = statistics(model, step)
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = functional.nll_loss(model(inputs), target)
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if step >= warmup:
            steps_ms.append((time.perf_counter() - start) * 1000)
    measured, comm, hidden = (b - a for a, b in zip(before, statistics(model, warmup + steps)))
    return {"steps_ms": steps_ms, "loss": loss.item(),
            "parameters": sum(p.numel() for p in net.parameters()),
            "comm_ms": comm / measured, "hidden_ms": hidden / measured}


def main():
    name, contestant, warmup, steps = sys.argv[1:5]
    backend, device = sys.argv[5:] or ("gloo", "cpu")
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    device = torch.device(device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    turn = train(name, contestant, int(warmup), int(steps), device)
    if dist.get_rank() == 0:
        print(json.dumps(turn), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
