#!/usr/bin/python3
"""The Python worker of hang_campaign.py: a training whose faulty rank stops moving. hang_trainer.cc does the same in
C++, and describes the arguments and the
files.

usage: hang_trainer.py FOLDER FAULT PLACE RANK module|wrapper|unmodified
With "module" it has a ddprun.Checkpointer, and reports its evaluation. With "wrapper" it reports its steps and its
evaluation, and saves by itself. With "unmodified" it reports nothing.
"""
import contextlib
import fcntl
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = 24
FAULTY_STEP = 12  # a multiple of both numbers below
CHECKPOINT_EVERY = 4
EVALUATE_EVERY = 6
FIFREEZE = 0xC0045877

FOLDER, FAULT, PLACE, FAULTY_RANK, PROGRAM = sys.argv[1:]
RANK = int(os.environ["RANK"])

if PROGRAM != "unmodified":
    import ddprun

    ddprun.record_collectives()


def StopItself():
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.01)


def LoopForEver():
    while True:
        pass


def LockTwice():
    first, second = threading.Lock(), threading.Lock()
    first.acquire()
    locked = threading.Event()

    def other():
        second.acquire()
        locked.set()
        first.acquire()

    threading.Thread(target=other, daemon=True).start()
    locked.wait()
    second.acquire()


def SleepInLoading():
    while True:
        time.sleep(1000)


def ReadFifo():
    fifo = os.open(FOLDER + "/fifo", os.O_RDWR)  # so that open does not wait
    os.read(fifo, 1)
    os.close(fifo)


def ComputeAWhile():
    while time.process_time() < 5:  # loading torch takes 2 s
        pass


def DieAndJoinLate():
    os.kill(os.getpid(), signal.SIGKILL)


def WriteFrozen():
    file = os.open(FOLDER + "/frozen/shard", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"x")
    os.fsync(file)


def WaitForThread():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    batch = threading.Event()
    batch.wait()


def SkipCollective():
    while True:
        time.sleep(1000)


def SleepInLoaderProcess():
    while True:
        time.sleep(1000)


class Shards(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        SleepInLoaderProcess()


def WaitForLoader():
    # Not forkserver, the default from Python 3.14 on: it would import this program again.
    next(iter(DataLoader(Shards(), num_workers=1, multiprocessing_context="fork")))


def SaveFrozen():
    folder = os.open(FOLDER + "/checkpoints", os.O_RDONLY)
    fcntl.ioctl(folder, FIFREEZE, 0)
    os.close(folder)


def note(name="fault"):
    with open(f"{FOLDER}/{name}", "a", encoding="ascii") as file:
        file.write(f"{time.time_ns()}\n")


def fault_at(place):
    here = RANK == int(FAULTY_RANK)
    if os.environ["DDPRUN_GENERATION"] != "0":
        if FAULT == "DieAndJoinLate" and here and place == "before_init":
            ReadFifo()
        return
    if place == "before_init" and not here:
        note("at_init")
    if place != PLACE:
        return
    if FAULT in ("SkipCollective", "MismatchedSize"):
        if here:
            note()
        if here and FAULT == "SkipCollective":
            SkipCollective()
        dist.all_reduce(torch.zeros(3000 if here else 2000))
    elif here and FAULT != "none":
        note()
        globals()[FAULT]()


def evaluation():
    return contextlib.nullcontext() if PROGRAM == "unmodified" else ddprun.phase("evaluation")


def load_batch(step):
    torch.manual_seed(1000 * step + RANK)
    return torch.randn(8, 16)


class OwnStates:
    """Saves and loads as a program without ddprun.Checkpointer does."""

    def __init__(self, model, optimizer):
        self._model, self._optimizer = model, optimizer
        self._path = FOLDER + "/state.pt"

    def load(self):
        """Returns the last finished step."""
        step = 0
        if os.path.exists(self._path):
            state = torch.load(self._path)
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
            step = state["step"]
        dist.barrier()  # all ranks have read the same file
        return step

    def step(self, step):
        if PROGRAM == "wrapper":
            ddprun.step(step)
        fault_after(step)
        if step % CHECKPOINT_EVERY == 0 and RANK == 0:
            torch.save({"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict(),
                        "step": step}, self._path + ".tmp")
            os.replace(self._path + ".tmp", self._path)


class States:
    def __init__(self, model, optimizer):
        self._checkpointer = ddprun.Checkpointer(model, optimizer, directory=FOLDER + "/checkpoints",
                                                 save_every=CHECKPOINT_EVERY)

    def load(self):
        self._checkpointer.load_latest()
        return self._checkpointer.state.step

    def step(self, step):
        fault_after(step)
        self._checkpointer.step(step)


def fault_after(step):
    if step == FAULTY_STEP:
        fault_at("checkpoint")


def main():
    fault_at("before_init")
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(),
                                                        torch.nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    states = (States if PROGRAM == "module" else OwnStates)(model, optimizer)
    step = states.load()
    while step < STEPS:
        faulty = step + 1 == FAULTY_STEP
        if step == 0:
            fault_at("first_step")
        if faulty:
            fault_at("step")
        batch = load_batch(step)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        step += 1
        if RANK == 0:
            note("steps")
        states.step(step)
        if step % EVALUATE_EVERY == 0:
            with evaluation(), torch.no_grad():
                if step == EVALUATE_EVERY:
                    fault_at("first_evaluation")
                if faulty:
                    fault_at("evaluation")
                dist.all_reduce(model.module(batch).sum())
        time.sleep(0.05)
    if RANK == 0:
        with open(FOLDER + "/result", "wb") as file:
            for parameter in model.parameters():
                file.write(parameter.detach().numpy().tobytes())


main()
